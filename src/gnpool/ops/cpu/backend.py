"""The Numba backend: the functions that the operator needs from a backend, on CPU tensors."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gnpool.ops.cpu.arithmetic import BLOCK
from gnpool.ops.cpu.backward import bwd_merge_kernel, bwd_rows_kernel, bwd_segment_kernel, bwd_sources_kernel
from gnpool.ops.cpu.forward import PARTS, PIECE, fwd_kernel, fwd_merge_kernel
from gnpool.ops.cpu.lists import ORDERED, plan_kernel, sort_kernel, transpose_kernel
from gnpool.ops.cpu.near import near_kernel, near_merge_kernel, near_plan_kernel
from gnpool.ops.cpu.nodes import node_kernel, node_slope_kernel, node_sum_kernel, node_uniform_kernel
from gnpool.ops.cpu.threads import run_on_threads, thread_count
from gnpool.ops.form import NORM

#: Elements (entries times channels) below which threads cost more than they save.
_INLINE_BELOW = 1 << 16
#: Mean uses of a node from which one power for each node pays, compared with one for each edge.
_USES = 3
#: Elements in one task: it takes a fraction of a millisecond, and data that it reads twice stays in the cache.
_TASK = 1 << 17
_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


def _dense(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _working(x: Tensor, *others: Tensor | None) -> list[Any]:
    """Convert all tensors to the dtype that kernels compute in: that of x, or float32."""
    dtype = x.dtype if x.dtype in _TYPES else torch.float32
    return [t if t is None or t.dtype is dtype else t.to(dtype) for t in (x, *others)]


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _sum_rows(values: Tensor) -> Tensor:
    """The sum over the first dimension, by NumPy, because torch may split it by the number of threads."""
    return torch.from_numpy(values.numpy().sum(0))


def _numbers(arguments: tuple[Tensor | int | None, ...]) -> tuple[int, ...]:
    """The arguments of a kernel: tensors by their addresses, with 0 for a missing tensor."""
    return tuple(_at(one) if one is None or isinstance(one, Tensor) else one for one in arguments)


def _launch(kernel: Any, arguments: tuple[Tensor | int | None, ...], eps: Any, threads: int) -> None:
    """Run a kernel that draws tasks from a counter, its first argument; tensors live as long as any thread runs."""
    numbers = _numbers(arguments)
    if threads == 1:
        kernel((0, *numbers), eps)
        return
    counter = np.zeros(1, dtype=np.int64)
    full = (counter.ctypes.data, *numbers)

    def work(keep: tuple[Any, ...] = (*arguments, counter)) -> None:
        kernel(full, eps)

    run_on_threads(work, threads)


class _Cut(NamedTuple):
    """How steps (entries and ends of segments) are cut into tasks, by shapes alone, and the number of threads."""

    tasks: int
    span: int  # steps in a task
    threads: int


def _cut(steps: int, D: int, work: int, by_block: bool) -> _Cut:
    """Tasks of ``span`` steps; if they also go by blocks of channels, each task has one block."""
    span = max(16, _TASK // (min(D, BLOCK) if by_block else D))
    tasks = -(-steps // span) * (-(-D // BLOCK) if by_block else 1)
    return _Cut(tasks, span, 1 if work < _INLINE_BELOW else min(thread_count(), tasks))


def _plan(ptr: Tensor, rows: int, entries: int) -> tuple[Tensor | None, int, int]:
    """The long segments: their list, their number, and the number of their pieces."""
    if entries <= PIECE:
        return None, 0, 0
    count, slots = plan_kernel(ptr.data_ptr(), rows, 0)
    if not count:
        return None, 0, 0
    long = ptr.new_empty((count, 2))
    plan_kernel(ptr.data_ptr(), rows, long.data_ptr())
    return long, count, slots


def build_csr(index: Tensor, size: int) -> tuple[Tensor, Tensor | None]:
    """Stable counting sort of ``index`` (E,): ptr (size + 1,) and perm (E,), which is None if the order is right.

    Raises:
        IndexError: For a value outside [0, size); it names the first such value and its position.
    """
    index = index.to(torch.int64).contiguous()
    ptr = index.new_empty(size + 1)
    perm = torch.empty_like(index)
    code = sort_kernel(index.data_ptr(), index.numel(), size, ptr.data_ptr(), perm.data_ptr())
    if code >= 0:
        raise IndexError(f"got {int(index[code])} at position {code}")
    return ptr, None if code == ORDERED else perm


def transpose(
    source: Tensor, destination: Tensor | None, ptr: Tensor, size: int, weighted: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute :func:`gnpool.ops.reference.transpose` by counting; numbers that are not requested are None."""
    source, destination, ptr = _dense(source.long(), None if destination is None else destination.long(), ptr)
    t_ptr, t_row = source.new_empty(size + 1), torch.empty_like(source)
    t_eid = torch.empty_like(source) if weighted else None
    lists = (source.data_ptr(), _at(destination), ptr.data_ptr(), source.numel(), size)
    code = transpose_kernel(*lists, t_ptr.data_ptr(), t_row.data_ptr(), _at(t_eid))
    if code >= 0:
        raise IndexError(f"got {int(source[code])} at position {code}")
    return t_ptr, t_row, t_eid


def pool_fwd(
    x: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    col: Tensor | None,
    eid: Tensor | None,
    p: Tensor,
    q: Tensor,
    eps: float,
    relu: bool,
    form: int,
    stats: bool,
) -> tuple[Tensor, ...]:
    """y, M, C and dy/dp of every segment, (S, D); only y without ``stats``.

    Half precision is computed and returned in float32. If some channels use the powers of nodes, their units, flags and
    powers follow the four results; :func:`pool_bwd` computes these again if it does not get them.
    """
    x, weight = _working(x, weight)
    N, D = x.shape
    S = ptr.numel() - 1
    E = N if col is None else col.numel()
    y = x.new_empty((S, D))
    terms: tuple[Tensor, ...] = (y, x.new_empty((S, D)), x.new_empty((S, D)), x.new_empty((S, D))) if stats else (y,)
    M, C, dydp = terms[1:] if stats else (None, None, None)
    if S == 0 or D == 0:
        return terms
    x, weight, ptr, col, eid, p, q = _dense(x, weight, ptr, col, eid, p, q)
    long, n_long, slots = _plan(ptr, S, E)
    part = torch.empty((slots, PARTS, D), dtype=torch.float64, device="cpu") if n_long else None
    scalar = _TYPES[x.dtype](eps)
    cut = _cut(E + S, D, (E + S) * D, by_block=True)
    nodes: tuple[Any, ...] = (None, None, None, None)
    by_node, by_edge = False, True
    if col is not None and weight is None and E >= _USES * N:
        nodes = _node_powers(x, p, scalar, relu, form, stats)
        by_node, by_edge = _ways(nodes[1], D)
    center, flag, power, moment = nodes
    near, n_near = None, 0
    if form != NORM:
        near, n_near, by_edge = _near(p, flag)
    exponents_and_results = (p, q, y, M, C, dydp, long, part)
    sizes = (D, S, cut.tasks, cut.span, int(relu), form, int(stats), n_long)
    entries = (x, weight, ptr, col, eid, *exponents_and_results, *sizes)
    if by_edge:
        _launch(fwd_kernel, (*entries, flag if near is None else near), scalar, cut.threads)
    if n_near:
        _launch(near_kernel, (*entries, near), scalar, cut.threads)
    if by_node:
        lists = (power, moment, ptr, col, p, q, center, flag, y, M, C, dydp, long, part)
        _launch(node_sum_kernel, (*lists, D, S, cut.tasks, cut.span, form, int(stats), n_long), scalar, cut.threads)
    if n_long:
        merge = _numbers((ptr, *exponents_and_results, D, form, int(stats), n_long))
        fwd_merge_kernel(merge, scalar)
        if n_near:
            near_merge_kernel((*merge, _at(near)), scalar)
    return (*terms, center, flag, power) if by_node and stats else terms


def _node_powers(x: Tensor, p: Tensor, eps: Any, relu: bool, form: int, moments: bool) -> tuple[Any, ...]:
    """The units of the channels, which of them are safe, the powers of all nodes there and, if wanted, moments."""
    N, D = x.shape
    blocks = -(-D // BLOCK)
    center, flag = x.new_empty(D), torch.empty(blocks + D, dtype=torch.int8, device="cpu")
    power, moment = torch.empty_like(x), torch.empty_like(x) if moments else None
    threads = 1 if N * D < _INLINE_BELOW else min(thread_count(), blocks)
    _launch(node_kernel, (x, p, center, flag, power, moment, N, D, int(relu), form, int(moments)), eps, threads)
    return center, flag, power, moment


def _near(p: Tensor, flag: Tensor | None) -> tuple[Tensor, int, bool]:
    """Which channels of the growth form are near p = 0, how many, and whether any is left for ``fwd_kernel``."""
    D = p.numel()
    near = torch.empty(-(-D // BLOCK) + D, dtype=torch.int8, device="cpu")
    count, rest = near_plan_kernel(p.data_ptr(), _at(flag), near.data_ptr(), D)
    return near, count, rest > 0


def _ways(flag: Tensor, D: int) -> tuple[bool, bool]:
    """Whether any channel is computed by nodes, and whether any by edges."""
    channels = flag[-D:]
    return bool(channels.any()), not bool(channels.all())


def pool_bwd(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    col: Tensor | None,
    eid: Tensor | None,
    t_ptr: Tensor | None,
    t_row: Tensor | None,
    t_eid: Tensor | None,
    p: Tensor,
    q: Tensor,
    y: Tensor,
    M: Tensor,
    C: Tensor,
    dydp: Tensor,
    eps: float,
    relu: bool,
    form: int,
    need_x: bool,
    need_weight: bool,
    *nodes: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dx (N, D), dw (E,), dp and dq (D,) in float64; dx and dw are empty where not needed.

    ``nodes`` is what :func:`pool_fwd` returned after y, M, C and dy/dp.
    """
    x_dtype, weight_dtype = x.dtype, x.dtype if weight is None else weight.dtype
    x, grad, weight = _working(x, grad, weight)
    N, D = x.shape
    S = ptr.numel() - 1
    E = N if col is None else col.numel()
    dx = x.new_empty((N, D) if need_x else 0)
    dw = x.new_empty(E if need_weight else 0)
    if S == 0 or D == 0:
        dp, dq = x.new_zeros((2, D), dtype=torch.float64).unbind(0)
        return dx.zero_().to(x_dtype), dw.zero_().to(weight_dtype), dp, dq
    grad, x, weight, ptr, col, p = _dense(grad, x, weight, ptr, col, p)
    t_ptr, t_row, t_eid, y, M, C, dydp = _dense(t_ptr, t_row, t_eid, y, M, C, dydp)
    scalar = _TYPES[x.dtype](eps)
    by_node, by_edge = False, True
    if t_ptr is not None and weight is None and need_x and not need_weight and E >= _USES * N > 0:
        if not nodes:
            nodes = _node_powers(x, p, scalar, relu, form, moments=False)[:3]
            node_uniform_kernel(_numbers((M, *nodes[:2], S, D)), scalar)
        by_node, by_edge = _ways(nodes[1], D)
    center, flag, power = nodes if by_node or not by_edge else (None, None, None)
    pack, mark, sums = _packed(grad, ptr, p, (y, M, C, dydp), flag, form, scalar, (E + S) * D)
    if t_ptr is None:
        if need_x and N:
            _rows_slopes(x, ptr, col, p, pack, mark, dx, scalar, relu, form)
    elif (need_x or need_weight) and N:
        long, n_long, slots = _plan(t_ptr, N, E)
        part = torch.empty((slots, D), dtype=torch.float64, device="cpu") if n_long else None
        to_x = dx if need_x else None
        if by_edge:
            cut = _cut(E + N, D, (E + S) * D, by_block=False)
            inputs = (x, weight, t_ptr, t_row, t_eid, p, pack, mark, to_x, dw if need_weight else None, long, part)
            sizes = (N, D, cut.tasks, cut.span, int(relu), form, n_long)
            _launch(bwd_sources_kernel, (*inputs, *sizes, flag), scalar, cut.threads)
        if by_node:
            cut = _cut(E + N, D, (E + S) * D, by_block=True)
            lists = (x, t_ptr, t_row, p, pack, power, center, flag, dx, long, part)
            sizes = (N, D, cut.tasks, cut.span, int(relu), form, n_long)
            _launch(node_slope_kernel, (*lists, *sizes), scalar, cut.threads)
        if n_long and need_x:
            bwd_merge_kernel(_numbers((t_ptr, dx, long, part, D, n_long)), scalar)
    dp, dq = sums.unbind(0)
    if x_dtype is not x.dtype:
        dx = dx.to(x_dtype)
    return dx, dw if dw.dtype is weight_dtype else dw.to(weight_dtype), dp, dq


def _packed(
    grad: Tensor,
    ptr: Tensor,
    p: Tensor,
    terms: tuple[Tensor, ...],
    flag: Tensor | None,
    form: int,
    eps: Any,
    work: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The data that entries need from their segments: M and grad C, (S, 2, D), marks, and sums dp and dq, (2, D)."""
    S, D = grad.shape
    rows = max(1, _TASK // D)
    tasks = -(-S // rows)
    pack = grad.new_empty((S, 2, D))
    mark = torch.empty((S, -(-D // BLOCK)), dtype=torch.int8, device="cpu")
    sums = torch.empty((tasks, 2, D), dtype=torch.float64, device="cpu")
    threads = 1 if work < _INLINE_BELOW else min(thread_count(), tasks)
    _launch(bwd_segment_kernel, (grad, ptr, p, *terms, pack, mark, sums, D, S, tasks, rows, form, flag), eps, threads)
    return pack, mark, sums[0] if tasks == 1 else _sum_rows(sums)


def _rows_slopes(
    x: Tensor,
    ptr: Tensor,
    col: Tensor | None,
    p: Tensor,
    pack: Tensor,
    mark: Tensor,
    dx: Tensor,
    eps: Any,
    relu: bool,
    form: int,
) -> None:
    """dx (N, D) if each row is used at most once."""
    N, D = x.shape
    S, E = ptr.numel() - 1, N if col is None else col.numel()
    if E < N:
        dx.zero_()
    cut = _cut(max(N, E), D, (E + S) * D, by_block=True)
    sizes = (N, D, S, cut.tasks, cut.span, int(relu), form)
    _launch(bwd_rows_kernel, (x, ptr, col, p, pack, mark, dx, *sizes), eps, cut.threads)
