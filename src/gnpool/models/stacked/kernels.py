"""GNP of a stack on a GPU, in eight kernels; gnp.py has the formulas that they compute.

A stack has R parts of N rows with D channels; the pattern has M rows in each part. ``pq`` (R, 4) are the exponents p
and q of the positive and of the negative branch in float64; channels from POSITIVE on are negative. Powers are float32
or float64. Every program sums in an order that depends only on shapes: the same input gives the same bits.

Prefixes: i_ program index, o_ offsets, m_ mask, b_ values in registers.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,assignment"

from __future__ import annotations

import triton
import triton.language as tl

LN2 = tl.constexpr(0.6931471805599453)
LINEAR = tl.constexpr(20.0)  # above it, softplus equals its argument, as in torch


@triton.jit
def log2_of(b):
    """log2 of values that may be 0, or NaN, which stays."""
    return tl.where(b == 0, -float("inf"), tl.log2(tl.where(b == 0, 1.0, b)))


@triton.jit
def size_of(b, NONNEG: tl.constexpr):
    """The value that is pooled of x. All comparisons let NaN pass."""
    if NONNEG == "abs":
        b = tl.abs(b)
    if NONNEG == "relu":
        b = tl.where(b <= 0, 0.0, b)
    return b


@triton.jit(do_not_specialize=["R"])
def exponents_kernel(raw, pq, R, P_MAX: tl.constexpr, BLOCK: tl.constexpr):
    """(R, 4) parameters t, t, q, q -> (R, 4) exponents p > 1, p < -1, q, q."""
    o_part = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o_part < R
    for k in tl.static_range(2):
        b_t = tl.load(raw + 4 * o_part + k, mask=m, other=0.0).to(tl.float64)
        b_soft = tl.where(b_t > LINEAR, b_t, tl.log(1.0 + tl.exp(tl.minimum(b_t, LINEAR))))
        b_p = tl.minimum(1.0 + b_soft, tl.full((), P_MAX, tl.float64))
        tl.store(pq + 4 * o_part + k, b_p if k == 0 else -b_p, mask=m)
        tl.store(pq + 4 * o_part + 2 + k, tl.load(raw + 4 * o_part + 2 + k, mask=m, other=0.0).to(tl.float64), mask=m)


@triton.jit(do_not_specialize=["N", "LENGTH"])
def extremes_kernel(
    x, extremes, N, D, LENGTH,
    EPS: tl.constexpr, POSITIVE: tl.constexpr, NONNEG: tl.constexpr,
    CHUNKS: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """log2 of the largest value of LENGTH rows, or minus that of the smallest where p < 0: (R, CHUNKS, D)."""
    i_part, i_chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    dtype = x.dtype.element_ty
    o_d = tl.program_id(2) * BD + tl.arange(0, BD)
    m_d = o_d < D
    eps = tl.full((), EPS, dtype)
    b_sign = tl.where(o_d < POSITIVE, 1.0, -1.0).to(dtype)
    b_best = tl.full((BD,), -float("inf"), dtype)
    end = tl.minimum((i_chunk + 1) * LENGTH, N)
    for first in range(i_chunk * LENGTH, end, BN):
        o_n = first + tl.arange(0, BN)
        m = (o_n < end)[:, None] & m_d[None, :]
        b_v = size_of(tl.load(x + (i_part * N + o_n)[:, None] * D + o_d[None, :], mask=m, other=0.0), NONNEG)
        m_in = m & ((b_sign > 0)[None, :] | ~(b_v <= eps))
        b_best = tl.maximum(b_best, tl.max(tl.where(m_in, b_sign[None, :] * log2_of(b_v + eps), -float("inf")), 0))
    tl.store(extremes + (i_part * CHUNKS + i_chunk) * D + o_d, b_best, mask=m_d)


@triton.jit(do_not_specialize=["N", "BLOCKS"])
def powers_kernel(
    x, pq, extremes, centre, power, N, D, BLOCKS,
    EPS: tl.constexpr, OFFSET: tl.constexpr, POSITIVE: tl.constexpr, NONNEG: tl.constexpr,
    CHUNKS: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Powers of the rows relative to the extreme of their part (R, N, D), and log2 of the extreme (R, D)."""
    i_part, i_block = (tl.program_id(0) // BLOCKS).to(tl.int64), tl.program_id(0) % BLOCKS
    dtype = x.dtype.element_ty
    wide = power.dtype.element_ty
    o_d = tl.program_id(1) * BD + tl.arange(0, BD)
    m_d = o_d < D
    eps = tl.full((), EPS, dtype)
    o_c = i_part * CHUNKS + tl.arange(0, CHUNKS)
    b_best = tl.max(tl.load(extremes + o_c[:, None] * D + o_d[None, :], mask=m_d[None, :], other=0.0), 0)
    b_centre = tl.where(b_best == -float("inf"), 0.0, tl.where(o_d < POSITIVE, b_best, -b_best))
    if i_block == 0:
        tl.store(centre + i_part * D + o_d, b_centre, mask=m_d)
    o_n = i_block * BN + tl.arange(0, BN)
    m = (o_n < N)[:, None] & m_d[None, :]
    o = (i_part * N + o_n)[:, None] * D + o_d[None, :]
    b_v = size_of(tl.load(x + o, mask=m, other=0.0), NONNEG)
    b_p = tl.load(pq + 4 * i_part + (o_d >= POSITIVE).to(tl.int32)).to(wide)
    b_ratio = log2_of(b_v + eps) - b_centre[None, :]
    m_in = (o_d < POSITIVE)[None, :] | ~(b_v <= eps)
    tl.store(power + o, tl.where(m_in, tl.exp2(b_p[None, :] * b_ratio.to(wide) + OFFSET), 0.0), mask=m)


@triton.jit
def gathered(
    source, ptr, col, values, o_r, m_r, o_d, D,
    WEIGHTED: tl.constexpr, POSITIVE: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The sum over the entries of BR rows of ``source`` at their columns, and the numbers of entries."""
    wide = source.dtype.element_ty
    m_d = o_d < D
    begin = tl.load(ptr + o_r, mask=m_r, other=0)
    end = tl.load(ptr + o_r + 1, mask=m_r, other=0)
    b_sum = tl.zeros((BR, BD), wide)
    for first in range(0, tl.max(end - begin, 0), BE):
        o_e = begin[:, None] + first + tl.arange(0, BE)[None, :]
        m_e = o_e < end[:, None]
        b_col = tl.load(col + o_e, mask=m_e, other=0)
        m = m_e[:, :, None] & m_d[None, None, :]
        b = tl.load(source + b_col[:, :, None] * D + o_d[None, None, :], mask=m, other=0.0)
        if WEIGHTED:
            o_v = 2 * o_e[:, :, None] + (o_d >= POSITIVE).to(tl.int32)[None, None, :]
            b = b * tl.load(values + o_v, mask=m, other=0.0)
        b_sum += tl.sum(b, 1)
    return b_sum, end - begin


@triton.jit(do_not_specialize=["ROWS", "M"])
def pool_kernel(
    power, ptr, col, values, pq, centre, shift, total, y, ROWS, M, D,
    OFFSET: tl.constexpr, WEIGHTED: tl.constexpr, POSITIVE: tl.constexpr,
    BR: tl.constexpr, BE: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Sums of powers and pooled values of BR rows of the pattern; 0 for an empty sum."""
    o_r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    m_r = o_r < ROWS
    o_d = tl.program_id(1) * BD + tl.arange(0, BD)
    m = m_r[:, None] & (o_d < D)[None, :]
    b_total, b_count = gathered(power, ptr, col, values, o_r, m_r, o_d, D, WEIGHTED, POSITIVE, BR, BE, BD)
    wide = power.dtype.element_ty
    b_part = o_r // M
    o_b = b_part[:, None] * 4 + (o_d >= POSITIVE).to(tl.int32)[None, :]
    b_p = tl.load(pq + o_b, mask=m, other=1.0).to(wide)
    b_q = tl.load(pq + o_b + 2, mask=m, other=0.0).to(wide)
    b_log = (tl.log2(tl.where(b_total == 0, 1.0, b_total)) - OFFSET) / b_p
    b_log += tl.load(centre + b_part[:, None] * D + o_d[None, :], mask=m, other=0.0).to(wide)
    if WEIGHTED:
        o_s = b_part[:, None] * 2 + (o_d >= POSITIVE).to(tl.int32)[None, :]
        b_log += tl.load(shift + o_s, mask=m, other=0.0).to(wide)
    b_log -= b_q * tl.log2(tl.maximum(b_count, 1).to(wide))[:, None]
    o = o_r[:, None] * D + o_d[None, :]
    tl.store(total + o, b_total, mask=m)
    tl.store(y + o, tl.where(b_total == 0, 0.0, tl.exp2(b_log)).to(y.dtype.element_ty), mask=m)


@triton.jit(do_not_specialize=["M", "PARTS", "BLOCKS"])
def slopes_kernel(
    grad, y, total, ptr, pull, sums, M, D, PARTS, BLOCKS,
    OFFSET: tl.constexpr, POSITIVE: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """g y / S, and the sums of g y log2 S and of g y log2 n of BR rows for each branch: (4, R, BLOCKS)."""
    i_part, i_block = (tl.program_id(0) // BLOCKS).to(tl.int64), tl.program_id(0) % BLOCKS
    wide = total.dtype.element_ty
    o_m = i_block * BR + tl.arange(0, BR)
    m_r = o_m < M
    o_r = i_part * M + o_m
    b_n = tl.load(ptr + o_r + 1, mask=m_r, other=0) - tl.load(ptr + o_r, mask=m_r, other=0)
    b_count = tl.log2(tl.maximum(b_n, 1).to(wide))[:, None]
    total_pos, total_neg = tl.full((), 0.0, tl.float64), tl.full((), 0.0, tl.float64)
    count_pos, count_neg = tl.full((), 0.0, tl.float64), tl.full((), 0.0, tl.float64)
    for first in range(0, D, BD):
        o_d = first + tl.arange(0, BD)
        m = m_r[:, None] & (o_d < D)[None, :]
        o = o_r[:, None] * D + o_d[None, :]
        b_s = tl.load(total + o, mask=m, other=0.0)
        b_safe = tl.where(b_s == 0, 1.0, b_s)
        b_pull = tl.load(grad + o, mask=m, other=0.0).to(wide) * tl.load(y + o, mask=m, other=0.0).to(wide)
        tl.store(pull + o, b_pull / b_safe, mask=m)
        b_log = tl.where(b_s == 0, 0.0, b_pull * (tl.log2(b_safe) - OFFSET))
        m_pos = (o_d < POSITIVE)[None, :]
        total_pos += tl.sum(tl.where(m_pos, b_log, 0.0)).to(tl.float64)
        total_neg += tl.sum(tl.where(m_pos, 0.0, b_log)).to(tl.float64)
        count_pos += tl.sum(tl.where(m_pos, b_pull * b_count, 0.0)).to(tl.float64)
        count_neg += tl.sum(tl.where(m_pos, 0.0, b_pull * b_count)).to(tl.float64)
    o = i_part * BLOCKS + i_block
    tl.store(sums + o, total_pos)
    tl.store(sums + PARTS * BLOCKS + o, total_neg)
    tl.store(sums + 2 * PARTS * BLOCKS + o, count_pos)
    tl.store(sums + 3 * PARTS * BLOCKS + o, count_neg)


@triton.jit(do_not_specialize=["N", "PARTS", "BLOCKS"])
def rows_kernel(
    x, power, centre, pull, ptr, col, values, owner, by_x, sums, N, D, PARTS, BLOCKS,
    EPS: tl.constexpr, WEIGHTED: tl.constexpr, OWNED: tl.constexpr, WANTED: tl.constexpr,
    POSITIVE: tl.constexpr, NONNEG: tl.constexpr, BR: tl.constexpr, BE: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The gradient in BR rows of x, and, by branch, the part of p's gradient from logarithms of ratios: (2, R, BLOCKS).

    A row collects from the entries of the transposed pattern, or from the one row that owns it (-1: none).
    """
    i_part, i_block = (tl.program_id(0) // BLOCKS).to(tl.int64), tl.program_id(0) % BLOCKS
    dtype = x.dtype.element_ty
    wide = power.dtype.element_ty
    eps = tl.full((), EPS, dtype)
    o_n = i_block * BR + tl.arange(0, BR)
    m_r = o_n < N
    o_r = i_part * N + o_n
    inner_pos, inner_neg = tl.full((), 0.0, tl.float64), tl.full((), 0.0, tl.float64)
    for first in range(0, D, BD):
        o_d = first + tl.arange(0, BD)
        m = m_r[:, None] & (o_d < D)[None, :]
        if OWNED:
            b_owner = tl.load(owner + o_r, mask=m_r, other=-1)
            m_owned = m & (b_owner >= 0)[:, None]
            b_pulled = tl.load(pull + b_owner[:, None] * D + o_d[None, :], mask=m_owned, other=0.0)
        else:
            b_pulled, _ = gathered(pull, ptr, col, values, o_r, m_r, o_d, D, WEIGHTED, POSITIVE, BR, BE, BD)
        o = o_r[:, None] * D + o_d[None, :]
        b_x = tl.load(x + o, mask=m, other=0.0)
        b_v = size_of(b_x, NONNEG)
        b_power = tl.load(power + o, mask=m, other=0.0)
        b_share = b_power * b_pulled
        b_centre = tl.load(centre + i_part * D + o_d, mask=o_d < D, other=0.0)
        b_ratio = log2_of(b_v + eps) - b_centre[None, :]
        b_inner = tl.where(b_power == 0, 0.0, b_share * b_ratio.to(wide))  # without a tolerance the ratio may be -inf
        m_pos = (o_d < POSITIVE)[None, :]
        inner_pos += tl.sum(tl.where(m_pos, b_inner, 0.0)).to(tl.float64)
        inner_neg += tl.sum(tl.where(m_pos, 0.0, b_inner)).to(tl.float64)
        if WANTED:
            b_slope = b_share / tl.where(b_v == 0, 1.0, b_v + eps).to(wide)
            b_slope = tl.where(b_v == 0, 0.0, tl.where(b_x < 0, -b_slope, b_slope))  # below 0 only as absolute values
            tl.store(by_x + o, b_slope.to(dtype), mask=m)
    o = i_part * BLOCKS + i_block
    tl.store(sums + o, inner_pos)
    tl.store(sums + PARTS * BLOCKS + o, inner_neg)


@triton.jit(do_not_specialize=["E"])
def dots_kernel(
    pull, power, row, col, dots, E, D, POSITIVE: tl.constexpr, BE: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The product of each entry's row of ``pull`` and column of ``power``, by branch: (E, 2)."""
    o_e = tl.program_id(0).to(tl.int64) * BE + tl.arange(0, BE)
    m_e = o_e < E
    b_row, b_col = tl.load(row + o_e, mask=m_e, other=0), tl.load(col + o_e, mask=m_e, other=0)
    wide = power.dtype.element_ty
    b_pos, b_neg = tl.zeros((BE,), wide), tl.zeros((BE,), wide)
    for first in range(0, D, BD):
        o_d = first + tl.arange(0, BD)
        m = m_e[:, None] & (o_d < D)[None, :]
        b = tl.load(pull + b_row[:, None] * D + o_d[None, :], mask=m, other=0.0)
        b *= tl.load(power + b_col[:, None] * D + o_d[None, :], mask=m, other=0.0)
        m_pos = (o_d < POSITIVE)[None, :]
        b_pos += tl.sum(tl.where(m_pos, b, 0.0), 1)
        b_neg += tl.sum(tl.where(m_pos, 0.0, b), 1)
    tl.store(dots + 2 * o_e, b_pos, mask=m_e)
    tl.store(dots + 2 * o_e + 1, b_neg, mask=m_e)


@triton.jit(do_not_specialize=["PARTS", "BLOCKS", "INNER"])
def parameters_kernel(
    raw, pq, sums, inner, more, out, PARTS, BLOCKS, INNER,
    P_MAX: tl.constexpr, MORE: tl.constexpr, BB: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """The gradients in the four parameters of a part, from the sums of all blocks: (R, 4).

    As in exponent() of gnpool.nn: at the cap, a gradient passes only if following it lowers p.
    """
    i_part = tl.program_id(0)
    o_b, o_i = tl.arange(0, BB), tl.arange(0, BI)
    ln2 = tl.full((), LN2, tl.float64)
    for k in tl.static_range(2):
        at = k * PARTS * BLOCKS + i_part * BLOCKS
        b_total = tl.sum(tl.load(sums + at + o_b, mask=o_b < BLOCKS, other=0.0))
        b_count = tl.sum(tl.load(sums + 2 * PARTS * BLOCKS + at + o_b, mask=o_b < BLOCKS, other=0.0))
        at = k * PARTS * INNER + i_part * INNER
        b_inner = tl.sum(tl.load(inner + at + o_i, mask=o_i < INNER, other=0.0))
        if MORE:
            b_inner += tl.load(more + 2 * i_part + k)
        b_p = tl.load(pq + 4 * i_part + k)
        b_t = tl.load(raw + 4 * i_part + k).to(tl.float64)
        b_slope = (b_inner / b_p - b_total / (b_p * b_p)) * ln2
        b_slope = b_slope if k == 0 else -b_slope
        b_slope = tl.where(tl.abs(b_p) >= tl.full((), P_MAX, tl.float64), tl.maximum(b_slope, 0.0), b_slope)
        dtype = out.dtype.element_ty
        tl.store(out + 4 * i_part + k, (b_slope / (1.0 + tl.exp(-b_t))).to(dtype))
        tl.store(out + 4 * i_part + 2 + k, (-b_count * ln2).to(dtype))
