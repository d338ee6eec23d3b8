"""Triton kernels of norm pooling; ``ops/README.md`` has the derivation and ``cuda.py`` launches them.

Work is cut along the merge path of segments and entries: chunk i is the CHUNK steps from i * CHUNK on, where a step is
one entry or the end of one segment. The cut depends on shapes alone, long segments are shared by many programs, many
empty ones too, and parts are merged in the order of the chunks: the same input gives the same bits.

Prefixes: i_ program index, o_ offsets, m_ mask, b_ values in registers. Sizes are capitals: D channels, S segments,
BR rows and BD channels of a block. All sums are float32. ``l`` is log2(u / M), exactly 0 at a tie with the extreme M.
"""

# ruff: noqa: D103 -- the kernels' parameters are described where cuda.py launches them

from __future__ import annotations

import os

import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

# In place of infinity: times an exact 0 it is still 0.
HUGE = tl.constexpr(1e30)
LN2 = tl.constexpr(0.6931471805599453)


if INTERPRETED:

    @triton.jit
    def _log2(x):
        return tl.log2(x)

else:

    @triton.jit
    def _log2(x):  # one instruction; tl.log2 is a routine of twenty. Denormals are handled.
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def _magnitude(z, RELU: tl.constexpr):
    if RELU:
        return tl.where(z < 0, 0.0, z)
    else:  # noqa: RET505 -- both branches must return for the compiler
        return tl.abs(z)


@triton.jit
def _key_to_extreme(b_key, b_positive):
    return tl.where(b_positive, b_key, -b_key)


@triton.jit
def _log_ratio(b_u, b_M):
    """log2(u / M), at least -HUGE; both are scaled up first where 1/M would overflow."""
    b_scale = tl.where(b_M < 1e-30, 1.8446744e19, 1.0)
    b_l = _log2((b_u * b_scale) * (1.0 / (b_M * b_scale)))
    b_l = tl.maximum(b_l, -HUGE, propagate_nan=tl.PropagateNan.ALL)
    return tl.where(b_u == b_M, 0.0, b_l)


@triton.jit
def _load_block(
    x, weight, col, eid, k, stop, o_d, m_d, D, BR: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr,
    HAS_EID: tl.constexpr,
):  # fmt: skip
    """Rows k to k + BR of the entries, as float32: values, row offsets, mask, edge ids and weights."""
    o_e = k + tl.arange(0, BR)
    m_e = o_e < stop
    o_row = o_e
    if HAS_COL:
        o_row = tl.load(col + o_e, mask=m_e, other=0)
    m = m_e[:, None] & m_d[None, :]
    o_x = o_row.to(tl.int64)[:, None] * D + o_d[None, :]
    b_x = tl.load(x + o_x, mask=m, other=0.0).to(tl.float32)
    return b_x, o_x, m, o_e, m_e


@triton.jit
def _load_weight(weight, eid, o_e, m_e, HAS_EID: tl.constexpr):
    if HAS_EID:
        o_e = tl.load(eid + o_e, mask=m_e, other=0)
    return tl.load(weight + o_e, mask=m_e, other=0.0).to(tl.float32), o_e


@triton.jit
def _finish(b_key, b_A, b_T, b_p, b_pe, b_q, n):
    """y, M, C and dy/dp of a whole segment of n entries."""
    b_positive = b_p > 0
    b_infinite = tl.abs(b_p) == float("inf")
    b_inv = tl.where(b_infinite, 0.0, 1.0 / b_pe.to(tl.float64))
    # log2(A) as an exact integer and a small fraction, and all exponents in float64: no digit is lost to size
    b_bits = b_A.to(tl.int32, bitcast=True)
    b_whole = (b_bits >> 23) - 127
    b_mantissa = ((b_bits & 0x007FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
    b_log = b_whole.to(tl.float64) + tl.log2(b_mantissa).to(tl.float64)
    b_size = b_q * tl.log2(tl.maximum(n, 1).to(tl.float64))
    b_M = _key_to_extreme(b_key, b_positive)
    b_y = _times_exp2(b_M, b_log * b_inv - b_size)
    b_C = _times_exp2(tl.full(b_M.shape, 1.0, tl.float32), b_log * (b_inv - 1.0) - b_size)
    b_tilt = LN2 * (b_T / b_A - (b_log * b_inv).to(tl.float32))
    b_slope = tl.where(b_infinite | (b_tilt == 0), 0.0, b_y * b_inv.to(tl.float32) * b_tilt)

    b_nan = tl.full(b_M.shape, float("nan"), tl.float32)
    b_dead = b_A == 0
    b_zero = b_dead | (b_M == 0)
    b_undefined = (b_A != b_A) | ((n > 0) & ((b_p == 0) | (b_p != b_p)))
    b_y = tl.where(b_undefined, b_nan, tl.where(b_zero, 0.0, b_y))
    b_C = tl.where(b_undefined, b_nan, tl.where(b_dead, 0.0, b_C))
    b_slope = tl.where(b_undefined, b_nan, tl.where(b_zero, 0.0, b_slope))
    return b_y, tl.where(b_dead, 0.0, b_M), b_C, b_slope


@triton.jit
def _times_exp2(b_factor, b_exponent):
    """factor * 2^exponent for a float64 exponent, in float32 steps that overflow only if the result does."""
    b_whole = tl.floor(b_exponent)
    b_result = b_factor * tl.exp2((b_exponent - b_whole).to(tl.float32))
    b_whole = tl.minimum(tl.maximum(b_whole, -400.0), 400.0).to(tl.float32)
    b_step = tl.floor(b_whole / 4)
    b_part = tl.exp2(b_step)
    return b_result * b_part * b_part * b_part * tl.exp2(b_whole - 3 * b_step)


@triton.jit
def partition_kernel(ptr, starts, S, E, chunks, CHUNK: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """starts[i] = how many segments end at or before step i * CHUNK of the merge path."""
    o_i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m_i = o_i <= chunks
    o_step = tl.minimum(o_i.to(tl.int64) * CHUNK, S + E)
    b_low = tl.zeros([BLOCK], tl.int64)
    b_high = tl.zeros([BLOCK], tl.int64) + S
    for _ in range(STEPS):
        b_mid = (b_low + b_high + 1) // 2
        m_done = tl.load(ptr + b_mid, mask=m_i, other=0) + b_mid <= o_step
        b_low = tl.where(m_done, b_mid, b_low)
        b_high = tl.where(m_done, b_high, b_mid - 1)
    tl.store(starts + o_i, b_low, mask=m_i)


@triton.jit
def _reduce_range(
    x, weight, col, eid, start, stop, o_d, m_d, D, b_p, b_pe, eps, RELU: tl.constexpr, BR: tl.constexpr,
    BD: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr, HAS_EID: tl.constexpr,
):  # fmt: skip
    """Key of the extreme (u or -u), A and T = sum e l of the entries from start to stop."""
    b_positive = b_p > 0
    b_key = tl.full([BD], float("-inf"), tl.float32)
    b_A = tl.zeros([BD], tl.float32)
    b_T = tl.zeros([BD], tl.float32)
    for k in range(start, stop, BR):
        b_z, _, m, o_e, m_e = _load_block(x, weight, col, eid, k, stop, o_d, m_d, D, BR, HAS_COL, HAS_W, HAS_EID)
        if HAS_W:
            b_w, _ = _load_weight(weight, eid, o_e, m_e, HAS_EID)
            b_z = b_z * b_w[:, None]
        b_v = _magnitude(b_z, RELU)
        m_kept = m & (b_positive[None, :] | ~(b_v <= eps))
        b_u = b_v + eps
        b_top = tl.max(tl.where(m_kept, tl.where(b_positive[None, :], b_u, -b_u), float("-inf")), axis=0)
        b_new = tl.maximum(b_key, b_top)
        b_M = _key_to_extreme(b_new, b_positive)
        if k > start:
            b_shift = _log_ratio(_key_to_extreme(b_key, b_positive), b_M)
            b_scale = tl.exp2(b_pe * b_shift)
            b_T = tl.where(b_A == 0, 0.0, b_scale * (b_T + b_A * b_shift))
            b_A = tl.where(b_A == 0, 0.0, b_scale * b_A)
        b_l = _log_ratio(b_u, b_M[None, :])
        b_e = tl.where(m_kept, tl.exp2(b_pe[None, :] * b_l), 0.0)
        b_A += tl.sum(b_e, axis=0)
        b_T += tl.sum(tl.where(b_e == 0, 0.0, b_e * b_l), axis=0)
        b_key = b_new
    return b_key, b_A, b_T


@triton.jit
def pool_fwd_kernel(
    x, weight, ptr, col, eid, p, q, starts, y, extreme, scale, slope, parts, eps, S, E, D, CHUNK: tl.constexpr,
    RELU: tl.constexpr, STATS: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr, HAS_EID: tl.constexpr,
    BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_p64 = tl.load(p + o_d, mask=m_d, other=1.0)
    b_q = tl.load(q + o_d, mask=m_d, other=0.0)
    b_p = b_p64.to(tl.float32)
    b_pe = tl.minimum(tl.maximum(b_p, -HUGE), HUGE)

    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    step = i_chunk.to(tl.int64) * CHUNK
    e = step - first
    e_end = tl.minimum(step + CHUNK, S + E) - last
    begin = tl.load(ptr + first)
    for s in range(first, last + 1):
        stop = e_end
        if s < last:
            stop = tl.load(ptr + s + 1)
        b_key, b_A, b_T = _reduce_range(
            x, weight, col, eid, e, stop, o_d, m_d, D, b_p, b_pe, eps, RELU, BR, BD, HAS_COL, HAS_W, HAS_EID
        )
        if (s < last) & (begin == e):
            b_y, b_M, b_C, b_slope = _finish(b_key, b_A, b_T, b_p, b_pe, b_q, stop - begin)
            o_out = s * D + o_d
            tl.store(y + o_out, b_y, mask=m_d)
            if STATS:
                tl.store(extreme + o_out, b_M, mask=m_d)
                tl.store(scale + o_out, b_C, mask=m_d)
                tl.store(slope + o_out, b_slope, mask=m_d)
        else:  # the end of a segment begun in an earlier chunk (slot 0), or one that goes on in the next (slot 1)
            o_part = ((i_chunk.to(tl.int64) * 2 + (s == last).to(tl.int64)) * 3) * D + o_d
            tl.store(parts + o_part, b_key, mask=m_d)
            tl.store(parts + o_part + D, b_A, mask=m_d)
            tl.store(parts + o_part + 2 * D, b_T, mask=m_d)
        e = stop
        begin = stop


@triton.jit
def merge_fwd_kernel(
    ptr, p, q, starts, y, extreme, scale, slope, parts, S, E, D, CHUNK: tl.constexpr, STATS: tl.constexpr,
    BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Complete the segment that ends in chunk i but began before it: its parts are slots 1 before i and slot 0 of i."""
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    begin = tl.load(ptr + first)
    e = i_chunk.to(tl.int64) * CHUNK - first
    if (last > first) & (begin < e):
        o_d = i_block * BD + tl.arange(0, BD)
        m_d = o_d < D
        b_p = tl.load(p + o_d, mask=m_d, other=1.0).to(tl.float32)
        b_q = tl.load(q + o_d, mask=m_d, other=0.0)
        b_pe = tl.minimum(tl.maximum(b_p, -HUGE), HUGE)
        b_positive = b_p > 0
        b_key = tl.full([BD], float("-inf"), tl.float32)
        b_A = tl.zeros([BD], tl.float32)
        b_T = tl.zeros([BD], tl.float32)
        start = (begin + first) // CHUNK
        for k in range(start, i_chunk + 1, BR):
            o_i = k + tl.arange(0, BR)
            o_part = (o_i.to(tl.int64) * 2 + (o_i < i_chunk).to(tl.int64)) * 3
            m = (o_i <= i_chunk)[:, None] & m_d[None, :]
            o_part = o_part[:, None] * D + o_d[None, :]
            b_keys = tl.load(parts + o_part, mask=m, other=float("-inf"))
            b_As = tl.load(parts + o_part + D, mask=m, other=0.0)
            b_Ts = tl.load(parts + o_part + 2 * D, mask=m, other=0.0)
            b_new = tl.maximum(b_key, tl.max(b_keys, axis=0))
            b_M = _key_to_extreme(b_new, b_positive)
            b_shift = _log_ratio(_key_to_extreme(b_key, b_positive), b_M)
            b_scale = tl.exp2(b_pe * b_shift)
            b_T = tl.where(b_A == 0, 0.0, b_scale * (b_T + b_A * b_shift))
            b_A = tl.where(b_A == 0, 0.0, b_scale * b_A)
            b_l = _log_ratio(_key_to_extreme(b_keys, b_positive[None, :]), b_M[None, :])
            b_e = tl.exp2(b_pe[None, :] * b_l)
            m_none = (b_As == 0) | (b_e == 0)
            b_T += tl.sum(tl.where(m_none, 0.0, b_e * (b_Ts + b_As * b_l)), axis=0)
            b_A += tl.sum(tl.where(m_none, 0.0, b_e * b_As), axis=0)
            b_key = b_new
        n = tl.load(ptr + first + 1) - begin
        b_y, b_M, b_C, b_slope = _finish(b_key, b_A, b_T, b_p, b_pe, b_q, n)
        o_out = first * D + o_d
        tl.store(y + o_out, b_y, mask=m_d)
        if STATS:
            tl.store(extreme + o_out, b_M, mask=m_d)
            tl.store(scale + o_out, b_C, mask=m_d)
            tl.store(slope + o_out, b_slope, mask=m_d)


@triton.jit
def _slope_of(b_z, b_v, b_M, b_g, b_p, b_pe, eps, RELU: tl.constexpr):
    """dL/dz of entries whose segments have extreme M and g = grad * C."""
    b_u = b_v + eps
    b_l = _log_ratio(b_u, b_M)
    b_d = b_g * tl.exp2((b_pe - 1.0) * b_l)
    if RELU:
        m_still = b_z <= 0
    else:
        m_still = b_z == 0
        b_d = tl.where(b_z < 0, -b_d, b_d)
    return tl.where(m_still | ((b_p <= 0) & (b_v <= eps)), 0.0, b_d)


@triton.jit
def pool_bwd_kernel(
    grad, x, ptr, col, p, starts, y, extreme, scale, slope, grad_x, sums, eps, S, E, D, CHUNK: tl.constexpr,
    RELU: tl.constexpr, HAS_COL: tl.constexpr, NEED_X: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Segments: every entry writes its own row of grad_x. sums (chunks, 2, D) collects dL/dp and dL/dq."""
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_p = tl.load(p + o_d, mask=m_d, other=1.0).to(tl.float32)
    b_pe = tl.minimum(tl.maximum(b_p, -HUGE), HUGE)
    b_dp = tl.zeros([BD], tl.float32)
    b_dq = tl.zeros([BD], tl.float32)

    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    step = i_chunk.to(tl.int64) * CHUNK
    e = step - first
    e_end = tl.minimum(step + CHUNK, S + E) - last
    begin = tl.load(ptr + first)
    for s in range(first, last + 1):
        stop = e_end
        o_s = s * D + o_d
        m_s = m_d & (o_s < S * D)
        b_grad = tl.load(grad + o_s, mask=m_s, other=0.0).to(tl.float32)
        if s < last:
            stop = tl.load(ptr + s + 1)
            b_dp += b_grad * tl.load(slope + o_s, mask=m_s, other=0.0)
            b_y = tl.load(y + o_s, mask=m_s, other=0.0)
            n = stop - begin
            b_dq -= tl.where(n > 1, b_grad * b_y * tl.log2(tl.maximum(n, 1).to(tl.float32)) * LN2, 0.0)
        if NEED_X:
            b_M = tl.load(extreme + o_s, mask=m_s, other=1.0)
            b_g = b_grad * tl.load(scale + o_s, mask=m_s, other=0.0)
            for k in range(e, stop, BR):
                b_z, o_x, m, _, _ = _load_block(x, x, col, col, k, stop, o_d, m_d, D, BR, HAS_COL, False, False)
                b_v = _magnitude(b_z, RELU)
                b_d = _slope_of(b_z, b_v, b_M[None, :], b_g[None, :], b_p[None, :], b_pe[None, :], eps, RELU)
                tl.store(grad_x + o_x, b_d.to(grad_x.dtype.element_ty), mask=m)
        e = stop
        begin = stop
    o_sum = i_chunk.to(tl.int64) * 2 * D + o_d
    tl.store(sums + o_sum, b_dp, mask=m_d)
    tl.store(sums + o_sum + D, b_dq, mask=m_d)


@triton.jit
def pack_kernel(
    grad, ptr, y, extreme, scale, slope, pack, sums, S, D, ROWS: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr
):
    """Neighbours: pack (S, 2, D) = M and grad * C, side by side for the gather; sums (blocks, 2, D) as above."""
    i_rows, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_dp = tl.zeros([BD], tl.float32)
    b_dq = tl.zeros([BD], tl.float32)
    for k in range(0, ROWS, BR):
        o_s = i_rows.to(tl.int64) * ROWS + k + tl.arange(0, BR)
        m_s = o_s < S
        m = m_s[:, None] & m_d[None, :]
        o_in = o_s[:, None] * D + o_d[None, :]
        b_n = tl.load(ptr + o_s + 1, mask=m_s, other=0) - tl.load(ptr + o_s, mask=m_s, other=0)
        b_log = tl.where(b_n > 1, tl.log2(tl.maximum(b_n, 1).to(tl.float32)) * LN2, 0.0)
        b_grad = tl.load(grad + o_in, mask=m, other=0.0).to(tl.float32)
        b_y = tl.load(y + o_in, mask=m, other=0.0)
        b_dp += tl.sum(b_grad * tl.load(slope + o_in, mask=m, other=0.0), axis=0)
        b_dq -= tl.sum(tl.where(b_log[:, None] == 0, 0.0, b_grad * b_y * b_log[:, None]), axis=0)
        o_out = o_s[:, None] * 2 * D + o_d[None, :]
        tl.store(pack + o_out, tl.load(extreme + o_in, mask=m, other=0.0), mask=m)
        tl.store(pack + o_out + D, b_grad * tl.load(scale + o_in, mask=m, other=0.0), mask=m)
    o_sum = i_rows.to(tl.int64) * 2 * D + o_d
    tl.store(sums + o_sum, b_dp, mask=m_d)
    tl.store(sums + o_sum + D, b_dq, mask=m_d)


@triton.jit
def sources_bwd_kernel(
    x, weight, ptr, row, eid, p, starts, pack, grad_x, grad_weight, parts, eps, S, E, D, CHUNK: tl.constexpr,
    RELU: tl.constexpr, HAS_W: tl.constexpr, HAS_EID: tl.constexpr, NEED_X: tl.constexpr, NEED_W: tl.constexpr,
    BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Neighbours, by source: ptr, row and eid are the transposed lists, S the number of sources."""
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_p = tl.load(p + o_d, mask=m_d, other=1.0).to(tl.float32)
    b_pe = tl.minimum(tl.maximum(b_p, -HUGE), HUGE)

    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    step = i_chunk.to(tl.int64) * CHUNK
    e = step - first
    e_end = tl.minimum(step + CHUNK, S + E) - last
    begin = tl.load(ptr + first)
    for s in range(first, last + 1):
        stop = e_end
        if s < last:
            stop = tl.load(ptr + s + 1)
        o_s = s * D + o_d
        b_x = tl.load(x + o_s, mask=m_d & (o_s < S * D), other=0.0).to(tl.float32)
        b_sum = tl.zeros([BD], tl.float32)
        for k in range(e, stop, BR):
            o_e = k + tl.arange(0, BR)
            m_e = o_e < stop
            m = m_e[:, None] & m_d[None, :]
            o_pack = tl.load(row + o_e, mask=m_e, other=0).to(tl.int64)[:, None] * 2 * D + o_d[None, :]
            b_M = tl.load(pack + o_pack, mask=m, other=1.0)
            b_g = tl.load(pack + o_pack + D, mask=m, other=0.0)
            b_z = tl.zeros([BR, BD], tl.float32) + b_x[None, :]
            if HAS_W:
                b_w, o_w = _load_weight(weight, eid, o_e, m_e, HAS_EID)
                b_z = b_z * b_w[:, None]
            b_v = _magnitude(b_z, RELU)
            b_dz = tl.where(m, _slope_of(b_z, b_v, b_M, b_g, b_p[None, :], b_pe[None, :], eps, RELU), 0.0)
            if NEED_W:
                b_dw = tl.sum(tl.where(b_dz == 0, 0.0, b_dz * b_x[None, :]), axis=1)
                tl.store(grad_weight + i_block * E + o_w, b_dw, mask=m_e)
            if HAS_W:
                b_dz = tl.where(b_dz == 0, 0.0, b_dz * b_w[:, None])
            b_sum += tl.sum(b_dz, axis=0)
        if NEED_X:
            if (s < last) & (begin == e):
                tl.store(grad_x + o_s, b_sum.to(grad_x.dtype.element_ty), mask=m_d)
            else:
                o_part = (i_chunk.to(tl.int64) * 2 + (s == last).to(tl.int64)) * D + o_d
                tl.store(parts + o_part, b_sum, mask=m_d)
        e = stop
        begin = stop


@triton.jit
def merge_bwd_kernel(ptr, starts, grad_x, parts, S, E, D, CHUNK: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """Complete grad_x of the source that ends in chunk i but began before it."""
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    begin = tl.load(ptr + first)
    e = i_chunk.to(tl.int64) * CHUNK - first
    if (last > first) & (begin < e):
        o_d = i_block * BD + tl.arange(0, BD)
        m_d = o_d < D
        b_sum = tl.zeros([BD], tl.float32)
        for k in range((begin + first) // CHUNK, i_chunk + 1, BR):
            o_i = k + tl.arange(0, BR)
            o_part = o_i.to(tl.int64) * 2 + (o_i < i_chunk).to(tl.int64)
            m = (o_i <= i_chunk)[:, None] & m_d[None, :]
            b_sum += tl.sum(tl.load(parts + o_part[:, None] * D + o_d[None, :], mask=m, other=0.0), axis=0)
        tl.store(grad_x + first * D + o_d, b_sum.to(grad_x.dtype.element_ty), mask=m_d)
