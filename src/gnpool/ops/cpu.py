"""The Numba backend: what the operator asks of a backend, on CPU tensors."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.ops import cpu_backward, cpu_index, cpu_kernels, cpu_near, cpu_nodes
from gnpool.ops.cpu_math import BLOCK
from gnpool.ops.cpu_threads import run_on_threads, thread_count
from gnpool.ops.form import NORM

#: Elements (entries times channels) below which threads cost more than they give.
_INLINE_BELOW = 1 << 16
#: Uses of a node from which on one power for each node, in place of one for each edge, pays.
_USES = 3
#: Elements of one task: a fraction of a millisecond, and what it reads twice stays in the cache.
_TASK = 1 << 17
_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


def _dense(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _working(x: Tensor, *others: Tensor | None) -> list[Any]:
    """All in the dtype that kernels compute in, that of x or float32."""
    dtype = x.dtype if x.dtype in _TYPES else torch.float32
    return [t if t is None or t.dtype is dtype else t.to(dtype) for t in (x, *others)]


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _sum_rows(values: Tensor) -> Tensor:
    """The sum over the first dimension, by NumPy: torch may split it by the number of threads."""
    return torch.from_numpy(values.numpy().sum(0))


def _launch(kernel: Any, args: tuple[int, ...], eps: Any, threads: int, keep: tuple[Any, ...]) -> None:
    """Runs a kernel that draws tasks from a counter, its first argument; ``keep`` lives as long as any thread runs."""
    if threads == 1:
        kernel((0, *args), eps)
        return
    counter = np.zeros(1, dtype=np.int64)
    full = (counter.ctypes.data, *args)

    def work(keep: tuple[Any, ...] = (*keep, counter)) -> None:
        kernel(full, eps)

    run_on_threads(work, threads)


def _plan(ptr: Tensor, rows: int, entries: int) -> tuple[Tensor | None, int, int]:
    """The long segments: their list, how many, and how many pieces they have."""
    if entries <= cpu_kernels.PIECE:
        return None, 0, 0
    count, slots = cpu_index.plan_kernel(ptr.data_ptr(), rows, 0)
    if not count:
        return None, 0, 0
    long = ptr.new_empty((count, 2))
    cpu_index.plan_kernel(ptr.data_ptr(), rows, long.data_ptr())
    return long, count, slots


def build_csr(index: Tensor, size: int) -> tuple[Tensor, Tensor | None]:
    """Stable counting sort of ``index`` (E,): ptr (size + 1,) and perm (E,), None where the order is right already.

    Raises:
        IndexError: with the first value outside [0, size) and its position.
    """
    index = index.to(torch.int64).contiguous()
    ptr = index.new_empty(size + 1)
    perm = torch.empty_like(index)
    code = cpu_index.sort_kernel(index.data_ptr(), index.numel(), size, ptr.data_ptr(), perm.data_ptr())
    if code >= 0:
        raise IndexError(f"got {int(index[code])} at position {code}")
    return ptr, None if code == cpu_index.ORDERED else perm


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

    Half precision is computed and returned in float32. Where channels went by way of the nodes, their units, flags and
    powers come after the four: :func:`pool_bwd` computes them again if it does not get them.
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
    part = torch.empty((slots, cpu_kernels.PARTS, D), dtype=torch.float64, device="cpu") if n_long else None
    width = min(D, BLOCK)
    span = max(16, _TASK // width)
    tasks = -(-(E + S) // span) * -(-D // BLOCK)
    scalar = _TYPES[x.dtype](eps)
    threads = 1 if (E + S) * D < _INLINE_BELOW else min(thread_count(), tasks)
    flag: Any = None
    by_node, by_edge = False, True
    if col is not None and weight is None and E >= _USES * N:
        center, flag, power, moment = _node_powers(x, p, scalar, relu, form, stats)
        by_node, by_edge = _ways(flag, D)
    near, n_near = None, 0
    if form != NORM:
        near, n_near, by_edge = _near(p, flag)
    skip = flag if near is None else near
    common = (_at(p), _at(q), _at(y), _at(M), _at(C), _at(dydp), _at(long), _at(part))
    sizes = (D, S, tasks, span, int(relu), form, int(stats), n_long)
    args = (_at(x), _at(weight), _at(ptr), _at(col), _at(eid), *common, *sizes)
    keep = (x, weight, ptr, col, eid, p, q, y, M, C, dydp, long, part, flag, near)
    if by_edge:
        _launch(cpu_kernels.fwd_kernel, (*args, _at(skip)), scalar, threads, keep)
    if n_near:
        _launch(cpu_near.near_kernel, (*args, _at(near)), scalar, threads, keep)
    if by_node:
        lists = (_at(power), _at(moment), _at(ptr), _at(col), _at(p), _at(q), _at(center), _at(flag))
        out = (_at(y), _at(M), _at(C), _at(dydp), _at(long), _at(part), D, S, tasks, span, form, int(stats), n_long)
        held = (power, moment, ptr, col, p, q, center, flag, y, M, C, dydp, long, part)
        _launch(cpu_nodes.node_sum_kernel, (*lists, *out), scalar, threads, held)
    if n_long:
        merge = (_at(ptr), *common, D, form, int(stats), n_long)
        cpu_kernels.fwd_merge_kernel(merge, scalar)
        if n_near:
            cpu_near.near_merge_kernel((*merge, _at(near)), scalar)
    return (*terms, center, flag, power) if by_node and stats else terms


def _node_powers(x: Tensor, p: Tensor, eps: Any, relu: bool, form: int, moments: bool) -> tuple[Any, ...]:
    """The units of the channels, which of them are safe, the powers of all nodes there and, if wanted, moments."""
    N, D = x.shape
    blocks = -(-D // BLOCK)
    center, flag = x.new_empty(D), torch.empty(blocks + D, dtype=torch.int8, device="cpu")
    power, moment = torch.empty_like(x), torch.empty_like(x) if moments else None
    args = (_at(x), _at(p), _at(center), _at(flag), _at(power), _at(moment), N, D, int(relu), form, int(moments))
    threads = 1 if N * D < _INLINE_BELOW else min(thread_count(), blocks)
    _launch(cpu_nodes.node_kernel, args, eps, threads, (x, p, center, flag, power, moment))
    return center, flag, power, moment


def _near(p: Tensor, flag: Tensor | None) -> tuple[Tensor, int, bool]:
    """Which channels of the growth form are near p = 0, how many, and whether any is left for ``fwd_kernel``."""
    D = p.numel()
    near = torch.empty(-(-D // BLOCK) + D, dtype=torch.int8, device="cpu")
    count, rest = cpu_near.near_plan_kernel(p.data_ptr(), _at(flag), near.data_ptr(), D)
    return near, count, rest > 0


def _ways(flag: Tensor, D: int) -> tuple[bool, bool]:
    """Whether any channel goes by way of the nodes, and whether any by way of the edges."""
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

    ``nodes`` is what :func:`pool_fwd` gave beside y, M, C and dy/dp.
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
    blocks = -(-D // BLOCK)
    rows = max(1, _TASK // D)
    tasks = n_sums = -(-S // rows)
    pack = x.new_empty((S, 2, D))
    mark = torch.empty((S, blocks), dtype=torch.int8, device="cpu")
    sums = torch.empty((n_sums, 2, D) if n_sums > 1 else (2, D), dtype=torch.float64, device="cpu")
    flag: Tensor | None = None
    by_node, by_edge = False, True
    if t_ptr is not None and weight is None and need_x and not need_weight and E >= _USES * N > 0:
        if nodes:
            center, flag, power = nodes
        else:
            center, flag, power, _ = _node_powers(x, p, scalar, relu, form, moments=False)
            cpu_nodes.node_uniform_kernel((_at(M), _at(center), _at(flag), S, D), scalar)
        by_node, by_edge = _ways(flag, D)
    args: tuple[int, ...] = (_at(grad), _at(ptr), _at(p), _at(y), _at(M), _at(C), _at(dydp))
    args += (_at(pack), _at(mark), _at(sums), D, S, tasks, rows, form, _at(flag))
    threads = 1 if (E + S) * D < _INLINE_BELOW else thread_count()
    keep: tuple[Any, ...] = (grad, ptr, p, y, M, C, dydp, pack, mark, sums, flag)
    _launch(cpu_backward.bwd_segment_kernel, args, scalar, min(threads, tasks), keep)
    if t_ptr is None:
        if need_x and N:
            if col is not None and E < N:
                dx.zero_()
            span = max(16, _TASK // min(D, BLOCK))
            tasks = -(-max(N, E) // span) * blocks
            args = (_at(x), _at(ptr), _at(col), _at(p), _at(pack), _at(mark), _at(dx))
            args += (N, D, S, tasks, span, int(relu), form)
            keep = (x, ptr, col, p, pack, mark, dx)
            _launch(cpu_backward.bwd_rows_kernel, args, scalar, min(threads, tasks), keep)
    elif (need_x or need_weight) and N:
        long, n_long, slots = _plan(t_ptr, N, E)
        part = torch.empty((slots, D), dtype=torch.float64, device="cpu") if n_long else None
        span = max(16, _TASK // D)
        tasks = -(-(E + N) // span)
        dx_at = _at(dx) if need_x else 0
        args = (_at(x), _at(weight), _at(t_ptr), _at(t_row), _at(t_eid), _at(p), _at(pack), _at(mark), dx_at)
        args += (_at(dw) if need_weight else 0, _at(long), _at(part), N, D, tasks, span, int(relu), form)
        args += (n_long, _at(flag))
        keep = (x, weight, t_ptr, t_row, t_eid, p, pack, mark, dx, dw, long, part, flag)
        if by_edge:
            _launch(cpu_backward.bwd_sources_kernel, args, scalar, min(threads, tasks), keep)
        if by_node:
            span = max(16, _TASK // min(D, BLOCK))
            tasks = -(-(E + N) // span) * blocks
            args = (_at(x), _at(t_ptr), _at(t_row), _at(p), _at(pack), _at(power), _at(center), _at(flag), _at(dx))
            keep = (x, t_ptr, t_row, p, pack, power, center, flag, dx, long, part)
            args += (_at(long), _at(part), N, D, tasks, span, int(relu), form, n_long)
            _launch(cpu_nodes.node_slope_kernel, args, scalar, min(threads, tasks), keep)
        if n_long and need_x:
            cpu_backward.bwd_merge_kernel((_at(t_ptr), _at(dx), _at(long), _at(part), D, n_long), scalar)
    dp, dq = (sums if n_sums == 1 else _sum_rows(sums)).unbind(0)
    if x_dtype is not x.dtype:
        dx = dx.to(x_dtype)
    return dx, dw if dw.dtype is weight_dtype else dw.to(weight_dtype), dp, dq
