"""The Triton kernels of the forward pass; ``ops/README.md`` has the derivation and ``backend.py`` launches them."""

# ruff: noqa: D103 -- the parameters are described where backend.py launches the kernels

# mypy: disable-error-code="assignment"

from __future__ import annotations

import triton
import triton.language as tl

from gnpool.ops.cuda.arithmetic import (
    HUGE,
    KEEP,
    LN2,
    NEGLIGIBLE,
    NORM,
    REMOVE,
    above,
    above_and_count,
    all_moderate,
    channels,
    entries,
    exp2,
    log2,
    log_ratio,
    magnitude,
    reciprocal,
    unit_of,
    wide_log_ratio,
    widened,
)
from gnpool.ops.cuda.mean import is_small, load_parts, mean_range, merge_means


@triton.jit
def _channels(p, o_d, m_d, eps, FORM: tl.constexpr):
    """For each channel: p within the range of float32, its sign, the largest removed v, and the u of a missing row."""
    b_p = tl.load(p + o_d, mask=m_d, other=1.0).to(tl.float32)
    b_positive = b_p > 0
    b_sign = tl.where(b_positive, 1.0, -1.0)
    if FORM == NORM:
        b_removed = tl.where(b_positive, -1.0, eps)
    else:
        b_removed = tl.zeros_like(b_p) + (-1.0 if FORM == KEEP else eps)
    b_vanish = tl.where(b_positive, 0.0, float("inf"))
    return tl.minimum(tl.maximum(b_p, -HUGE), HUGE), b_sign, b_removed, b_vanish


@triton.jit
def _exponent(b_p, b_l):
    """t = p l, at most 0 where it matters and never -inf, so that 2^t t is 0 if 2^t is 0; NaN passes."""
    return tl.maximum(b_p * b_l, NEGLIGIBLE, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _split(n):
    """A positive float as an integer power of two and the log2 of the rest, in [0, 1)."""
    bits = n.to(tl.int32, bitcast=True)
    whole = ((bits >> 23) - 127).to(tl.float32)
    return whole, log2(((bits & 0x007FFFFF) | 0x3F800000).to(tl.float32, bitcast=True))


@triton.jit
def _exponents(p, q, o_d, m_d, FORM: tl.constexpr):
    """For each channel: 1/p and q as pairs of float32, and 0, or NaN if p is NaN (or, in the norm form, 0)."""
    b_p = tl.load(p + o_d, mask=m_d, other=1.0)
    b_q = tl.load(q + o_d, mask=m_d, other=0.0)
    m_none = tl.abs(b_p) == float("inf")
    m_nan = b_p != b_p
    if FORM == NORM:
        m_nan = m_nan | (b_p == 0)
    else:
        m_none = m_none | (tl.abs(b_p) < 1e-30)  # 1/p is outside float32, and is not used
    b_inverse = tl.where(m_none, 0.0, 1.0 / b_p)
    b_i, b_q_high = b_inverse.to(tl.float32), b_q.to(tl.float32)
    b_i_low = (b_inverse - b_i.to(tl.float64)).to(tl.float32)
    b_q_low = (b_q - b_q_high.to(tl.float64)).to(tl.float32)
    return b_i, b_i_low, b_q_high, b_q_low, tl.where(m_nan, float("nan"), 0.0)


@triton.jit
def _finish(b_p, b_i, b_i_low, b_q_high, b_q_low, b_nan, b_M, b_A, b_T, b_K, n, FORM: tl.constexpr):
    """y, M, C and dy/dp of a whole segment of n entries; T is the sum of 2^t t. Growth forms have A / K in place of A.

    The exponent of 2 in y is log2(A) / p - q log2(n). It is a pair of float32, so that its size costs no digit, and is
    split into an integer and a fraction at the end.
    """
    b_ratio = b_A
    if FORM != NORM:
        m_mean = is_small(b_p) & (b_M < float("inf"))  # M is the mean already, A is K, and T is G
        b_ratio = tl.where(m_mean, 1.0, b_A / tl.maximum(b_K, 1.0))
    b_whole, b_rest = _split(b_ratio)
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

    b_half = tl.floor(0.5 * b_int)  # in two steps, which overflow only if the result does
    b_power, b_first, b_second = exp2(b_fraction), exp2(b_half), exp2(b_int - b_half)
    b_over_A = reciprocal(b_A)
    b_y = b_M * b_first * b_power * b_second
    b_C = b_power * b_first * b_second * b_over_A
    if FORM != NORM:  # an infinite mean is infinite, and has slopes, however small its factor is
        b_y = tl.where(b_M == float("inf"), b_M, b_y)
        b_C = tl.where(b_M == float("inf"), tl.maximum(b_C, 1e-37), b_C)
    b_tilt = b_T * b_over_A * b_i - (b_high + b_low)
    b_slope = tl.where((b_i == 0) | (b_tilt == 0), 0.0, b_y * b_i * (b_tilt * LN2))
    if FORM != NORM:
        b_slope = tl.where(tl.abs(b_tilt) <= 1e-6 * tl.abs(b_i), 0.0, b_slope)  # below the rounding of A
        b_mean_slope = tl.where(b_T == 0, 0.0, b_y * (b_T * b_over_A * (LN2 * LN2)))
        b_slope = tl.where(m_mean, b_mean_slope, b_slope)

    b_dead = b_A == 0
    if FORM == REMOVE:
        b_dead = b_K == 0
    b_zero = b_dead | (b_M == 0)
    b_nan = tl.where(b_A != b_A, b_A, tl.where(n > 0, b_nan, 0.0))
    b_y = tl.where(b_zero, 0.0, b_y) + b_nan
    b_C = tl.where(b_dead, 0.0, b_C) + b_nan
    b_slope = tl.where(b_zero, 0.0, b_slope) + b_nan
    return b_y, tl.where(b_dead, 0.0, b_M), b_C, b_slope


@triton.jit
def _quick_round(
    x, weight, col, eid, k, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, eps, b_unit, b_inverse, b_A, b_T,
    b_K, RELU: tl.constexpr, BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, HAS_COL: tl.constexpr,
    HAS_W: tl.constexpr, HAS_EID: tl.constexpr, FORM: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """One round of :func:`_quick_range`; the first round finds the unit, if one is needed."""
    HALF: tl.constexpr = x.dtype.element_ty.primitive_bitwidth == 16
    tiles = ()
    for j in tl.static_range(BR):
        tiles = tiles + (entries(x, weight, col, eid, k + j * R, stop, o_d, m_d, D, R, HAS_COL, HAS_W, HAS_EID, WHOLE),)
    if not HALF:  # noqa: SIM102 -- the outer condition is known when compiled, the inner one is not
        if k == start:
            b_key = tl.full([R, BD], float("-inf"), tl.float32)
            for j in tl.static_range(BR):
                b_v = magnitude(tiles[j][0], RELU)
                m_kept = tiles[j][1] & ~(b_v <= b_removed[None, :])
                b_key = tl.maximum(b_key, tl.where(m_kept, (b_v + eps) * b_sign[None, :], float("-inf")))
            b_first = tl.max(b_key, axis=0)
            b_unit = tl.where(b_first == float("-inf"), 1.0, b_first * b_sign)[None, :]
            b_inverse = reciprocal(b_unit)
    for j in tl.static_range(BR):
        b_u = magnitude(tiles[j][0], RELU) + eps
        b_t = b_p[None, :] * log2(b_u if HALF else b_u * b_inverse)
        b_e = exp2(b_t)
        if FORM == NORM:
            b_e = above(tiles[j][0], b_removed[None, :], b_e, RELU)
        elif FORM == REMOVE:  # a missing row is 0, and is not counted
            b_e, b_K = above_and_count(tiles[j][0], b_removed[None, :], b_e, b_K, RELU)
        if not WHOLE:
            b_e = tl.where(tiles[j][1], b_e, 0.0)
        b_A += b_e
        b_T += b_e * b_t
    return b_unit, b_inverse, b_A, b_T, b_K


@triton.jit
def _quick_range(
    x, weight, col, eid, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, eps, RELU: tl.constexpr, BR: tl.constexpr,
    R: tl.constexpr, BD: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr, HAS_EID: tl.constexpr,
    FORM: tl.constexpr,
):  # fmt: skip
    """Compute :func:`_reduce_range` for moderate p, with the extreme of the first round as the unit instead of M.

    The unit keeps t small, and with it the error of t. Half precision has fewer digits than that error, so its unit is
    1. Also return whether this is accurate: no sum is far from 1 (or it is 0, because no row was kept), none infinite.
    """
    b_A = tl.zeros([R, BD], tl.float32)
    b_T = tl.zeros([R, BD], tl.float32)
    b_K = tl.zeros([R, BD], tl.float32)
    b_unit = tl.full([1, BD], 1.0, tl.float32)
    b_inverse = b_unit
    rest = start
    for k in range(start, stop - (BR * R - 1), BR * R):
        b_unit, b_inverse, b_A, b_T, b_K = _quick_round(
            x, weight, col, eid, k, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, eps, b_unit, b_inverse, b_A, b_T,
            b_K, RELU, BR, R, BD, HAS_COL, HAS_W, HAS_EID, FORM, True,
        )  # fmt: skip
        rest = k + BR * R
    if rest < stop:
        b_unit, b_inverse, b_A, b_T, b_K = _quick_round(
            x, weight, col, eid, rest, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, eps, b_unit, b_inverse, b_A,
            b_T, b_K, RELU, BR, R, BD, HAS_COL, HAS_W, HAS_EID, FORM, False,
        )  # fmt: skip
    b_sum = tl.sum(b_A, axis=0)
    b_moment = tl.sum(b_T, axis=0)
    b_last = tl.max(b_unit, axis=0)  # of one row
    m_well = ((b_sum == 0) | ((b_sum > 1e-12) & (b_sum < 1e12))) & (b_moment == b_moment) & (b_last < 1e37)
    b_key = tl.where(b_sum == 0, float("-inf"), b_last * b_sign)
    b_count = tl.sum(b_K, axis=0)
    if FORM == KEEP:
        b_count += (stop - start).to(tl.float32)
    return b_key, b_sum, b_moment, b_count, tl.min((m_well | ~m_d).to(tl.int32), axis=0) > 0


@triton.jit
def _rescale(b_key, b_A, b_T, b_new, b_p, b_sign, DENORMAL: tl.constexpr):
    """A and T of a part with its own extreme, sign * M = key, in the unit of another part. Empty parts stay empty."""
    b_scale, b_M, b_inverse = unit_of(b_new * b_sign, DENORMAL)
    b_shift = _exponent(b_p, wide_log_ratio(b_key * b_sign, b_scale, b_M, b_inverse, DENORMAL))
    b_factor = exp2(b_shift)
    m = b_A == 0
    return tl.where(m, 0.0, b_factor * b_A), tl.where(m, 0.0, b_factor * (b_T + b_A * b_shift))


@triton.jit
def _reduce_range(
    x, weight, col, eid, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, b_vanish, eps, RELU: tl.constexpr,
    DENORMAL: tl.constexpr, BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, HAS_COL: tl.constexpr,
    HAS_W: tl.constexpr, HAS_EID: tl.constexpr, FORM: tl.constexpr,
):  # fmt: skip
    """sign * M, A, T = sum 2^t t and K of the entries from start to stop. A row not kept has a u whose power vanishes.

    A thread sums its own rows and channels, so that threads meet once in a segment, and not at all if R = 1.
    A ratio outside the range of floats counts only for |p| < 1, and growth forms do not come here with such p.
    """
    far = tl.min(tl.where(m_d, tl.abs(b_p), 1.0), axis=0) < 1.0
    b_key = tl.full([R, BD], float("-inf"), tl.float32)
    b_A = tl.zeros([R, BD], tl.float32)
    b_T = tl.zeros([R, BD], tl.float32)
    b_K = tl.zeros([R, BD], tl.float32)
    for k in range(start, stop, BR * R):
        tiles = ()
        b_new = b_key
        for j in tl.static_range(BR):
            b_z, m = entries(x, weight, col, eid, k + j * R, stop, o_d, m_d, D, R, HAS_COL, HAS_W, HAS_EID, False)
            b_v = magnitude(b_z, RELU)
            m_kept = m & ~(b_v <= b_removed[None, :])
            b_u = tl.where(m_kept, b_v + eps, b_vanish[None, :])
            if FORM != NORM:
                b_K += tl.where(m_kept, 1.0, 0.0)
            b_new = tl.maximum(b_new, b_u * b_sign[None, :])
            tiles = tiles + (b_u,)
        if k > start:
            b_A, b_T = _rescale(b_key, b_A, b_T, b_new, b_p[None, :], b_sign[None, :], DENORMAL)
        b_scale, b_M, b_inverse = unit_of(b_new * b_sign[None, :], DENORMAL)
        for j in tl.static_range(BR):
            b_l = log_ratio(tiles[j], b_scale, b_M, b_inverse, DENORMAL)
            if FORM == NORM:  # noqa: SIM102 -- the outer condition is known when compiled, the inner one is not
                if far:
                    b_l = widened(b_l, tiles[j], b_scale, b_M, DENORMAL)
            b_t = _exponent(b_p[None, :], b_l)
            b_e = exp2(b_t)
            b_A += b_e
            b_T += b_e * b_t
        b_key = b_new
    if R > 1:
        b_new = tl.max(b_key, axis=0)
        b_A, b_T = _rescale(b_key, b_A, b_T, b_new[None, :], b_p[None, :], b_sign[None, :], DENORMAL)
        b_key = b_new
    else:
        b_key = tl.reshape(b_key, [BD])
    b_A = tl.sum(b_A, axis=0)
    b_T = tl.sum(b_T, axis=0)
    # For p < 0, infinite rows look like removed rows; count the infinite ones if there are no others.
    if tl.max(((b_key == float("-inf")) & m_d).to(tl.int32), axis=0) > 0:
        b_count = tl.zeros([BD], tl.float32)
        for k in range(start, stop, R):
            b_z, m = entries(x, weight, col, eid, k, stop, o_d, m_d, D, R, HAS_COL, HAS_W, HAS_EID, False)
            b_count += tl.sum((m & (magnitude(b_z, RELU) == float("inf"))).to(tl.float32), axis=0)
        b_A = tl.where((b_key == float("-inf")) & (b_A == b_A), b_count, b_A)
        b_T = tl.where(b_key == float("-inf"), 0.0, b_T)
    return b_key, b_A, b_T, tl.sum(b_K, axis=0)


@triton.jit
def _mixed_range(
    x, weight, col, eid, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, b_vanish, eps, RELU: tl.constexpr,
    DENORMAL: tl.constexpr, BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, HAS_COL: tl.constexpr,
    HAS_W: tl.constexpr, HAS_EID: tl.constexpr, FORM: tl.constexpr,
):  # fmt: skip
    """:func:`_reduce_range`, and :func:`mean_range` for the channels with a small p, if there are any."""
    b_key = tl.full([BD], float("-inf"), tl.float32)
    b_A = tl.zeros([BD], tl.float32)
    b_T = tl.zeros([BD], tl.float32)
    b_K = tl.zeros([BD], tl.float32)
    m_small = is_small(b_p)
    if tl.max((~m_small & m_d).to(tl.int32), axis=0) > 0:
        b_key, b_A, b_T, b_K = _reduce_range(
            x, weight, col, eid, start, stop, o_d, m_d, D, b_p, b_sign, b_removed, b_vanish, eps, RELU, DENORMAL, BR,
            R, BD, HAS_COL, HAS_W, HAS_EID, FORM,
        )  # fmt: skip
    if tl.max((m_small & m_d).to(tl.int32), axis=0) > 0:
        b_keys, b_As, b_Ts, b_Ks = mean_range(
            x, weight, col, eid, start, stop, o_d, m_d, D, tl.where(m_small, b_p, 0.0), b_removed, eps, RELU, DENORMAL,
            BR, R, BD, HAS_COL, HAS_W, HAS_EID,
        )  # fmt: skip
        b_key, b_A = tl.where(m_small, b_keys, b_key), tl.where(m_small, b_As, b_A)
        b_T, b_K = tl.where(m_small, b_Ts, b_T), tl.where(m_small, b_Ks, b_K)
    return b_key, b_A, b_T, b_K


@triton.jit
def _put(
    y, extreme, scale, slope, stats, s, n, o_d, m_d, D, b_p, b_i, b_i_low, b_q, b_q_low, b_nan, b_M, b_A, b_T, b_K,
    FORM: tl.constexpr,
):  # fmt: skip
    """Store the results of a whole segment s of n entries."""
    b_y, b_M, b_C, b_slope = _finish(b_p, b_i, b_i_low, b_q, b_q_low, b_nan, b_M, b_A, b_T, b_K, n, FORM)
    o_out = s * D + o_d
    tl.store(y + o_out, b_y, mask=m_d)
    if stats > 0:
        tl.store(extreme + o_out, b_M, mask=m_d)
        tl.store(scale + o_out, b_C, mask=m_d)
        tl.store(slope + o_out, b_slope, mask=m_d)


@triton.jit
def _put_part(parts, i_chunk, goes_on, o_d, m_d, D, b_key, b_A, b_T, b_K, FORM: tl.constexpr):
    """The part of a segment begun in an earlier chunk (slot 0), or of one that continues in the next (slot 1)."""
    o_part = ((i_chunk.to(tl.int64) * 2 + goes_on.to(tl.int64)) * (3 if FORM == NORM else 4)) * D + o_d
    tl.store(parts + o_part, b_key, mask=m_d)
    tl.store(parts + o_part + D, b_A, mask=m_d)
    tl.store(parts + o_part + 2 * D, b_T, mask=m_d)
    if FORM != NORM:
        tl.store(parts + o_part + 3 * D, b_K, mask=m_d)


@triton.jit
def _careful_segments(
    x, weight, ptr, col, eid, p, q, y, extreme, scale, slope, parts, eps, S, D, stats, i_chunk, i_block, first, last,
    e, e_end, asked, RELU: tl.constexpr, DENORMAL: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr,
    HAS_EID: tl.constexpr, FORM: tl.constexpr, BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """The requested segments of a chunk, one bit for every 64th, for any p.

    This runs after the quick way and shares no value with it, so that it takes no registers from it.
    """
    o_d, m_d = channels(i_block, D, BD, EVEN)
    b_p, b_sign, b_removed, b_vanish = _channels(p, o_d, m_d, eps, FORM)
    b_i, b_i_low, b_q, b_q_low, b_nan = _exponents(p, q, o_d, m_d, FORM)
    begin = tl.load(ptr + first)
    for s in range(first, last + 1):
        stop = tl.minimum(tl.load(ptr + tl.minimum(s + 1, S)), e_end)
        if ((asked >> ((s - first) & 63)) & 1) > 0:
            b_key, b_A, b_T, b_K = _mixed_range(
                x, weight, col, eid, e, stop, o_d, m_d, D, b_p, b_sign, b_removed, b_vanish, eps, RELU, DENORMAL, BR,
                R, BD, HAS_COL, HAS_W, HAS_EID, FORM,
            )  # fmt: skip
            if (s < last) & (begin == e):
                _put(
                    y, extreme, scale, slope, stats, s, stop - begin, o_d, m_d, D, b_p, b_i, b_i_low, b_q, b_q_low,
                    b_nan, b_key * b_sign, b_A, b_T, b_K, FORM,
                )  # fmt: skip
            else:
                _put_part(parts, i_chunk, s == last, o_d, m_d, D, b_key, b_A, b_T, b_K, FORM)
        e = stop
        begin = stop


@triton.jit(do_not_specialize=["S", "E", "stats", "CHUNK"])
def pool_fwd_kernel(
    x, weight, ptr, col, eid, p, q, starts, y, extreme, scale, slope, parts, eps, S, E, D, stats,
    CHUNK, RELU: tl.constexpr, DENORMAL: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr,
    HAS_EID: tl.constexpr, FORM: tl.constexpr, BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d, m_d = channels(i_block, D, BD, EVEN)
    b_p, b_sign, b_removed, b_vanish = _channels(p, o_d, m_d, eps, FORM)
    b_i, b_i_low, b_q, b_q_low, b_nan = _exponents(p, q, o_d, m_d, FORM)
    moderate = all_moderate(b_p, m_d, DENORMAL)

    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    step = i_chunk.to(tl.int64) * CHUNK
    e = step - first
    e_end = tl.minimum(step + CHUNK, S + E) - last
    begin = tl.load(ptr + first)
    end = tl.load(ptr + tl.minimum(first + 1, S))
    start, until = e, last + 1
    if FORM != NORM:  # none of these channels here, all of them below
        until = tl.where(moderate, until, first)
        asked = tl.where(moderate, 0, -1).to(tl.int64)
    for s in range(first, until):
        stop = tl.minimum(end, e_end)
        end = tl.load(ptr + tl.minimum(s + 2, S))  # loads while this segment is computed
        b_key = tl.full([BD], float("-inf"), tl.float32)
        b_A = tl.zeros([BD], tl.float32)
        b_T = tl.zeros([BD], tl.float32)
        b_K = tl.zeros([BD], tl.float32)
        done, ready = False, True
        if moderate:
            b_key, b_A, b_T, b_K, done = _quick_range(
                x, weight, col, eid, e, stop, o_d, m_d, D, b_p, b_sign, b_removed, eps, RELU, BR, R, BD, HAS_COL,
                HAS_W, HAS_EID, FORM,
            )  # fmt: skip
        if not done:
            if FORM == NORM:
                b_key, b_A, b_T, b_K = _reduce_range(
                    x, weight, col, eid, e, stop, o_d, m_d, D, b_p, b_sign, b_removed, b_vanish, eps, RELU, DENORMAL,
                    BR, R, BD, HAS_COL, HAS_W, HAS_EID, FORM,
                )  # fmt: skip
            else:
                asked |= tl.full([], 1, tl.int64) << ((s - first) & 63)
                ready = False
        if ready:
            if (s < last) & (begin == e):
                _put(
                    y, extreme, scale, slope, stats, s, stop - begin, o_d, m_d, D, b_p, b_i, b_i_low, b_q, b_q_low,
                    b_nan, b_key * b_sign, b_A, b_T, b_K, FORM,
                )  # fmt: skip
            else:
                _put_part(parts, i_chunk, s == last, o_d, m_d, D, b_key, b_A, b_T, b_K, FORM)
        e = stop
        begin = stop
    if FORM != NORM:  # noqa: SIM102 -- the outer condition is known when compiled, the inner one is not
        if asked != 0:
            _careful_segments(
                x, weight, ptr, col, eid, p, q, y, extreme, scale, slope, parts, eps, S, D, stats, i_chunk, i_block,
                first, last, start, e_end, asked, RELU, DENORMAL, HAS_COL, HAS_W, HAS_EID, FORM, BR, R, BD, EVEN,
            )  # fmt: skip


@triton.jit
def _merge_small(
    p, q, y, extreme, scale, slope, parts, s, n, start, i_chunk, i_block, D, stats, DENORMAL: tl.constexpr,
    FORM: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The channels of :func:`merge_fwd_kernel` with small p; a separate kernel, because registers are scarce."""
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_p, b_sign, _, _ = _channels(p, o_d, m_d, 0.0, FORM)
    m_d = m_d & is_small(b_p)
    b_p = tl.where(m_d, b_p, 0.0)
    b_key, b_A, b_T, b_K = merge_means(parts, start, i_chunk, o_d, m_d, D, b_p, DENORMAL, BR, BD)
    b_i, b_i_low, b_q, b_q_low, b_nan = _exponents(p, q, o_d, m_d, FORM)
    _put(
        y, extreme, scale, slope, stats, s, n, o_d, m_d, D, b_p, b_i, b_i_low, b_q, b_q_low, b_nan, b_key * b_sign,
        b_A, b_T, b_K, FORM,
    )  # fmt: skip


@triton.jit(do_not_specialize=["S", "E", "stats", "CHUNK"])
def merge_fwd_kernel(
    ptr, p, q, starts, y, extreme, scale, slope, parts, S, E, D, stats, CHUNK,
    DENORMAL: tl.constexpr, FORM: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Complete the segment that ends in chunk i but began before it: its parts are slots 1 before i and slot 0 of i."""
    SLOTS: tl.constexpr = 3 if FORM == NORM else 4
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    begin = tl.load(ptr + first)
    e = i_chunk.to(tl.int64) * CHUNK - first
    if (last > first) & (begin < e):
        o_d = i_block * BD + tl.arange(0, BD)
        m_d = o_d < D
        b_p, b_sign, _, _ = _channels(p, o_d, m_d, 0.0, FORM)
        b_i, b_i_low, b_q, b_q_low, b_nan = _exponents(p, q, o_d, m_d, FORM)
        b_key = tl.full([BD], float("-inf"), tl.float32)
        b_A = tl.zeros([BD], tl.float32)
        b_T = tl.zeros([BD], tl.float32)
        b_K = tl.zeros([BD], tl.float32)
        start = (begin + first) // CHUNK
        for k in range(start, i_chunk + 1, BR):
            b_keys, b_As, b_Ts, b_Ks = load_parts(parts, k, i_chunk, o_d, m_d, D, BR, SLOTS)
            b_new = tl.maximum(b_key, tl.max(b_keys, axis=0))
            b_A, b_T = _rescale(b_key, b_A, b_T, b_new, b_p, b_sign, DENORMAL)
            b_As, b_Ts = _rescale(b_keys, b_As, b_Ts, b_new[None, :], b_p[None, :], b_sign[None, :], DENORMAL)
            b_A += tl.sum(b_As, axis=0)
            b_T += tl.sum(b_Ts, axis=0)
            if FORM != NORM:
                b_K += tl.sum(b_Ks, axis=0)
            b_key = b_new
        n = tl.load(ptr + first + 1) - begin
        m_put = m_d
        if FORM != NORM:
            m_put = m_d & ~is_small(b_p)
        _put(
            y, extreme, scale, slope, stats, first, n, o_d, m_put, D, b_p, b_i, b_i_low, b_q, b_q_low, b_nan,
            b_key * b_sign, b_A, b_T, b_K, FORM,
        )  # fmt: skip
        if FORM != NORM:  # noqa: SIM102 -- the outer condition is known when compiled, the inner one is not
            if tl.max((is_small(b_p) & m_d).to(tl.int32), axis=0) > 0:
                _merge_small(
                    p, q, y, extreme, scale, slope, parts, first, n, start, i_chunk, i_block, D, stats, DENORMAL, FORM,
                    BR, BD,
                )  # fmt: skip
