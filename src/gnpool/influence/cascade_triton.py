"""Cascades on a GPU: the Triton kernels; ``cascade_cuda.py`` launches them.

Words are laid out (N, W): row v holds 64 cascades in each of W blocks. A program owns a row and a stretch of blocks,
and pulls from the sources of its in-edges, so that nothing is written twice. Random bits are those of the CPU.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# ruff: noqa: D103 -- the parameters are described where cascade_cuda.py launches the kernels

from __future__ import annotations

import triton
import triton.language as tl

GAMMA = tl.constexpr(0x9E3779B97F4A7C15)
M1 = tl.constexpr(0xBF58476D1CE4E5B9)
M2 = tl.constexpr(0x94D049BB133111EB)


@triton.jit
def _mix(z):
    z = (z ^ (z >> 30)) * M1
    z = (z ^ (z >> 27)) * M2
    return z ^ (z >> 31)


@triton.jit
def _any(words):
    return tl.max((words != 0).to(tl.int32), axis=0) > 0


@triton.jit
def spread_kernel(frontier, active, coming, changed, in_ptr, in_source, threshold, salt, keys, W, BW: tl.constexpr):
    i_v = tl.program_id(0).to(tl.int64)
    o_w = tl.program_id(1) * BW + tl.arange(0, BW)
    m_w = o_w < W
    b_key = tl.load(keys + o_w, mask=m_w, other=0).to(tl.uint64, bitcast=True)
    p_own = i_v * W + o_w
    b_active = tl.load(active + p_own, mask=m_w, other=-1).to(tl.uint64, bitcast=True)
    b_before = b_active
    for e in range(tl.load(in_ptr + i_v), tl.load(in_ptr + i_v + 1)):
        i_u = tl.load(in_source + e)
        b_word = tl.load(frontier + i_u * W + o_w, mask=m_w, other=0).to(tl.uint64, bitcast=True)
        b_open = b_word & ~b_active
        if _any(b_open):
            digits = tl.load(threshold + e).to(tl.uint64, bitcast=True)
            if digits == 0xFFFFFFFFFFFFFFFF:
                b_active |= b_open
            else:
                b_stream = _mix(b_key + tl.load(salt + e).to(tl.uint64, bitcast=True))
                undecided = True
                while undecided:
                    b_stream += GAMMA
                    b_random = _mix(b_stream)
                    if (digits >> 63) != 0:  # digit 1: a random 0 is below
                        b_active |= b_open & ~b_random
                        b_open &= b_random
                    else:  # digit 0: a random 1 is above
                        b_open &= ~b_random
                    digits = digits << 1
                    undecided = _any(b_open) & (digits != 0)
    b_new = b_active ^ b_before
    tl.store(coming + p_own, b_new.to(tl.int64, bitcast=True), mask=m_w)
    if _any(b_new):
        tl.store(active + p_own, b_active.to(tl.int64, bitcast=True), mask=m_w)
        tl.store(changed, 1)


@triton.jit
def count_kernel(frontier, counts, N, W, blocks, BW: tl.constexpr):
    """counts[s, v]: how many cascades of set s have node v in the frontier."""
    i_v = tl.program_id(0).to(tl.int64)
    i_s = tl.program_id(1)
    b_total = tl.zeros((BW,), dtype=tl.int32)
    for first in range(0, blocks, BW):
        o_b = first + tl.arange(0, BW)
        w = tl.load(frontier + i_v * W + i_s * blocks + o_b, mask=o_b < blocks, other=0).to(tl.uint64, bitcast=True)
        w = w - ((w >> 1) & 0x5555555555555555)
        w = (w & 0x3333333333333333) + ((w >> 2) & 0x3333333333333333)
        w = (w + (w >> 4)) & 0x0F0F0F0F0F0F0F0F
        b_total += ((w * 0x0101010101010101) >> 56).to(tl.int32)
    tl.store(counts + i_s.to(tl.int64) * N + i_v, tl.sum(b_total, axis=0))


@triton.jit
def size_kernel(active, sizes, N, W, ROWS: tl.constexpr, BW: tl.constexpr):
    """sizes[w, lane] gains the active nodes of ROWS rows."""
    o_w = tl.program_id(0) * BW + tl.arange(0, BW)
    m_w = o_w < W
    o_lane = tl.arange(0, 64)
    first = tl.program_id(1).to(tl.int64) * ROWS
    b_size = tl.zeros((BW, 64), dtype=tl.int32)
    for r in range(first, tl.minimum(first + ROWS, N)):
        b_word = tl.load(active + r * W + o_w, mask=m_w, other=0)
        b_size += ((b_word[:, None] >> o_lane[None, :]) & 1).to(tl.int32)
    tl.atomic_add(sizes + o_w[:, None] * 64 + o_lane[None, :], b_size, mask=m_w[:, None])
