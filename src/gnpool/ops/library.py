"""The kernels as ``torch.library`` operators, so that ``torch.compile`` and ``torch.export`` see them whole.

They compute and nothing else: derivatives and vmap are in :mod:`gnpool.ops.autograd`, arguments are checked in
:mod:`gnpool.ops.functional`. The numbers in an index are checked here, when the operator runs.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from gnpool.ops.layout import check_range, checking
from gnpool.ops.reference import stats_dtype
from gnpool.ops.registry import kernels

_LIBRARY = torch.library.Library("gnpool", "DEF")

_LIBRARY.define("build_csr(Tensor index, SymInt size, str name) -> (Tensor ptr, Tensor perm)")
_LIBRARY.define("checked_ptr(Tensor ptr, SymInt entries, str name) -> Tensor")
_LIBRARY.define("checked_index(Tensor index, SymInt size, str name) -> Tensor")
_LIBRARY.define(
    "pool_fwd(Tensor x, Tensor? weight, Tensor ptr, Tensor? col, Tensor? eid, Tensor p, Tensor q, float eps, "
    "bool relu, bool stats) -> (Tensor y, Tensor extreme, Tensor scale, Tensor slope)"
)
_LIBRARY.define(
    "pool_bwd(Tensor grad, Tensor x, Tensor? weight, Tensor ptr, Tensor? col, Tensor? eid, Tensor? t_ptr, "
    "Tensor? t_row, Tensor? t_eid, Tensor p, Tensor q, Tensor y, Tensor extreme, Tensor scale, Tensor slope, "
    "float eps, bool relu, bool need_x, bool need_weight) "
    "-> (Tensor grad_x, Tensor grad_weight, Tensor grad_p, Tensor grad_q)"
)

build_csr = torch.ops.gnpool.build_csr.default
checked_ptr = torch.ops.gnpool.checked_ptr.default
checked_index = torch.ops.gnpool.checked_index.default
pool_fwd = torch.ops.gnpool.pool_fwd.default
pool_bwd = torch.ops.gnpool.pool_bwd.default


def _build_csr(index: Tensor, size: int, name: str) -> tuple[Tensor, Tensor]:
    with _naming(name, size):
        result: tuple[Tensor, Tensor] = kernels(index.device.type).build_csr(index, size)
    return result


def _checked_index(index: Tensor, size: int, name: str) -> Tensor:
    check_index(index, size, name)
    return index.to(torch.int64, copy=True)


def check_index(index: Tensor, size: int, name: str) -> None:
    """Raise an IndexError that names the first value of ``index`` outside [0, size)."""
    with _naming(name, size):
        check_range(index, size)


@contextlib.contextmanager
def _naming(name: str, size: int) -> Iterator[None]:
    """Say in an IndexError of the kernels which argument it is about."""
    try:
        yield
    except IndexError as error:
        raise IndexError(f"{name} must lie in [0, {size}), {error}") from error


def _checked_ptr(ptr: Tensor, entries: int, name: str) -> Tensor:
    if checking(ptr) and not (int(ptr[0]) == 0 and int(ptr[-1]) == entries and bool((ptr.diff() >= 0).all())):
        raise ValueError(f"{name} must start at 0, never decrease and end at {entries}; got {_brief(ptr)}")
    return ptr.to(torch.int64, copy=True)


def _brief(ptr: Tensor) -> str:
    values = ptr.tolist()
    return str(values) if len(values) <= 8 else f"[{', '.join(map(str, values[:6]))}, ..., {values[-1]}]"


def _pool_fwd(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    result: tuple[Tensor, ...] = kernels(x.device.type).pool_fwd(x, *rest)
    return result


def _pool_bwd(grad: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    result: tuple[Tensor, ...] = kernels(grad.device.type).pool_bwd(grad, *rest)
    return result


def _build_csr_fake(index: Tensor, size: int, name: str) -> tuple[Tensor, Tensor]:
    return index.new_empty(size + 1, dtype=torch.int64), index.new_empty(index.numel(), dtype=torch.int64)


def _checked_fake(index: Tensor, size: int, name: str) -> Tensor:
    return torch.empty_like(index, dtype=torch.int64)


def _pool_fwd_fake(
    x: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    col: Tensor | None,
    eid: Tensor | None,
    p: Tensor,
    q: Tensor,
    eps: float,
    relu: bool,
    stats: bool,
) -> tuple[Tensor, ...]:
    size, dtype = (ptr.numel() - 1, x.size(1)), stats_dtype(x.dtype)
    return tuple(x.new_empty(size if i == 0 or stats else (0,), dtype=dtype) for i in range(4))


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
    """The vmap rule of last resort: replicas that differ in their lists or weights share no pass, one call each."""
    calls = [
        op(*(arg if dim is None else arg.select(dim, b) for arg, dim in zip(args, in_dims, strict=True)))
        for b in range(info.batch_size)
    ]
    if isinstance(calls[0], Tensor):
        return torch.stack(calls), 0
    return tuple(torch.stack(column) for column in zip(*calls, strict=True)), (0,) * len(calls[0])


for _name, _kernel, _fake in (
    ("build_csr", _build_csr, _build_csr_fake),
    ("checked_ptr", _checked_ptr, _checked_fake),
    ("checked_index", _checked_index, _checked_fake),
    ("pool_fwd", _pool_fwd, _pool_fwd_fake),
    ("pool_bwd", _pool_bwd, _pool_bwd_fake),
):
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"gnpool::{_name}", _fake, lib=_LIBRARY)

for _op in (build_csr, checked_ptr, checked_index):
    torch.library.register_vmap(_op, functools.partial(one_by_one, _op), lib=_LIBRARY)
