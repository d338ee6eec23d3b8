"""The kernels as ``torch.library`` operators, so that ``torch.compile`` and ``torch.export`` see them whole.

They only compute: derivatives and vmap are in :mod:`gnpool.ops.autograd`, and arguments are checked in
:mod:`gnpool.ops.functional`. The numbers in an index are checked here, when the operator runs. If no tracer or
transform is active, the functions call the kernels directly, since the dispatcher costs as much as a small pooling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnpool.ops.layout import check_range, checking
from gnpool.ops.reference import stats_dtype
from gnpool.ops.registry import kernels

_LIBRARY = torch.library.Library("gnpool", "DEF")

_LIBRARY.define("build_csr(Tensor index, SymInt size, str name) -> (Tensor ptr, Tensor perm)")
_LIBRARY.define(
    "transpose(Tensor source, Tensor? destination, Tensor ptr, SymInt size, bool weighted, str name) "
    "-> (Tensor t_ptr, Tensor t_row, Tensor t_eid)"
)
_LIBRARY.define("checked_ptr(Tensor ptr, SymInt entries, str name) -> Tensor")
_LIBRARY.define("checked_index(Tensor index, SymInt size, str name) -> Tensor")
_LIBRARY.define("checked_sizes(Tensor sizes, Tensor ptr, str name) -> Tensor")
_INPUTS = (
    "Tensor x, Tensor? weight, Tensor ptr, Tensor? col, Tensor? eid, Tensor p, Tensor q, float eps, bool relu, int form"
)
_LIBRARY.define(f"pool({_INPUTS}) -> Tensor")
_LIBRARY.define(f"pool_fwd({_INPUTS}) -> (Tensor y, Tensor extreme, Tensor scale, Tensor slope)")
_LIBRARY.define(
    "pool_bwd(Tensor grad, Tensor x, Tensor? weight, Tensor ptr, Tensor? col, Tensor? eid, Tensor? t_ptr, "
    "Tensor? t_row, Tensor? t_eid, Tensor p, Tensor q, Tensor y, Tensor extreme, Tensor scale, Tensor slope, "
    "float eps, bool relu, int form, bool need_x, bool need_weight) "
    "-> (Tensor grad_x, Tensor grad_weight, Tensor grad_p, Tensor grad_q)"
)

_OPS = torch.ops.gnpool
_N_BWD = len(_OPS.pool_bwd.default._schema.arguments)


def build_csr(index: Tensor, size: int, name: str) -> tuple[Tensor, Tensor | None]:
    """``ptr`` (size + 1,) and ``perm`` (E,) of ``index`` (E,); an IndexError calls it ``name``.

    ``perm`` may be None where nobody watches and the entries are in order: then nothing has to be gathered.
    """
    call = _OPS.build_csr.default if _watched(index) else _build_csr
    result: tuple[Tensor, Tensor | None] = call(index, size, name)
    return result


def transpose(
    source: Tensor, destination: Tensor | None, ptr: Tensor, size: int, weighted: bool, name: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The lists of edges by source, see :func:`gnpool.ops.reference.transpose`; errors call ``source`` so."""
    call = _OPS.transpose.default if _watched(source) or _watched(ptr) else _transpose
    t_ptr, t_row, t_eid = call(source, destination, ptr, size, weighted, name)
    return t_ptr, t_row, t_eid if weighted else None


def checked_ptr(ptr: Tensor, entries: int, name: str) -> Tensor:
    """``ptr`` as int64, after checking that it covers all ``entries``."""
    if _watched(ptr):
        checked: Tensor = _OPS.checked_ptr.default(ptr, entries, name)
        return checked
    _check_ptr(ptr, entries, name)
    return ptr.long()


def checked_index(index: Tensor, size: int, name: str) -> Tensor:
    """``index`` as int64, after checking that it lies in [0, size)."""
    if _watched(index):
        checked: Tensor = _OPS.checked_index.default(index, size, name)
        return checked
    _check_index(index, size, name)
    return index.long()


def checked_sizes(sizes: Tensor, ptr: Tensor, name: str) -> Tensor:
    """``sizes``, after checking those of segments that have entries."""
    if _watched(sizes) or _watched(ptr):
        checked: Tensor = _OPS.checked_sizes.default(sizes.detach(), ptr, name)
        return checked
    _check_sizes(sizes, ptr, name)
    return sizes


def pool(x: Tensor, *rest: Any) -> Tensor:
    """The pooled value alone, for calls that need no derivative."""
    result: Tensor = (_OPS.pool.default if _watched(x) else _pool)(x, *rest)
    return result


def pool_fwd(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """The pooled value and three terms of its derivative; any further tensors save :func:`pool_bwd` work."""
    result: tuple[Tensor, ...] = (_OPS.pool_fwd.default if _watched(x) else _pool_fwd)(x, *rest)
    return result


def pool_bwd(grad: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """The gradients, from the terms of :func:`pool_fwd`; its further tensors come last and may be left out."""
    if _watched(grad):
        result: tuple[Tensor, ...] = _OPS.pool_bwd.default(grad, *rest[: _N_BWD - 1])
        return result
    return _pool_bwd(grad, *rest)


def in_transform() -> bool:
    """Whether a ``torch.func`` transform is active."""
    return torch._C._are_functorch_transforms_active()


def _watched(tensor: Tensor) -> bool:
    """Whether a tracer, a mode, a transform or a tensor subclass must see the operator itself."""
    return (
        torch.compiler.is_compiling()
        or type(tensor) not in (Tensor, torch.nn.Parameter)
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.is_legacy_batchedtensor(tensor)  # of torch.autograd.grad(is_grads_batched=True)
        or in_transform()
    )


def _build_csr(index: Tensor, size: int, name: str) -> tuple[Tensor, Tensor | None]:
    try:
        result: tuple[Tensor, Tensor | None] = kernels(index.device.type).build_csr(index, size)
    except IndexError as error:
        raise IndexError(f"{name} must lie in [0, {size}), {error}") from error
    return result


def _transpose(
    source: Tensor, destination: Tensor | None, ptr: Tensor, size: int, weighted: bool, name: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    try:
        lists: tuple[Tensor, Tensor, Tensor | None] = kernels(source.device.type).transpose(
            source, destination, ptr, size, weighted
        )
    except IndexError as error:
        raise IndexError(f"{name} must lie in [0, {size}), {error}") from error
    return lists


def _transpose_op(*args: Any) -> tuple[Tensor, ...]:
    t_ptr, t_row, t_eid = _transpose(*args)
    weighted = args[4]
    return t_ptr, t_row, t_eid if weighted and t_eid is not None else t_ptr.new_empty(0)


def _build_csr_op(index: Tensor, size: int, name: str) -> tuple[Tensor, Tensor]:
    ptr, perm = _build_csr(index, size, name)
    return ptr, torch.arange(index.numel(), device=index.device) if perm is None else perm


def _check_index(index: Tensor, size: int, name: str) -> None:
    try:
        check_range(index, size)
    except IndexError as error:
        raise IndexError(f"{name} must lie in [0, {size}), {error}") from error


def _checked_index(index: Tensor, size: int, name: str) -> Tensor:
    _check_index(index, size, name)
    return index.to(torch.int64, copy=True)


def _check_ptr(ptr: Tensor, entries: int, name: str) -> None:
    if checking(ptr) and not (int(ptr[0]) == 0 and int(ptr[-1]) == entries and bool((ptr.diff() >= 0).all())):
        raise ValueError(f"{name} must start at 0, never decrease and end at {entries}; got {_brief(ptr)}")


def _checked_ptr(ptr: Tensor, entries: int, name: str) -> Tensor:
    _check_ptr(ptr, entries, name)
    return ptr.to(torch.int64, copy=True)


def _check_sizes(sizes: Tensor, ptr: Tensor, name: str) -> None:
    if not checking(ptr):
        return
    bad = (ptr.diff() > 0) & ~((sizes > 0) & (sizes < torch.inf))
    if bool(bad.any()):
        place = int(bad.nonzero()[0])
        raise ValueError(f"{name} must be above 0 and finite, got {sizes[place].item()} at position {place}")


def _checked_sizes(sizes: Tensor, ptr: Tensor, name: str) -> Tensor:
    _check_sizes(sizes, ptr, name)
    return sizes.clone()


def _brief(ptr: Tensor) -> str:
    values = ptr.tolist()
    return str(values) if len(values) <= 8 else f"[{', '.join(map(str, values[:6]))}, ..., {values[-1]}]"


def _pool(x: Tensor, *rest: Any) -> Tensor:
    y: Tensor = kernels(x.device.type).pool_fwd(x, *rest, False)[0]
    return y


def _pool_fwd(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    result: tuple[Tensor, ...] = kernels(x.device.type).pool_fwd(x, *rest, True)
    return result


def _pool_fwd_op(*args: Any) -> tuple[Tensor, ...]:
    return _pool_fwd(*args)[:4]


def _pool_bwd_op(*args: Any) -> tuple[Tensor, ...]:
    grad_x, grad_weight, grad_p, grad_q = _pool_bwd(*args)
    return grad_x, grad_weight, grad_p.clone(), grad_q.clone()  # outputs of an operator must not share memory


def _pool_bwd(grad: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    result: tuple[Tensor, ...] = kernels(grad.device.type).pool_bwd(grad, *rest)
    return result


def _build_csr_fake(index: Tensor, size: int, name: str) -> tuple[Tensor, Tensor]:
    return index.new_empty(size + 1, dtype=torch.int64), index.new_empty(index.numel(), dtype=torch.int64)


def _transpose_fake(
    source: Tensor, destination: Tensor | None, ptr: Tensor, size: int, weighted: bool, name: str
) -> tuple[Tensor, ...]:
    edges = source.numel()
    return tuple(source.new_empty(n, dtype=torch.int64) for n in (size + 1, edges, edges if weighted else 0))


def _checked_fake(index: Tensor, size: int, name: str) -> Tensor:
    return torch.empty_like(index, dtype=torch.int64)


def _checked_sizes_fake(sizes: Tensor, ptr: Tensor, name: str) -> Tensor:
    torch._check(sizes.numel() == ptr.numel() - 1)
    return torch.empty_like(sizes)


def _pool_fake(x: Tensor, weight: Tensor | None, ptr: Tensor, *rest: Any) -> Tensor:
    return x.new_empty((ptr.numel() - 1, x.size(1)), dtype=stats_dtype(x.dtype))


def _pool_fwd_fake(*args: Any) -> tuple[Tensor, ...]:
    return tuple(_pool_fake(*args) for _ in range(4))


def _pool_bwd_fake(grad: Tensor, x: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    p, q, need_x, need_weight = *rest[6:8], *rest[-2:]
    like = x if weight is None else weight
    return (
        x.new_empty(x.shape if need_x else (0,)),
        like.new_empty(like.shape if need_weight else (0,)),
        p.new_empty(p.shape),
        q.new_empty(q.shape),
    )


def one_by_one(op: Callable[..., Any], info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
    """The last vmap rule: replicas that differ in their lists or weights are computed one by one."""
    calls = [
        op(*(arg if dim is None else arg.select(dim, b) for arg, dim in zip(args, in_dims, strict=True)))
        for b in range(info.batch_size)
    ]
    if isinstance(calls[0], Tensor):
        return torch.stack(calls), 0
    return tuple(torch.stack(column) for column in zip(*calls, strict=True)), (0,) * len(calls[0])


for _name, _kernel, _fake in (
    ("build_csr", _build_csr_op, _build_csr_fake),
    ("transpose", _transpose_op, _transpose_fake),
    ("checked_ptr", _checked_ptr, _checked_fake),
    ("checked_index", _checked_index, _checked_fake),
    ("checked_sizes", _checked_sizes, _checked_sizes_fake),
    ("pool", _pool, _pool_fake),
    ("pool_fwd", _pool_fwd_op, _pool_fwd_fake),
    ("pool_bwd", _pool_bwd_op, _pool_bwd_fake),
):
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"gnpool::{_name}", _fake, lib=_LIBRARY)

for _op in (
    _OPS.build_csr.default,
    _OPS.transpose.default,
    _OPS.checked_ptr.default,
    _OPS.checked_index.default,
    _OPS.checked_sizes.default,
):
    torch.library.register_vmap(_op, functools.partial(one_by_one, _op), lib=_LIBRARY)
