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

HUGE = tl.constexpr(1e30)  # in place of infinity: times an exact 0 it is still 0
NEGLIGIBLE = tl.constexpr(-200.0)  # 2 to this is 0 in float32
LN2 = tl.constexpr(0.6931471805599453)

# One instruction each; tl.log2 is a routine of twenty, and tl.exp2 takes care of denormal results that nobody sees.
if INTERPRETED:

    @triton.jit
    def _log2(x):
        return tl.log2(x)

    @triton.jit
    def _log2_denormal(x):
        return tl.log2(x)

    @triton.jit
    def _exp2(x):
        return tl.exp2(x)

    @triton.jit
    def _reciprocal(x):
        return 1.0 / x

else:

    @triton.jit
    def _log2(x):
        return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)

    @triton.jit
    def _log2_denormal(x):
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)

    @triton.jit
    def _exp2(x):
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)

    @triton.jit
    def _reciprocal(x):
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def _magnitude(z, RELU: tl.constexpr):
    if RELU:
        return tl.where(z < 0, 0.0, z)
    else:  # noqa: RET505 -- both branches must return for the compiler
        return tl.abs(z)


@triton.jit
def _channels(p, o_d, m_d, eps):
    """Per channel: p within reach of float32, its sign, the largest v that is removed, the u of a row not there."""
    b_p = tl.load(p + o_d, mask=m_d, other=1.0).to(tl.float32)
    b_positive = b_p > 0
    b_sign = tl.where(b_positive, 1.0, -1.0)
    b_removed = tl.where(b_positive, -1.0, eps)
    b_vanish = tl.where(b_positive, 0.0, float("inf"))
    return tl.minimum(tl.maximum(b_p, -HUGE), HUGE), b_sign, b_removed, b_vanish


@triton.jit
def _log_ratio(b_u, b_M, DENORMAL: tl.constexpr):
    """log2(u / M), exactly 0 at a tie; infinite where the ratio is 0 or infinite.

    A large exponent multiplies its error, which counts near the extreme: there it is 2 atanh(s) / ln 2 by a series.
    DENORMAL: u and M may be so small that 1/M overflows (only without a tolerance): both are scaled up.
    """
    if DENORMAL:
        b_scale = tl.where(b_M < 1e-30, 1.8446744e19, 1.0)
        b_u = b_u * b_scale
        b_M = b_M * b_scale
        b_inverse = 1.0 / b_M
        b_l = _log2_denormal(b_u * b_inverse)
    else:
        b_inverse = 1.0 / b_M
        b_l = _log2(b_u * b_inverse)
    b_off = (b_u - b_M) * b_inverse
    b_s = b_off * _reciprocal(b_off + 2.0)
    b_square = b_s * b_s
    b_series = tl.fma(tl.fma(tl.fma(0.43922424, b_square, 0.5763882), b_square, 0.9618023), b_square, 2.88539)
    b_l = tl.where(tl.abs(b_off) < 0.375, b_s * b_series, b_l)
    return tl.where(b_u == b_M, 0.0, b_l)


@triton.jit
def _exponent(b_p, b_l):
    """t = p l, at most 0 where it matters and never -inf, so that 2^t t is 0 where 2^t is; NaN passes."""
    return tl.maximum(b_p * b_l, NEGLIGIBLE, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _indices(col, k, stop, BR: tl.constexpr, HAS_COL: tl.constexpr):
    """The rows of the BR entries from k on."""
    o_e = k + tl.arange(0, BR)
    if HAS_COL:
        o_e = tl.load(col + o_e, mask=o_e < stop, other=0)
    return o_e


@triton.jit
def _rows(x, o_row, k, stop, o_d, m_d, D, BR: tl.constexpr):
    """BR entries from k on as float32, their offsets in x and mask, and the same of the entries alone."""
    o_e = k + tl.arange(0, BR)
    m_e = o_e < stop
    m = m_e[:, None] & m_d[None, :]
    o_x = o_row.to(tl.int64)[:, None] * D + o_d[None, :]
    return tl.load(x + o_x, mask=m, other=0.0).to(tl.float32), o_x, m, o_e, m_e


@triton.jit
def _weights(weight, eid, o_e, m_e, HAS_EID: tl.constexpr):
    if HAS_EID:
        o_e = tl.load(eid + o_e, mask=m_e, other=0)
    return tl.load(weight + o_e, mask=m_e, other=0.0).to(tl.float32), o_e


@triton.jit
def _split(n):
    """A positive float as a whole power of two and the log2 of the rest, in [0, 1)."""
    bits = n.to(tl.int32, bitcast=True)
    whole = ((bits >> 23) - 127).to(tl.float32)
    return whole, _log2(((bits & 0x007FFFFF) | 0x3F800000).to(tl.float32, bitcast=True))


@triton.jit
def _exponents(p, q, o_d, m_d):
    """Per channel: 1/p and q, each as a pair of float32, and 0, or NaN where p is 0 or NaN."""
    b_p = tl.load(p + o_d, mask=m_d, other=1.0)
    b_q = tl.load(q + o_d, mask=m_d, other=0.0)
    b_inverse = tl.where(tl.abs(b_p) == float("inf"), 0.0, 1.0 / b_p)
    b_i, b_q_high = b_inverse.to(tl.float32), b_q.to(tl.float32)
    b_i_low = (b_inverse - b_i.to(tl.float64)).to(tl.float32)
    b_q_low = (b_q - b_q_high.to(tl.float64)).to(tl.float32)
    return b_i, b_i_low, b_q_high, b_q_low, tl.where((b_p == 0) | (b_p != b_p), float("nan"), 0.0)


@triton.jit
def _finish(b_i, b_i_low, b_q_high, b_q_low, b_nan, b_M, b_A, b_T, n):
    """y, M, C and dy/dp of a whole segment of n entries; T is the sum of 2^t t.

    The exponent of 2 in y is log2(A) / p - q log2(n). It is carried as a pair of float32, so that no digit is lost to
    its size, and split into a whole number and a fraction in the end.
    """
    b_whole, b_rest = _split(b_A)
    n_whole, n_rest = _split(tl.maximum(n, 1).to(tl.float32))
    b_high = b_whole * b_i
    b_low = tl.fma(b_whole, b_i, -b_high) + b_whole * b_i_low + b_rest * b_i
    b_size = n_whole * b_q_high
    b_size_low = tl.fma(n_whole, b_q_high, -b_size) + n_whole * b_q_low + n_rest * b_q_high
    b_sum = b_high - b_size
    b_back = b_sum - b_high
    b_lost = (b_high - (b_sum - b_back)) - (b_size + b_back)
    b_int = tl.floor(b_sum)
    b_fraction = (b_sum - b_int) + (b_low - b_size_low + b_lost)

    b_half = tl.floor(0.5 * b_int)  # in two steps: they overflow only if the result does
    b_power, b_first, b_second = _exp2(b_fraction), _exp2(b_half), _exp2(b_int - b_half)
    b_over_A = _reciprocal(b_A)
    b_y = b_M * b_power * b_first * b_second
    b_C = b_power * b_first * b_second * b_over_A
    b_tilt = b_T * b_over_A * b_i - (b_high + b_low)
    b_slope = tl.where((b_i == 0) | (b_tilt == 0), 0.0, b_y * b_i * (b_tilt * LN2))

    b_dead = b_A == 0
    b_zero = b_dead | (b_M == 0)
    b_nan = tl.where(b_A != b_A, b_A, tl.where(n > 0, b_nan, 0.0))
    b_y = tl.where(b_zero, 0.0, b_y) + b_nan
    b_C = tl.where(b_dead, 0.0, b_C) + b_nan
    b_slope = tl.where(b_zero, 0.0, b_slope) + b_nan
    return b_y, tl.where(b_dead, 0.0, b_M), b_C, b_slope


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
    x, weight, col, eid, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, b_vanish, eps, RELU: tl.constexpr,
    DENORMAL: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr, HAS_COL: tl.constexpr,
    HAS_W: tl.constexpr, HAS_EID: tl.constexpr,
):  # fmt: skip
    """sign * M, A and T = sum 2^t t of the entries from start to stop. A row not kept has the u that vanishes."""
    b_key = tl.full([BD], float("-inf"), tl.float32)
    b_A = tl.zeros([BD], tl.float32)
    b_T = tl.zeros([BD], tl.float32)
    o_row = _indices(col, start, stop, BR, HAS_COL)
    for k in range(start, stop, BR):
        b_z, _, m, o_e, m_e = _rows(x, o_row, k, stop, o_d, m_d, D, BR)
        o_row = _indices(col, k + BR, stop, BR, HAS_COL)  # under way while this block is reduced
        if HAS_W:
            b_w, _ = _weights(weight, eid, o_e, m_e, HAS_EID)
            b_z = b_z * b_w[:, None]
        b_v = _magnitude(b_z, RELU)
        b_u = tl.where(m & ~(b_v <= b_removed[None, :]), b_v + eps, b_vanish[None, :])
        b_new = tl.maximum(b_key, tl.max(b_u * b_sign[None, :], axis=0))
        b_M = b_new * b_sign
        if k > start:
            b_shift = _exponent(b_p, _log_ratio(b_key * b_sign, b_M, DENORMAL))
            b_scale = _exp2(b_shift)
            b_T = b_scale * (b_T + b_A * b_shift)
            b_A = b_scale * b_A
        b_t = _exponent(b_p[None, :], _log_ratio(b_u, b_M[None, :], DENORMAL))
        b_e = _exp2(b_t)
        b_A += tl.sum(b_e, axis=0)
        b_T += tl.sum(b_e * b_t, axis=0)
        b_key = b_new
    # Infinite rows and rows that were removed look the same for p < 0: count the former where nothing else is there.
    if tl.max(((b_key == float("-inf")) & m_d).to(tl.int32), axis=0) > 0:
        b_count = tl.zeros([BD], tl.float32)
        for k in range(start, stop, BR):
            o_row = _indices(col, k, stop, BR, HAS_COL)
            b_z, _, m, o_e, m_e = _rows(x, o_row, k, stop, o_d, m_d, D, BR)
            if HAS_W:
                b_w, _ = _weights(weight, eid, o_e, m_e, HAS_EID)
                b_z = b_z * b_w[:, None]
            b_count += tl.sum((m & (_magnitude(b_z, RELU) == float("inf"))).to(tl.float32), axis=0)
        b_A = tl.where((b_key == float("-inf")) & (b_A == b_A), b_count, b_A)
        b_T = tl.where(b_key == float("-inf"), 0.0, b_T)
    return b_key, b_A, b_T


@triton.jit
def pool_fwd_kernel(
    x, weight, ptr, col, eid, p, q, starts, y, extreme, scale, slope, parts, eps, S, E, D, CHUNK: tl.constexpr,
    RELU: tl.constexpr, DENORMAL: tl.constexpr, STATS: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr,
    HAS_EID: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_p, b_sign, b_removed, b_vanish = _channels(p, o_d, m_d, eps)
    b_i, b_i_low, b_q, b_q_low, b_nan = _exponents(p, q, o_d, m_d)

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
            x, weight, col, eid, e, stop, o_d, m_d, D, b_p, b_sign, b_removed, b_vanish, eps, RELU, DENORMAL, BR, BD,
            HAS_COL, HAS_W, HAS_EID,
        )  # fmt: skip
        if (s < last) & (begin == e):
            b_y, b_M, b_C, b_slope = _finish(b_i, b_i_low, b_q, b_q_low, b_nan, b_key * b_sign, b_A, b_T, stop - begin)
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
    ptr, p, q, starts, y, extreme, scale, slope, parts, S, E, D, CHUNK: tl.constexpr, DENORMAL: tl.constexpr,
    STATS: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
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
        b_p, b_sign, _, _ = _channels(p, o_d, m_d, 0.0)
        b_i, b_i_low, b_q, b_q_low, b_nan = _exponents(p, q, o_d, m_d)
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
            b_M = b_new * b_sign
            b_shift = _exponent(b_p, _log_ratio(b_key * b_sign, b_M, DENORMAL))
            b_scale = _exp2(b_shift)
            b_T = tl.where(b_A == 0, 0.0, b_scale * (b_T + b_A * b_shift))
            b_A = tl.where(b_A == 0, 0.0, b_scale * b_A)
            b_t = _exponent(b_p[None, :], _log_ratio(b_keys * b_sign[None, :], b_M[None, :], DENORMAL))
            b_e = _exp2(b_t)
            b_T += tl.sum(tl.where(b_As == 0, 0.0, b_e * (b_Ts + b_As * b_t)), axis=0)
            b_A += tl.sum(tl.where(b_As == 0, 0.0, b_e * b_As), axis=0)
            b_key = b_new
        n = tl.load(ptr + first + 1) - begin
        b_y, b_M, b_C, b_slope = _finish(b_i, b_i_low, b_q, b_q_low, b_nan, b_key * b_sign, b_A, b_T, n)
        o_out = first * D + o_d
        tl.store(y + o_out, b_y, mask=m_d)
        if STATS:
            tl.store(extreme + o_out, b_M, mask=m_d)
            tl.store(scale + o_out, b_C, mask=m_d)
            tl.store(slope + o_out, b_slope, mask=m_d)


@triton.jit
def _slopes(p, o_d, m_d, eps):
    """Per channel: p - 1 within reach of float32, and the largest v without a slope (0, or removed)."""
    b_p = tl.load(p + o_d, mask=m_d, other=1.0)
    b_power = tl.minimum(tl.maximum(b_p - 1.0, -HUGE), HUGE).to(tl.float32)
    return tl.where(b_p == 0, float("nan"), b_power), tl.where(b_p < 0, eps, 0.0)


@triton.jit
def _slope_of(b_z, b_M, b_g, b_power, b_still, eps, RELU: tl.constexpr, DENORMAL: tl.constexpr):
    """dL/dz of entries whose segments have extreme M and g = grad * C: g sign(z) 2^((p - 1) l)."""
    b_v = _magnitude(b_z, RELU)
    b_u = b_v + eps
    b_l = tl.maximum(_log_ratio(b_u, b_M, DENORMAL), -HUGE, propagate_nan=tl.PropagateNan.ALL)
    b_d = b_g * _exp2(b_power * b_l)
    if not RELU:
        b_d = tl.where(b_z < 0, -b_d, b_d)
    return tl.where(b_v <= b_still, 0.0, b_d)


@triton.jit
def pool_bwd_kernel(
    grad, x, ptr, col, p, starts, y, extreme, scale, slope, grad_x, sums, eps, S, E, D, CHUNK: tl.constexpr,
    RELU: tl.constexpr, DENORMAL: tl.constexpr, HAS_COL: tl.constexpr, NEED_X: tl.constexpr, BR: tl.constexpr,
    BD: tl.constexpr,
):  # fmt: skip
    """Segments: every entry writes its own row of grad_x. sums (chunks, 2, D) collects dL/dp and dL/dq."""
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_power, b_still = _slopes(p, o_d, m_d, eps)
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
                o_row = _indices(col, k, stop, BR, HAS_COL)
                b_z, o_x, m, _, _ = _rows(x, o_row, k, stop, o_d, m_d, D, BR)
                b_d = _slope_of(
                    b_z, b_M[None, :], b_g[None, :], b_power[None, :], b_still[None, :], eps, RELU, DENORMAL
                )
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
    RELU: tl.constexpr, DENORMAL: tl.constexpr, HAS_W: tl.constexpr, HAS_EID: tl.constexpr, NEED_X: tl.constexpr,
    NEED_W: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Neighbours, by source: ptr, row and eid are the transposed lists, S the number of sources."""
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_power, b_still = _slopes(p, o_d, m_d, eps)

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
        o_row = _indices(row, e, stop, BR, True)
        for k in range(e, stop, BR):
            o_e = k + tl.arange(0, BR)
            m_e = o_e < stop
            m = m_e[:, None] & m_d[None, :]
            o_pack = o_row.to(tl.int64)[:, None] * 2 * D + o_d[None, :]
            b_M = tl.load(pack + o_pack, mask=m, other=1.0)
            b_g = tl.load(pack + o_pack + D, mask=m, other=0.0)
            o_row = _indices(row, k + BR, stop, BR, True)  # under way while this block is summed
            b_z = tl.zeros([BR, BD], tl.float32) + b_x[None, :]
            if HAS_W:
                b_w, o_w = _weights(weight, eid, o_e, m_e, HAS_EID)
                b_z = b_z * b_w[:, None]
            b_dz = _slope_of(b_z, b_M, b_g, b_power[None, :], b_still[None, :], eps, RELU, DENORMAL)
            b_dz = tl.where(m, b_dz, 0.0)
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
