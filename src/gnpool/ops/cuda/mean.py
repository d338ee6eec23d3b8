r"""The power mean for |p| < 1, through p = 0, for the forward kernels: there 1/p would take all digits.

Everything is measured by a unit u0 near the mean. With l = log2(u / u0), x = ln 2 p l and

    psi(x) = (e^x - 1 - x) / x^2       E0 = 1 + x psi = (e^x - 1) / x       E1 = E0 - psi = ((x - 1) e^x + 1) / x^2

which are smooth through 0, three sums over the k rows are enough: F = sum l E0, A = sum e^x and S = sum l^2 E1. Then

    log2(M_p / u0) = c = log2(1 + z) / p      with z = ln 2 p F / k = A / k - 1
    d log M_p / dp = ln 2^2 G / k             with G / k = S / A - c^2 psi(-ln 2 p c)

The difference in G is a variance, so it is accurate if c is small beside the spread. If it is not, or c or z is large,
the rows are read again with the M_p just found as the unit. A range of rows stores m = M_p, k and G as its part. A part
enters the sums like a row, by k l E0, k e^x and e^x G + k l^2 E1, with l of its m.
"""

# ruff: noqa: D103 -- the parameters are described where backend.py launches the kernels

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="assignment"

from __future__ import annotations

import triton
import triton.language as tl

from gnpool.ops.cuda.arithmetic import LN2, entries, exp2, log2, log_ratio, magnitude, reciprocal

SMALL = tl.constexpr(1.0)  # |p| below it is computed here
TRIES = tl.constexpr(3)  # usually one; two find the mean from any unit; the third is for units that overflow
FAR = tl.constexpr(1e18)  # replaces an infinite logarithm: its square is still a float


@triton.jit
def is_small(b_p):
    return tl.abs(b_p) < SMALL


@triton.jit
def _psi(b_x):
    """(e^x - 1 - x) / x^2 for |x| <= 1, to the last digit of float32."""
    b_sum = tl.fma(b_x, 2.5052108e-08, 2.7557319e-07)
    b_sum = tl.fma(b_x, b_sum, 2.7557319e-06)
    b_sum = tl.fma(b_x, b_sum, 2.4801587e-05)
    b_sum = tl.fma(b_x, b_sum, 1.9841270e-04)
    b_sum = tl.fma(b_x, b_sum, 1.3888889e-03)
    b_sum = tl.fma(b_x, b_sum, 8.3333333e-03)
    b_sum = tl.fma(b_x, b_sum, 4.1666667e-02)
    b_sum = tl.fma(b_x, b_sum, 1.6666667e-01)
    return tl.fma(b_x, b_sum, 0.5)


@triton.jit
def _parts_of(b_u, DENORMAL: tl.constexpr):
    """A positive float as an integer power of two and a mantissa in [1, 2)."""
    b_low = 0.0
    if DENORMAL:
        m = b_u < 1e-30
        b_u = tl.where(m, b_u * 1.8446744e19, b_u)
        b_low = tl.where(m, 64.0, 0.0)
    bits = b_u.to(tl.int32, bitcast=True)
    b_whole = ((bits >> 23) - 127).to(tl.float32) - b_low
    return b_whole, ((bits & 0x007FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)


@triton.jit
def _log_ratio(b_u, b_whole, b_M, b_inverse, DENORMAL: tl.constexpr):
    """log2(u / u0) as an integer and a rest within 1/2; u0 is given in parts. Not finite if it has no value."""
    b_high, b_mantissa = _parts_of(b_u, DENORMAL)
    b_ratio = b_mantissa * b_inverse
    b_step = tl.where(b_ratio > 1.4142135, 1.0, tl.where(b_ratio < 0.70710678, -1.0, 0.0))
    b_mantissa *= tl.where(b_step > 0, 0.5, tl.where(b_step < 0, 2.0, 1.0))
    b_rest = log_ratio(b_mantissa, b_M, b_M, b_inverse, False)
    m_number = (b_u > 0) & (b_u < float("inf"))
    b_rest = tl.where(m_number, b_rest, log2(b_u))
    return tl.where(m_number, (b_high - b_whole) + b_step, 0.0), b_rest


@triton.jit
def _terms(b_u, b_whole, b_M, b_inverse, b_p, DENORMAL: tl.constexpr):
    """l E0 as an integer and a rest, l^2 E1 and e^x of u, with u0 in parts.

    If the limit is known without a sum, at 0 or infinity, l counts as 0.
    """
    b_high, b_low = _log_ratio(b_u, b_whole, b_M, b_inverse, DENORMAL)
    b_low = tl.where(((b_u == float("inf")) & (b_p >= 0)) | ((b_u == 0) & (b_p <= 0)), 0.0, b_low)
    b_low = tl.maximum(b_low, -FAR, propagate_nan=tl.PropagateNan.ALL)
    b_low = tl.minimum(b_low, FAR, propagate_nan=tl.PropagateNan.ALL)
    b_l = b_high + b_low
    b_t = b_p * b_l
    b_e = exp2(tl.minimum(b_t, 120.0, propagate_nan=tl.PropagateNan.ALL))  # larger values need another unit
    b_x = b_t * LN2
    m_near = tl.abs(b_x) < 1.0
    b_psi = _psi(tl.where(m_near, b_x, 0.0))
    b_near = tl.fma(b_x, b_psi, 1.0)
    b_over = reciprocal(tl.where(m_near, 1.0, b_x))
    b_far = (b_e - 1.0) * b_over
    b_E1 = tl.where(m_near, b_near - b_psi, (b_e - b_far) * b_over)
    b_rest = tl.where(m_near, tl.fma(b_l * b_x, b_psi, b_low), b_l * b_far)
    return tl.where(m_near, b_high, 0.0), b_rest, b_l * b_l * b_E1, b_e


@triton.jit
def _add(b_sum, b_lost, b_term):
    """The sum with one more term, and its rounding error (to be subtracted)."""
    b_term = b_term - b_lost
    b_new = b_sum + b_term
    return b_new, (b_new - b_sum) - b_term


@triton.jit
def _counts(b_K, b_I, b_least, b_most):
    """The numbers of entries and of infinite ones, and both extremes, over all rows."""
    return tl.sum(b_K, axis=0), tl.sum(b_I, axis=0), tl.min(b_least, axis=0), tl.max(b_most, axis=0)


@triton.jit
def _settle(b_unit, b_Ws, b_Fs, b_As, b_Ss, b_K, b_p, m_d):
    """m and G of a range from sums of rows in a unit, F as two numbers; the next unit, and whether it should be tried.

    c is an integer and a rest as well, so that its size costs m no digit.
    """
    b_W, b_F, b_A, b_S = tl.sum(b_Ws, axis=0), tl.sum(b_Fs, axis=0), tl.sum(b_As, axis=0), tl.sum(b_Ss, axis=0)
    b_over = 1.0 / tl.maximum(b_K, 1.0)
    b_whole = tl.floor(b_W * b_over)
    b_rest = (tl.fma(-b_whole, b_K, b_W) + b_F) * b_over
    b_mean = b_whole + b_rest
    b_z = b_p * b_mean * LN2
    m_inner = tl.abs(b_z) <= 0.5
    b_inner = tl.where(m_inner, b_z, 0.0)
    b_s = b_inner / (b_inner + 2.0)
    b_square = b_s * b_s
    b_series = tl.fma(b_square, 0.076923077, 0.090909091)  # atanh(s) / s - 1
    b_series = tl.fma(b_square, b_series, 0.11111111)
    b_series = tl.fma(b_square, b_series, 0.14285714)
    b_series = tl.fma(b_square, b_series, 0.2)
    b_series = tl.fma(b_square, b_series, 0.33333333) * b_square
    b_rest += b_mean * tl.fma(-b_s, b_series, b_series - b_s)  # log(1 + z) / z - 1
    b_outer = log2(b_A * b_over) / tl.where(m_inner | (b_p == 0), 1.0, b_p)
    b_outer = tl.minimum(b_outer, 1e4, propagate_nan=tl.PropagateNan.ALL)  # infinite if all powers vanish
    b_outer = tl.maximum(b_outer, -1e4, propagate_nan=tl.PropagateNan.ALL)
    b_whole = tl.where(m_inner, b_whole, tl.floor(b_outer))
    b_rest = tl.where(m_inner, b_rest, b_outer - tl.floor(b_outer))
    b_c = b_whole + b_rest
    b_total = tl.where(m_inner, 1.0 + b_z, b_A * b_over)  # A / k; the first has more digits
    b_w = tl.minimum(tl.maximum(b_p * b_c * LN2, -1.0), 1.0)
    b_G = tl.where(b_total > 0, tl.maximum(b_S * b_over / b_total - b_c * b_c * _psi(-b_w), 0.0), 0.0)
    b_square = b_c * b_c  # a large c has lost digits by its size alone
    m_bad = (b_K > 0) & m_d & ~(m_inner & (b_square <= tl.minimum(16.0 * b_G + 1e-9, 256.0)))

    b_half = tl.floor(0.5 * b_whole)
    b_m = b_unit * exp2(b_half) * exp2(b_whole - b_half) * exp2(b_rest)  # in steps, so that only m itself can overflow
    b_next = tl.where(m_bad & (b_m > 0) & (b_m < float("inf")), b_m, b_unit)
    return b_m, b_G * b_K, b_next, tl.max(m_bad.to(tl.int32), axis=0) > 0


@triton.jit
def _part(b_m, b_G, b_K, b_least, b_most, b_endless, b_p):
    """A part as the kernels keep it, sign * m, A, T and K, from the sums, the extremes and the number of infinite rows.

    A is k and T is G, unless m is infinite; then A counts the infinite rows, as it does for other p, and T is 0.
    """
    m_zero = (b_least == 0) & (b_p <= 0)
    m_endless = (b_most == float("inf")) & ((b_p >= 0) | (b_least == float("inf"))) & ~m_zero
    b_A = tl.where(b_m == b_m, tl.where(m_endless, b_endless, b_K), b_m)
    b_m = tl.where(m_zero, 0.0, tl.where(m_endless, float("inf"), b_m))
    b_T = tl.where(m_zero | m_endless, 0.0, b_G)
    b_key = tl.where(b_K == 0, float("-inf"), tl.where(b_p > 0, b_m, -b_m))
    return b_key, tl.where(b_K == 0, 0.0, b_A), b_T, b_K


@triton.jit
def mean_range(
    x, weight, col, eid, start, stop, o_d, m_d, D, b_p, b_removed, eps, RELU: tl.constexpr, DENORMAL: tl.constexpr,
    BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr,
    HAS_EID: tl.constexpr,
):  # fmt: skip
    """The part of the rows from start to stop. The first unit is the first row above the tolerance, if any is near."""
    b_unit = tl.full([BD], 1.0, tl.float32)
    b_m = tl.zeros([BD], tl.float32)
    b_G = tl.zeros([BD], tl.float32)
    b_count = tl.zeros([BD], tl.float32)
    b_endless = tl.zeros([BD], tl.float32)
    b_low = tl.full([BD], float("inf"), tl.float32)
    b_high = tl.zeros([BD], tl.float32)
    again = stop > start
    for attempt in range(TRIES):
        if again:
            b_W = tl.zeros([R, BD], tl.float32)
            b_F = tl.zeros([R, BD], tl.float32)
            b_lost = tl.zeros([R, BD], tl.float32)
            b_A = tl.zeros([R, BD], tl.float32)
            b_S = tl.zeros([R, BD], tl.float32)
            b_K = tl.zeros([R, BD], tl.float32)
            b_I = tl.zeros([R, BD], tl.float32)
            b_least = tl.full([R, BD], float("inf"), tl.float32)
            b_most = tl.zeros([R, BD], tl.float32)
            for k in range(start, stop, BR * R):
                tiles = ()
                for j in tl.static_range(BR):
                    b_z, m = entries(
                        x, weight, col, eid, k + j * R, stop, o_d, m_d, D, R, HAS_COL, HAS_W, HAS_EID, False
                    )
                    b_v = magnitude(b_z, RELU)
                    m_kept = m & ~(b_v <= b_removed[None, :])
                    tiles = tiles + ((b_v + eps, m_kept, m_kept & (b_v > eps) & (b_v < float("inf"))),)
                if (k == start) & (attempt == 0):
                    b_any = tl.zeros([R, BD], tl.float32)
                    b_first = tl.zeros([R, BD], tl.float32)
                    for j in tl.static_range(BR):
                        b_any = tl.where(tiles[j][1] & (tiles[j][0] < float("inf")), tiles[j][0], b_any)
                        b_first = tl.where(tiles[j][2] & (b_first == 0), tiles[j][0], b_first)
                    b_one = tl.max(b_first, axis=0)
                    b_other = tl.max(b_any, axis=0)
                    b_unit = tl.where(b_one > 0, b_one, tl.where(b_other > 0, b_other, 1.0))
                b_whole, b_M = _parts_of(b_unit[None, :], DENORMAL)
                b_inverse = 1.0 / b_M
                for j in tl.static_range(BR):
                    b_u = tl.where(tiles[j][1], tiles[j][0], b_unit[None, :])
                    b_w, b_f, b_s, b_e = _terms(b_u, b_whole, b_M, b_inverse, b_p[None, :], DENORMAL)
                    b_W += b_w
                    b_F, b_lost = _add(b_F, b_lost, b_f)
                    b_S += b_s
                    b_A += tl.where(tiles[j][1], b_e, 0.0)
                    b_K += tl.where(tiles[j][1], 1.0, 0.0)
                    b_I += tl.where(b_u == float("inf"), 1.0, 0.0)
                    b_least = tl.minimum(b_least, tl.where(tiles[j][1], b_u, float("inf")))
                    b_most = tl.maximum(b_most, tl.where(tiles[j][1], b_u, 0.0))
            b_count, b_endless, b_low, b_high = _counts(b_K, b_I, b_least, b_most)
            b_m, b_G, b_unit, again = _settle(b_unit, b_W, b_F - b_lost, b_A, b_S, b_count, b_p, m_d)
    return _part(b_m, b_G, b_count, b_low, b_high, b_endless, b_p)


@triton.jit
def merge_means(parts, start, i_chunk, o_d, m_d, D, b_p, DENORMAL: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """The part of a whole segment, from its parts: slots 1 of the chunks from start on, slot 0 of the last."""
    b_unit = tl.full([BD], 1.0, tl.float32)
    b_m = tl.zeros([BD], tl.float32)
    b_G = tl.zeros([BD], tl.float32)
    b_count = tl.zeros([BD], tl.float32)
    b_endless = tl.zeros([BD], tl.float32)
    b_low = tl.full([BD], float("inf"), tl.float32)
    b_high = tl.zeros([BD], tl.float32)
    again = start <= i_chunk
    for attempt in range(TRIES):
        if again:
            b_W = tl.zeros([BR, BD], tl.float32)
            b_F = tl.zeros([BR, BD], tl.float32)
            b_lost = tl.zeros([BR, BD], tl.float32)
            b_A = tl.zeros([BR, BD], tl.float32)
            b_S = tl.zeros([BR, BD], tl.float32)
            b_K = tl.zeros([BR, BD], tl.float32)
            b_I = tl.zeros([BR, BD], tl.float32)
            b_least = tl.full([BR, BD], float("inf"), tl.float32)
            b_most = tl.zeros([BR, BD], tl.float32)
            for k in range(start, i_chunk + 1, BR):
                b_keys, b_As, b_Ts, b_Ks = load_parts(parts, k, i_chunk, o_d, m_d, D, BR, 4)
                m = b_Ks > 0
                b_u = tl.abs(b_keys)
                if (k == start) & (attempt == 0):
                    b_one = tl.max(tl.where(m & (b_u < float("inf")), b_u, 0.0), axis=0)
                    b_unit = tl.where(b_one > 0, b_one, 1.0)
                b_u = tl.where(m, b_u, b_unit[None, :])
                b_whole, b_M = _parts_of(b_unit[None, :], DENORMAL)
                b_inverse = 1.0 / b_M
                b_w, b_f, b_s, b_e = _terms(b_u, b_whole, b_M, b_inverse, b_p[None, :], DENORMAL)
                b_W += b_Ks * b_w
                b_F, b_lost = _add(b_F, b_lost, b_Ks * b_f)
                b_S += tl.fma(b_e, b_Ts, b_Ks * b_s)
                b_A += b_Ks * b_e
                b_K += b_Ks
                b_I += tl.where(b_u == float("inf"), b_As, 0.0)
                b_least = tl.minimum(b_least, tl.where(m, b_u, float("inf")))
                b_most = tl.maximum(b_most, tl.where(m, b_u, 0.0))
            b_count, b_endless, b_low, b_high = _counts(b_K, b_I, b_least, b_most)
            b_m, b_G, b_unit, again = _settle(b_unit, b_W, b_F - b_lost, b_A, b_S, b_count, b_p, m_d)
    return _part(b_m, b_G, b_count, b_low, b_high, b_endless, b_p)


@triton.jit
def load_parts(parts, k, i_chunk, o_d, m_d, D, BR: tl.constexpr, SLOTS: tl.constexpr):
    """The parts of BR chunks from k to i_chunk, (BR, BD) each; a missing part is empty."""
    o_i = k + tl.arange(0, BR)
    o_part = (o_i.to(tl.int64) * 2 + (o_i < i_chunk).to(tl.int64)) * SLOTS
    m = (o_i <= i_chunk)[:, None] & m_d[None, :]
    o_part = o_part[:, None] * D + o_d[None, :]
    b_keys = tl.load(parts + o_part, mask=m, other=float("-inf"))
    b_As = tl.load(parts + o_part + D, mask=m, other=0.0)
    b_Ts = tl.load(parts + o_part + 2 * D, mask=m, other=0.0)
    b_Ks = b_As
    if SLOTS > 3:
        b_Ks = tl.load(parts + o_part + 3 * D, mask=m, other=0.0)
    return b_keys, b_As, b_Ts, b_Ks
