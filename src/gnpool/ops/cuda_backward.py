"""The Triton kernels of the backward pass: by segments (every row used once), and by sources for neighbours."""

from __future__ import annotations

import triton
import triton.language as tl

from gnpool.ops.cuda_math import HUGE, LN2, exp2, indices, log_ratio, magnitude, rows, weights


@triton.jit
def _slopes(p, o_d, m_d, eps):
    """Per channel: p - 1 within reach of float32, and the largest v without a slope (0, or removed)."""
    b_p = tl.load(p + o_d, mask=m_d, other=1.0)
    b_power = tl.minimum(tl.maximum(b_p - 1.0, -HUGE), HUGE).to(tl.float32)
    return tl.where(b_p == 0, float("nan"), b_power), tl.where(b_p < 0, eps, 0.0)


@triton.jit
def _slope_of(b_z, b_M, b_g, b_power, b_still, eps, RELU: tl.constexpr, DENORMAL: tl.constexpr):
    """dL/dz of entries whose segments have extreme M and g = grad * C: g sign(z) 2^((p - 1) l)."""
    b_v = magnitude(b_z, RELU)
    b_u = b_v + eps
    b_l = tl.maximum(log_ratio(b_u, b_M, DENORMAL), -HUGE, propagate_nan=tl.PropagateNan.ALL)
    b_d = b_g * exp2(b_power * b_l)
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
                o_row = indices(col, k, stop, BR, HAS_COL)
                b_z, o_x, m, _, _ = rows(x, o_row, k, stop, o_d, m_d, D, BR)
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
        o_row = indices(row, e, stop, BR, True)
        for k in range(e, stop, BR):
            o_e = k + tl.arange(0, BR)
            m_e = o_e < stop
            m = m_e[:, None] & m_d[None, :]
            o_pack = o_row.to(tl.int64)[:, None] * 2 * D + o_d[None, :]
            b_M = tl.load(pack + o_pack, mask=m, other=1.0)
            b_g = tl.load(pack + o_pack + D, mask=m, other=0.0)
            o_row = indices(row, k + BR, stop, BR, True)  # under way while this block is summed
            b_z = tl.zeros([BR, BD], tl.float32) + b_x[None, :]
            if HAS_W:
                b_w, o_w = weights(weight, eid, o_e, m_e, HAS_EID)
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
