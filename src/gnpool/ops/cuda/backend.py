"""The Triton backend: the functions that the operator needs from a backend, on CUDA tensors.

float32 and half precision run on the kernels, float64 on the reference. Nothing here waits for the device, because
sizes come from shapes alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gnpool.ops import reference
from gnpool.ops.cuda import arithmetic
from gnpool.ops.cuda.arithmetic import partition_kernel
from gnpool.ops.cuda.backward import (
    merge_bwd_kernel,
    pack_kernel,
    pool_bwd_kernel,
    range_kernel,
    sources_bwd_kernel,
    total_kernel,
    unit_kernel,
)
from gnpool.ops.cuda.forward import merge_fwd_kernel, pool_fwd_kernel
from gnpool.ops.cuda.launch import cdiv, device_of, launch, power_of_2
from gnpool.ops.form import NORM
from gnpool.ops.layout import check_range

#: A tolerance of at least this keeps every u, and 1/u, a normal number.
SAFE = 1e-30
#: Programs of one warp that fill a large device several times; programs of four warps above which they are longer.
PROGRAMS, ENOUGH = 16_384, 1_024
#: Each program is one warp.
WARP = {"num_warps": 1, "maxnreg": 64}
#: Segments that one program packs.
ROWS = 64

#: Types of sorting keys, from the shortest.
_KEYS = (torch.uint8, torch.int16, torch.int32, torch.int64)
#: Values per edge and channel from which two more launches pay for a backward pass without powers per edge.
SHARED_FROM = 1 << 20
#: Binary digits that a power may lose in a gradient if all segments share a unit.
SHARED_DIGITS = 40


class Blocks(NamedTuple):
    """How a launch cuts its work: merge-path steps in a chunk; rows, channels and number of the tiles in a round."""

    CHUNK: int
    R: int
    BD: int
    BR: int
    maxnreg: int = 64  # few, so that many programs access memory at a time


def forward_blocks(D: int, steps: int, gathered: bool) -> Blocks:
    """The cut of the forward kernel, as measured on an H200."""
    return _blocks(D, steps, gathered, 8)


def backward_blocks(D: int, steps: int, gathered: bool, half: bool) -> Blocks:
    """The cut of the backward kernels, measured on an H200 with 64 channels; half precision takes two rows at once."""
    return _blocks(D, steps, gathered, 6, rows=2 if half and D <= 64 and not gathered else 1)


def _blocks(D: int, steps: int, gathered: bool, tiles: int, rows: int = 1) -> Blocks:
    """The rows and channels of a tile: as many values as a warp has threads, or some rows of up to 128 channels."""
    channels = min(128, power_of_2(D))
    wide = gathered and channels == 128
    chunk = _chunk(steps * cdiv(D, channels), wide)
    if arithmetic.INTERPRETED:  # its time depends on the number of instructions, not on the size of a tile
        return Blocks(chunk, 8, channels, 1)
    if gathered:
        tiles = 4 if wide else 5
    return Blocks(chunk, max(rows, 32 // channels), channels, tiles, 96 if wide else 64)


def _chunk(steps: int, wide: bool) -> int:
    """Steps in a chunk: long chunks cost less, but enough of them must fill a large device several times."""
    wanted = 1 << max(0, (steps // PROGRAMS).bit_length() - 1)
    least = (256 if steps > 256 * ENOUGH else 128) if wide else 64
    return max(least, min(1024, wanted))


def build_csr(index: Tensor, size: int) -> tuple[Tensor, Tensor | None]:
    """Compute :func:`gnpool.ops.reference.build_csr` with the shortest keys that hold the numbers.

    torch sorts by counting digits of eight bits and distributing the entries in their order, in one pass for each digit
    of a key. The order is therefore stable and the same on every run. 16-bit keys take a quarter of the passes of 64.
    """
    check_range(index, size)
    kind = next(kind for kind in _KEYS if size <= torch.iinfo(kind).max)
    ordered, perm = torch.sort(index.to(kind), stable=True)
    return torch.searchsorted(ordered, torch.arange(size + 1, dtype=kind, device=index.device)), perm


def transpose(
    source: Tensor, destination: Tensor | None, ptr: Tensor, size: int, weighted: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute :func:`gnpool.ops.reference.transpose`."""
    t_ptr, perm = build_csr(source, size)
    assert perm is not None
    t_row = (reference.destinations(ptr, perm.numel()) if destination is None else destination)[perm]
    return t_ptr, t_row, perm if weighted else None


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
    """Compute :func:`gnpool.ops.reference.pool_fwd`."""
    if x.dtype == torch.float64:
        return reference.pool_fwd(x, weight, ptr, col, eid, p, q, eps, relu, form, stats)
    D, S, E = x.size(1), ptr.numel() - 1, x.size(0) if col is None else col.numel()
    y = x.new_empty((S, D), dtype=torch.float32)
    outputs = (y, torch.empty_like(y), torch.empty_like(y), torch.empty_like(y)) if stats else (y,)
    if S * D == 0:
        return outputs
    x, ptr, p, q = x.contiguous(), ptr.contiguous(), p.contiguous(), q.contiguous()
    weight, col, eid = _lists(weight, col, eid)
    blocks = forward_blocks(D, S + E, col is not None)
    with device_of(x):
        starts, chunks = _partition(ptr, S, E, blocks.CHUNK)
        grid = (chunks, cdiv(D, blocks.BD))
        parts = x.new_empty((chunks, 2, 3 if form == NORM else 4, D), dtype=torch.float32)
        pointers = outputs if stats else outputs * 4  # the last three are not touched
        flags = {"HAS_COL": col is not None, "HAS_W": weight is not None, "HAS_EID": eid is not None}
        launch(
            pool_fwd_kernel, grid, x, _or(weight, x), ptr, _or(col, ptr), _or(eid, ptr), p, q, starts,
            *pointers, parts, eps, S, E, D, int(stats), RELU=relu, DENORMAL=eps < SAFE, EVEN=D % blocks.BD == 0,
            num_warps=1, FORM=form, **blocks._asdict(), **flags,
        )  # fmt: skip
        launch(
            merge_fwd_kernel, grid, ptr, p, q, starts, *pointers, parts, S, E, D, int(stats),
            CHUNK=blocks.CHUNK, DENORMAL=eps < SAFE, FORM=form, BR=4, BD=blocks.BD, **WARP,
        )  # fmt: skip
    return outputs


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
    extreme: Tensor,
    scale: Tensor,
    slope: Tensor,
    eps: float,
    relu: bool,
    form: int,
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute :func:`gnpool.ops.reference.pool_bwd`."""
    if x.dtype == torch.float64:
        lists = (ptr, col, eid, t_ptr, t_row, t_eid)
        terms = (y, extreme, scale, slope)
        return reference.pool_bwd(grad, x, weight, *lists, p, q, *terms, eps, relu, form, need_x, need_weight)
    N, D, S = x.size(0), x.size(1), ptr.numel() - 1
    E = N if col is None else col.numel()
    grad_x = x.new_empty((N, D) if need_x else 0)
    grad_weight = grad.new_empty(0, dtype=x.dtype if weight is None else weight.dtype)
    if S * D == 0 or N == 0:
        grad_p, grad_q = p.new_zeros((2, D))
        return grad_x.zero_(), grad_weight.new_zeros(E if need_weight else 0), grad_p, grad_q
    grad, x, ptr, p = grad.contiguous(), x.contiguous(), ptr.contiguous(), p.contiguous()
    blocks = backward_blocks(D, (S if t_ptr is None else N) + E, t_ptr is not None, x.element_size() == 2)
    columns = cdiv(D, blocks.BD)
    flags = {"RELU": relu, "DENORMAL": eps < SAFE, "NEED_X": need_x, "EVEN": D % blocks.BD == 0, "num_warps": 1}
    with device_of(x):
        if t_ptr is None:
            (col,) = _lists(col)
            starts, chunks = _partition(ptr, S, E, blocks.CHUNK)
            sums = x.new_empty((chunks, 2, D), dtype=torch.float64)
            launch(
                pool_bwd_kernel, (chunks, columns), grad, x, ptr, _or(col, ptr), p, starts, y, extreme,
                scale, slope, grad_x, sums, eps, S, E, D, HAS_COL=col is not None, FORM=form,
                **blocks._asdict(), **flags,
            )  # fmt: skip
        else:
            shared = weight is None and E * D >= SHARED_FROM
            units, fits = _shared_unit(extreme, p, blocks.BD) if shared else (p, p)
            pack = torch.empty_like(extreme)
            sums = x.new_empty((cdiv(S, ROWS), 2, D), dtype=torch.float64)
            launch(
                pack_kernel, (sums.size(0), columns), grad, ptr, p, y, extreme, scale, slope, units, fits,
                pack, sums, S, D, SHARED=shared, FORM=form, ROWS=ROWS, BR=8, BD=blocks.BD, num_warps=4,
            )  # fmt: skip
            t_ptr = t_ptr.contiguous()
            weight, t_row, t_eid = _lists(weight, t_row, t_eid)
            starts, chunks = _partition(t_ptr, N, E, blocks.CHUNK)
            parts = x.new_empty((chunks, 2, D), dtype=torch.float32)
            by_block = x.new_empty((columns, E) if need_weight else 0, dtype=torch.float32)
            launch(
                sources_bwd_kernel, (chunks, columns), x, _or(weight, x), t_ptr, t_row, _or(t_eid, t_ptr),
                p, starts, extreme, pack, units, fits, grad_x, by_block, parts, eps, N, E, D, SHARED=shared,
                HAS_W=weight is not None, HAS_EID=t_eid is not None, NEED_W=need_weight, FORM=form,
                **blocks._asdict(), **flags,
            )  # fmt: skip
            if need_x:
                launch(
                    merge_bwd_kernel, (chunks, columns), t_ptr, starts, grad_x, parts, N, E, D,
                    CHUNK=blocks.CHUNK, BR=4, BD=blocks.BD, num_warps=1,
                )  # fmt: skip
            if need_weight:
                grad_weight = by_block.sum(0).to(grad_weight.dtype)
        grad_p, grad_q = _total(sums)
    return grad_x, grad_weight, grad_p, grad_q


def _shared_unit(extreme: Tensor, p: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """A unit of measure for each channel, and whether it suits each block of channels."""
    S, D = extreme.shape
    columns = cdiv(D, channels)
    each = 4 * ROWS if S * columns > 4 * ROWS * ENOUGH else ROWS // 2  # segments that a program reads
    rows = cdiv(S, each)
    ranges, units = extreme.new_empty((rows, 2, D)), extreme.new_empty(D)
    flags = torch.empty(columns, dtype=torch.int32, device=extreme.device)
    launch(range_kernel, (rows, columns), extreme, ranges, S, D, ROWS=each, BR=16, BD=channels, num_warps=4)
    launch(
        unit_kernel, (columns,), ranges, p, units, flags, rows, D, DIGITS=SHARED_DIGITS, BR=32,
        BD=channels, num_warps=8,
    )  # fmt: skip
    return units, flags


def _total(sums: Tensor) -> Tensor:
    """The sum over the first dimension. All tensors are float64, so that torch's sum converts nothing."""
    rows, width = sums.size(0), sums[0].numel()
    if rows > 4 * ROWS:
        totals = sums.new_empty((cdiv(rows, 4 * ROWS), *sums.shape[1:]))
        grid = (totals.size(0), cdiv(width, 32))
        launch(total_kernel, grid, sums, totals, rows, width, ROWS=4 * ROWS, BR=16, BD=32, num_warps=4)
        sums = totals
    return sums.sum(0)


def _partition(ptr: Tensor, S: int, E: int, chunk: int) -> tuple[Tensor, int]:
    """The segment at which each chunk of the merge path starts, and the number of chunks."""
    chunks = max(1, cdiv(S + E, chunk))
    starts = ptr.new_empty(chunks + 1)
    grid = (cdiv(chunks + 1, 128),)
    launch(
        partition_kernel, grid, ptr, starts, S, E, chunks, CHUNK=chunk, STEPS=max(1, S.bit_length()),
        BLOCK=128, num_warps=4,
    )  # fmt: skip
    return starts, chunks


def _lists(*tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    return tuple(None if t is None else t.contiguous() for t in tensors)


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    """A pointer for an argument that the kernel will not touch."""
    return other if tensor is None else tensor
