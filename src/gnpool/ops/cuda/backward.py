"""The Triton kernels of the backward pass: by segments (every row used once), and by sources (neighbours)."""

# mypy: disable-error-code="assignment"

from __future__ import annotations

import triton
import triton.language as tl

from gnpool.ops.cuda.arithmetic import (
    HUGE,
    LN2,
    NORM,
    REMOVE,
    above,
    all_moderate,
    channels,
    exp2,
    log2,
    log_ratio,
    magnitude,
    places,
    rows,
    unit_of,
    weights,
    wide_log_ratio,
)


@triton.jit
def _slopes(p, o_d, m_d, eps, FORM: tl.constexpr):
    """For each channel: p - 1 within the range of float32, and the largest v without a slope (0, or removed)."""
    b_p = tl.load(p + o_d, mask=m_d, other=1.0)
    b_power = tl.minimum(tl.maximum(b_p - 1.0, -HUGE), HUGE).to(tl.float32)
    if FORM == NORM:
        return tl.where(b_p == 0, float("nan"), b_power), tl.where(b_p < 0, eps, 0.0)
    else:  # noqa: RET505 -- both branches must return for the compiler
        return b_power, tl.zeros_like(b_power) + (eps if FORM == REMOVE else 0.0)


@triton.jit
def _with_sign(b_d, b_z):
    """d, or -d where z is negative: one instruction on the bits."""
    b_sign = b_z.to(tl.int32, bitcast=True) & -2147483648
    return (b_d.to(tl.int32, bitcast=True) ^ b_sign).to(tl.float32, bitcast=True)


@triton.jit
def _is_wide(b_p):
    """The mask of entries whose slope counts although their distance from the extreme exceeds a float."""
    return (b_p > -1.0) & (b_p < 1.5)


@triton.jit
def _slope_of(
    b_z, b_scale, b_M, b_inverse, b_g, b_power, b_still, eps, RELU: tl.constexpr, DENORMAL: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """dL/dz of entries whose segments have g = grad * C and the unit of their extreme: g sign(z) 2^((p - 1) l).

    It is returned as two factors. With WIDE they have equal range, so that a product with them overflows only if it
    must; otherwise the second is 1.
    """
    b_v = magnitude(b_z, RELU)
    b_root = 1.0
    if WIDE:
        b_l = wide_log_ratio(b_v + eps, b_scale, b_M, b_inverse, DENORMAL)
        b_half = 0.5 * b_power * tl.maximum(b_l, -HUGE, propagate_nan=tl.PropagateNan.ALL)
        b_root = exp2(tl.minimum(b_half, 127.0, propagate_nan=tl.PropagateNan.ALL))  # finite: g may be 0
        b_d = b_g * b_root
    else:
        b_l = log_ratio(b_v + eps, b_scale, b_M, b_inverse, DENORMAL)
        b_d = b_g * exp2(b_power * tl.maximum(b_l, -HUGE, propagate_nan=tl.PropagateNan.ALL))
    if not RELU:
        b_d = _with_sign(b_d, b_z)
    return tl.where(b_v <= b_still, 0.0, b_d), b_root


@triton.jit
def _quick_unit(b_M, b_inverse, b_power, HALF: tl.constexpr):
    """The data of M that :func:`_quick_slope_of` needs: its inverse, and in half precision its part of the exponent."""
    return -b_power * log2(b_M) if HALF else b_inverse


@triton.jit
def _quick_slope_of(b_z, b_unit, b_g, b_power, b_still, eps, RELU: tl.constexpr, HALF: tl.constexpr):
    """Compute :func:`_slope_of` for moderate p and finite units. The exponent of half precision has digits to lose."""
    b_u = magnitude(b_z, RELU) + eps
    b_d = b_g * exp2(tl.fma(b_power, log2(b_u), b_unit) if HALF else b_power * log2(b_u * b_unit))
    if not RELU:
        b_d = _with_sign(b_d, b_z)
    return above(b_z, b_still, b_d, RELU)


@triton.jit
def _quick_slopes(
    x, col, grad_x, k, stop, o_d, m_d, D, b_unit, b_g, b_power, b_still, eps, RELU: tl.constexpr,
    HALF: tl.constexpr, HAS_COL: tl.constexpr, BR: tl.constexpr, R: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """A round of entries; all are loaded before the first is stored."""
    tiles = ()
    for j in tl.static_range(BR):
        tiles = tiles + (rows(x, col, k + j * R, stop, o_d, m_d, D, R, HAS_COL, WHOLE)[0],)
    for j in tl.static_range(BR):
        b_d = _quick_slope_of(
            tiles[j], b_unit[None, :], b_g[None, :], b_power[None, :], b_still[None, :], eps, RELU, HALF
        )
        o_x, m, _, _ = places(col, k + j * R, stop, o_d, m_d, D, R, HAS_COL, WHOLE)
        tl.store(grad_x + o_x, b_d.to(grad_x.dtype.element_ty), mask=m)


@triton.jit
def _all_near(b_M, eps, m_d):
    """Whether all entries, which are at least eps, are so close to M that a float can hold the ratio."""
    return tl.min(((b_M < tl.minimum(eps, 1.0) * 1e37) | ~m_d).to(tl.int32), axis=0) > 0


@triton.jit
def _slopes_of_rows(
    x, col, grad_x, start, stop, o_d, m_d, D, b_scale, b_M, b_inverse, b_g, b_power, b_still, eps, RELU: tl.constexpr,
    DENORMAL: tl.constexpr, HAS_COL: tl.constexpr, R: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The slopes of the entries from start to stop, for any p."""
    for k in range(start, stop, R):
        b_z, o_x, m, _, _ = rows(x, col, k, stop, o_d, m_d, D, R, HAS_COL, False)
        b_d, b_root = _slope_of(
            b_z, b_scale[None, :], b_M[None, :], b_inverse[None, :], b_g[None, :], b_power[None, :],
            b_still[None, :], eps, RELU, DENORMAL, WIDE,
        )  # fmt: skip
        b_d = tl.where(b_d == 0, 0.0, b_d * b_root)
        tl.store(grad_x + o_x, b_d.to(grad_x.dtype.element_ty), mask=m)


@triton.jit(do_not_specialize=["S", "E", "CHUNK"])
def pool_bwd_kernel(
    grad, x, ptr, col, p, starts, y, extreme, scale, slope, grad_x, sums, eps, S, E, D, CHUNK,
    RELU: tl.constexpr, DENORMAL: tl.constexpr, HAS_COL: tl.constexpr, NEED_X: tl.constexpr, FORM: tl.constexpr,
    BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """By segments: every entry writes its own row of grad_x. sums (chunks, 2, D) collects dL/dp and dL/dq."""
    HALF: tl.constexpr = x.dtype.element_ty.primitive_bitwidth == 16
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d, m_d = channels(i_block, D, BD, EVEN)
    b_power, b_still = _slopes(p, o_d, m_d, eps, FORM)
    moderate = all_moderate(b_power + 1.0, m_d, DENORMAL)
    wide = tl.max((_is_wide(b_power + 1.0) & m_d).to(tl.int32), axis=0) > 0
    b_dp = tl.zeros([BD], tl.float32)
    b_dq = tl.zeros([BD], tl.float32)

    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    step = i_chunk.to(tl.int64) * CHUNK
    e = step - first
    e_end = tl.minimum(step + CHUNK, S + E) - last
    begin = tl.load(ptr + first)
    end = tl.load(ptr + tl.minimum(first + 1, S))
    for s in range(first, last + 1):
        stop = tl.minimum(end, e_end)
        end = tl.load(ptr + tl.minimum(s + 2, S))  # loads while this segment is computed
        o_s = s * D + o_d
        m_s = m_d & (o_s < S * D)
        b_grad = tl.load(grad + o_s, mask=m_s, other=0.0).to(tl.float32)
        if s < last:
            b_dp += b_grad * tl.load(slope + o_s, mask=m_s, other=0.0)
            b_y = tl.load(y + o_s, mask=m_s, other=0.0)
            n = stop - begin
            b_dq -= tl.where(n > 1, b_grad * b_y * tl.log2(tl.maximum(n, 1).to(tl.float32)) * LN2, 0.0)
        if NEED_X:
            b_scale, b_M, b_inverse = unit_of(tl.load(extreme + o_s, mask=m_s, other=1.0), DENORMAL)
            b_g = b_grad * tl.load(scale + o_s, mask=m_s, other=0.0)
            quick = moderate & _all_near(b_M, eps, m_d)
            rest = e
            if quick:
                b_unit = _quick_unit(b_M, b_inverse, b_power, HALF)
                for k in range(e, stop - (BR * R - 1), BR * R):
                    _quick_slopes(
                        x, col, grad_x, k, stop, o_d, m_d, D, b_unit, b_g, b_power, b_still, eps, RELU, HALF, HAS_COL,
                        BR, R, True,
                    )  # fmt: skip
                    rest = k + BR * R
                if rest < stop:
                    _quick_slopes(
                        x, col, grad_x, rest, stop, o_d, m_d, D, b_unit, b_g, b_power, b_still, eps, RELU, HALF,
                        HAS_COL, BR, R, False,
                    )  # fmt: skip
            elif wide:
                _slopes_of_rows(
                    x, col, grad_x, e, stop, o_d, m_d, D, b_scale, b_M, b_inverse, b_g, b_power, b_still, eps, RELU,
                    DENORMAL, HAS_COL, R, True,
                )  # fmt: skip
            else:
                _slopes_of_rows(
                    x, col, grad_x, e, stop, o_d, m_d, D, b_scale, b_M, b_inverse, b_g, b_power, b_still, eps, RELU,
                    DENORMAL, HAS_COL, R, False,
                )  # fmt: skip
        e = stop
        begin = stop
    o_sum = i_chunk.to(tl.int64) * 2 * D + o_d
    tl.store(sums + o_sum, b_dp, mask=m_d)
    tl.store(sums + o_sum + D, b_dq, mask=m_d)


@triton.jit(do_not_specialize=["S"])
def range_kernel(extreme, ranges, S, D, ROWS: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """ranges (blocks of rows, 2, D): the least and the largest M of the segments that have one."""
    i_rows, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_low = tl.full([BR, BD], float("inf"), tl.float32)
    b_high = tl.zeros([BR, BD], tl.float32)
    for k in range(0, ROWS, BR):
        o_s = i_rows.to(tl.int64) * ROWS + k + tl.arange(0, BR)
        m = (o_s < S)[:, None] & m_d[None, :]
        b_M = tl.load(extreme + o_s[:, None] * D + o_d[None, :], mask=m, other=0.0)
        b_low = tl.minimum(b_low, tl.where(b_M > 0, b_M, float("inf")))
        b_high = tl.maximum(b_high, b_M)
    o_out = i_rows.to(tl.int64) * 2 * D + o_d
    tl.store(ranges + o_out, tl.min(b_low, axis=0), mask=m_d)
    tl.store(ranges + o_out + D, tl.max(b_high, axis=0), mask=m_d)


@triton.jit(do_not_specialize=["blocks"])
def unit_kernel(ranges, p, units, flags, blocks, D, DIGITS: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """One unit of measure per channel, in the middle of the range; flags: whether it suits a block of channels."""
    i_block = tl.program_id(0)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_low = tl.full([BR, BD], float("inf"), tl.float32)
    b_high = tl.zeros([BR, BD], tl.float32)
    for k in range(0, blocks, BR):
        o_i = k + tl.arange(0, BR)
        m = (o_i < blocks)[:, None] & m_d[None, :]
        o_in = o_i.to(tl.int64)[:, None] * 2 * D + o_d[None, :]
        b_low = tl.minimum(b_low, tl.load(ranges + o_in, mask=m, other=float("inf")))
        b_high = tl.maximum(b_high, tl.load(ranges + o_in + D, mask=m, other=0.0))
    b_least = tl.min(b_low, axis=0)
    b_most = tl.max(b_high, axis=0)
    b_least = tl.minimum(b_least, b_most)  # 0 if no segment has an M
    b_power = tl.abs(tl.load(p + o_d, mask=m_d, other=1.0) - 1.0).to(tl.float32)
    m_fits = (b_least > 1e-30) & (b_most < 1e30) & (b_power * tl.log2(b_most / b_least) <= DIGITS)
    tl.store(units + o_d, tl.sqrt(b_least) * tl.sqrt(b_most), mask=m_d)
    tl.store(flags + i_block, tl.min((m_fits | ~m_d).to(tl.int32), axis=0))


@triton.jit(do_not_specialize=["S"])
def pack_kernel(
    grad, ptr, p, y, extreme, scale, slope, units, flags, pack, sums, S, D, SHARED: tl.constexpr, FORM: tl.constexpr,
    ROWS: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Neighbours: pack (S, D) = grad * C, in the shared unit if there is one; sums (blocks, 2, D) as above."""
    i_rows, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_dp = tl.zeros([BR, BD], tl.float32)
    b_dq = tl.zeros([BR, BD], tl.float32)
    if SHARED:
        shared = tl.load(flags + i_block) > 0
        b_power, _ = _slopes(p, o_d, m_d, 0.0, FORM)
        b_scale, b_unit, b_inverse = unit_of(tl.load(units + o_d, mask=m_d, other=1.0), False)
    for k in range(0, ROWS, BR):
        o_s = i_rows.to(tl.int64) * ROWS + k + tl.arange(0, BR)
        m_s = o_s < S
        m = m_s[:, None] & m_d[None, :]
        o_in = o_s[:, None] * D + o_d[None, :]
        b_n = tl.load(ptr + o_s + 1, mask=m_s, other=0) - tl.load(ptr + o_s, mask=m_s, other=0)
        b_log = tl.where(b_n > 1, tl.log2(tl.maximum(b_n, 1).to(tl.float32)) * LN2, 0.0)
        b_grad = tl.load(grad + o_in, mask=m, other=0.0).to(tl.float32)
        b_y = tl.load(y + o_in, mask=m, other=0.0)
        b_dp += b_grad * tl.load(slope + o_in, mask=m, other=0.0)
        b_dq -= tl.where(b_log[:, None] == 0, 0.0, b_grad * b_y * b_log[:, None])
        b_g = b_grad * tl.load(scale + o_in, mask=m, other=0.0)
        if SHARED:  # noqa: SIM102 -- the outer condition is known when compiled, the inner one is not
            if shared:
                b_M = tl.load(extreme + o_in, mask=m, other=0.0)
                b_l = log_ratio(b_M, b_scale[None, :], b_unit[None, :], b_inverse[None, :], False)
                b_g = tl.where(b_M == 0, 0.0, b_g * exp2(-b_power[None, :] * b_l))
        tl.store(pack + o_in, b_g, mask=m)
    o_sum = i_rows.to(tl.int64) * 2 * D + o_d
    tl.store(sums + o_sum, tl.sum(b_dp, axis=0), mask=m_d)
    tl.store(sums + o_sum + D, tl.sum(b_dq, axis=0), mask=m_d)


@triton.jit
def _plain_sum(pack, row, start, stop, o_d, m_d, D, BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr):
    """The sum of the packed rows of the edges from start to stop."""
    b_sum = tl.zeros([R, BD], tl.float32)
    rest = start
    for k in range(start, stop - (BR * R - 1), BR * R):
        for j in tl.static_range(BR):
            b_sum += rows(pack, row, k + j * R, stop, o_d, m_d, D, R, True, True)[0]
        rest = k + BR * R
    if rest < stop:
        for j in tl.static_range(BR):
            b_sum += rows(pack, row, rest + j * R, stop, o_d, m_d, D, R, True, False)[0]
    return b_sum


@triton.jit
def _edge_sum(
    b_x, extreme, pack, weight, row, eid, start, stop, o_d, m_d, b_power, b_still, grad_weight, eps, D,
    RELU: tl.constexpr, DENORMAL: tl.constexpr, HAS_W: tl.constexpr, HAS_EID: tl.constexpr, NEED_W: tl.constexpr,
    WIDE: tl.constexpr, BR: tl.constexpr, R: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The sum of the slopes of the edges from start to stop, each in the unit of its destination."""
    b_sum = tl.zeros([R, BD], tl.float32)
    for k in range(start, stop, BR * R):
        for j in tl.static_range(BR):
            b_g, o_g, m, o_e, m_e = rows(pack, row, k + j * R, stop, o_d, m_d, D, R, True, False)
            b_scale, b_M, b_inverse = unit_of(tl.load(extreme + o_g, mask=m, other=1.0), DENORMAL)
            b_z = tl.zeros([R, BD], tl.float32) + b_x[None, :]
            if HAS_W:
                b_w, o_w = weights(weight, eid, o_e, m_e, HAS_EID)
                b_z = b_z * b_w[:, None]
            b_dz, b_root = _slope_of(
                b_z, b_scale, b_M, b_inverse, b_g, b_power[None, :], b_still[None, :], eps, RELU, DENORMAL, WIDE
            )
            b_dz = tl.where(m, b_dz, 0.0)
            if NEED_W:
                b_dw = tl.sum(tl.where(b_dz == 0, 0.0, b_dz * b_x[None, :] * b_root), axis=1)
                tl.store(grad_weight + o_w, b_dw, mask=m_e)
            if HAS_W:
                b_dz = tl.where(b_dz == 0, 0.0, b_dz * b_w[:, None] * b_root)
            elif WIDE:
                b_dz = tl.where(b_dz == 0, 0.0, b_dz * b_root)
            b_sum += b_dz
    return b_sum


@triton.jit(do_not_specialize=["S", "E", "CHUNK"])
def sources_bwd_kernel(
    x, weight, ptr, row, eid, p, starts, extreme, pack, units, flags, grad_x, grad_weight, parts, eps, S, E, D,
    CHUNK, RELU: tl.constexpr, DENORMAL: tl.constexpr, SHARED: tl.constexpr, HAS_W: tl.constexpr,
    HAS_EID: tl.constexpr, NEED_X: tl.constexpr, NEED_W: tl.constexpr, FORM: tl.constexpr, BR: tl.constexpr,
    R: tl.constexpr, BD: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Neighbours, by source: ptr, row and eid are the transposed lists, S the number of sources.

    If one unit serves all segments, the power of a source is taken out of the sum over its edges.
    """
    i_chunk, i_block = tl.program_id(0), tl.program_id(1)
    o_d, m_d = channels(i_block, D, BD, EVEN)
    b_power, b_still = _slopes(p, o_d, m_d, eps, FORM)
    wide = tl.max((_is_wide(b_power + 1.0) & m_d).to(tl.int32), axis=0) > 0
    grad_weight += i_block.to(tl.int64) * E
    if SHARED:
        shared = tl.load(flags + i_block) > 0
        b_scale, b_unit, b_inverse = unit_of(tl.load(units + o_d, mask=m_d, other=1.0), False)

    first = tl.load(starts + i_chunk)
    last = tl.load(starts + i_chunk + 1)
    step = i_chunk.to(tl.int64) * CHUNK
    e = step - first
    e_end = tl.minimum(step + CHUNK, S + E) - last
    begin = tl.load(ptr + first)
    end = tl.load(ptr + tl.minimum(first + 1, S))
    for s in range(first, last + 1):
        stop = tl.minimum(end, e_end)
        end = tl.load(ptr + tl.minimum(s + 2, S))  # loads while this source is computed
        o_s = s * D + o_d
        b_x = tl.load(x + o_s, mask=m_d & (o_s < S * D), other=0.0).to(tl.float32)
        edges = True
        b_dx = tl.zeros([BD], tl.float32)
        if SHARED:
            edges = ~shared
            if shared:
                b_sum = tl.sum(_plain_sum(pack, row, e, stop, o_d, m_d, D, BR, R, BD), axis=0)
                b_dx, b_root = _slope_of(
                    b_x, b_scale, b_unit, b_inverse, b_sum, b_power, b_still, eps, RELU, False, True
                )
                b_dx = tl.where(b_dx == 0, 0.0, b_dx * b_root)
        if edges & wide:
            edges = False
            b_dx = tl.sum(
                _edge_sum(
                    b_x, extreme, pack, weight, row, eid, e, stop, o_d, m_d, b_power, b_still, grad_weight, eps, D,
                    RELU, DENORMAL, HAS_W, HAS_EID, NEED_W, True, BR, R, BD,
                ),
                axis=0,
            )  # fmt: skip
        if edges:
            b_dx = tl.sum(
                _edge_sum(
                    b_x, extreme, pack, weight, row, eid, e, stop, o_d, m_d, b_power, b_still, grad_weight, eps, D,
                    RELU, DENORMAL, HAS_W, HAS_EID, NEED_W, False, BR, R, BD,
                ),
                axis=0,
            )  # fmt: skip
        if NEED_X:
            if (s < last) & (begin == e):
                tl.store(grad_x + o_s, b_dx.to(grad_x.dtype.element_ty), mask=m_d)
            else:
                o_part = (i_chunk.to(tl.int64) * 2 + (s == last).to(tl.int64)) * D + o_d
                tl.store(parts + o_part, b_dx, mask=m_d)
        e = stop
        begin = stop


@triton.jit(do_not_specialize=["S", "E", "CHUNK"])
def merge_bwd_kernel(ptr, starts, grad_x, parts, S, E, D, CHUNK, BR: tl.constexpr, BD: tl.constexpr):
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


@triton.jit(do_not_specialize=["rows"])
def total_kernel(sums, totals, rows, width, ROWS: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """totals (blocks of rows, width) in float64: the sums of ROWS rows each."""
    i_rows, i_block = tl.program_id(0), tl.program_id(1)
    o_d = i_block * BD + tl.arange(0, BD)
    b_total = tl.zeros([BR, BD], tl.float64)
    for k in range(0, ROWS, BR):
        o_r = i_rows.to(tl.int64) * ROWS + k + tl.arange(0, BR)
        m = (o_r < rows)[:, None] & (o_d < width)[None, :]
        b_total += tl.load(sums + o_r[:, None] * width + o_d[None, :], mask=m, other=0.0)
    tl.store(totals + i_rows * width + o_d, tl.sum(b_total, axis=0), mask=o_d < width)
