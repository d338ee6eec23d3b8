"""Neighbours on the CPU, computed by nodes: one power for each node instead of one for each edge.

Many edges use the same node. Without edge weights its power (u / G)^p does not depend on the edge, if G is one unit
of measure per channel for the whole graph, instead of the extreme M of each segment. Then both passes are plain sums:

    A_i = sum_j W_j,   B_i = sum_j l_j W_j        with l = log2(u / G), W = 2^(p l)
    dx_j = sign(x_j) W_j (G / u_j) sum_i g_i C_i

The results y, C and dy/dp are those of README.md with M = G, because M is only a unit. A segment's own M ensures that
nothing underflows; here this must hold for the whole graph. ``node_kernel`` therefore looks at the range of u in each
channel and flags the channels in which the powers of all nodes stay clear of the ends of the type. The other channels
are computed by edges. So NaN or an extreme exponent in one channel changes no bit of another. A block with both sorts
of channels is computed in both ways; this one runs second and writes only its own channels.

``flag`` has NONE, ALL or SOME for each block, and then a 1 or 0 for each channel.
Powers are computed in float64, so that a segment far from G loses no digits.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,assignment"

import numpy as np
from numba import njit

from gnpool.ops.cpu.arithmetic import (
    BLOCK,
    INLINE,
    bits,
    cast,
    compiled,
    exp2_weight,
    float_facts,
    from_bits,
    log2_ratio,
    pointer,
    prefetch_row,
    select,
    stack,
)
from gnpool.ops.cpu.forward import (
    AHEAD,
    PARTS,
    RUN,
    finish,
    has_piece,
    magnitude,
    next_task,
    piece_ends,
    piece_of,
    removes,
    span_of,
)
from gnpool.ops.form import KEEP, NORM, REMOVE

NONE, ALL, SOME = 0, 1, 2


@njit(**INLINE)
def next_flagged(counter, done, tasks, blocks, flag):
    """The next task of this thread whose block has flagged channels, its block, and the number of tasks taken."""
    while True:
        task = next_task(counter, done)
        done += 1
        if task >= tasks or flag[task % blocks] != NONE:
            return task, task % blocks, done


@compiled
def node_kernel(args, eps):
    """For each channel: whether it is safe, its unit G and, if so, W of all nodes and, with ``moments``, l W.

    Channels in which no entry takes part have G = 1 and powers of 0.
    """
    (counter, x_at, p_at, center_at, flag_at, power_at, moment_at, N, D, relu, form, moments) = args
    x, p, center = pointer(x_at, eps), pointer(p_at, 0.0), pointer(center_at, eps)
    power, moment, flag = pointer(power_at, eps), pointer(moment_at, eps), pointer(flag_at, np.int8(0))
    clip = cast(0.0 if relu else -np.inf, eps)
    facts = float_facts(eps)
    limit = 80.0 if facts[1] < 1000.0 else 600.0  # binary digits between the largest and the smallest power
    lowest, highest = bits(cast(2.0 ** facts[0], eps)), bits(cast(2.0 ** facts[1], eps))
    low, high, naught = stack(bits(eps)), stack(bits(eps)), stack(bits(eps))
    thr, unit, unit_64, p_64, fit = stack(eps), stack(eps), stack(0.0), stack(0.0), stack(np.int8(0))
    blocks = (D + BLOCK - 1) // BLOCK
    done = np.int64(0)
    while True:
        block = next_task(counter, done)
        done += 1
        if block >= blocks:
            break
        c0 = block * BLOCK
        nb = min(np.int64(BLOCK), D - c0)
        for d in range(nb):
            thr[d] = eps if removes(p[c0 + d], form) else cast(-1.0, eps)
            # The bits of a u that has no power: 0, unless zeros are kept with p < 0, where its power is infinite.
            naught[d] = cast(-1 if form == KEEP and p[c0 + d] < 0.0 else 0, naught[d])
            low[d] = cast(bits(cast(np.inf, eps)), low[d])
            high[d] = cast(-1, high[d])
        for r in range(N):
            at = r * D + c0
            for d in range(nb):  # bits order non-negative floats, and NaN is above all of them
                v = magnitude(x[at + d], clip)
                b = bits(v + eps)
                out = (v <= thr[d]) | (b == naught[d])
                low[d] = select(out | (b > low[d]), low[d], b)
                high[d] = select(out | (b < high[d]), high[d], b)
        safe = np.int64(0)
        for d in range(nb):
            value = p[c0 + d]
            some = high[d] >= cast(0, high[d])
            first = from_bits(low[d]) if some else cast(1.0, eps)
            last = from_bits(high[d]) if some else cast(1.0, eps)
            size = abs(value)
            fits = size >= 0.25 and size <= limit  # below, as in load_exponents
            if some:
                fits = fits and low[d] >= lowest and high[d] <= highest
                if fits:
                    fits = (size + 1.0) * log2_ratio(np.float64(last), np.float64(first)) <= limit
            safe += np.int64(1 if fits else 0)
            fit[d] = cast(1 if fits else 0, fit[d])
            flag[blocks + c0 + d] = fit[d]
            unit[d] = first if value < 0.0 else last
            unit_64[d] = np.float64(unit[d])
            p_64[d] = value
            center[c0 + d] = unit[d]
        flag[block] = ALL if safe == nb else (SOME if safe > 0 else NONE)
        if safe > 0:
            for r in range(N):
                at = r * D + c0
                for d in range(nb):
                    v = magnitude(x[at + d], clip)
                    u = v + eps
                    out = (v <= thr[d]) | (u == cast(0.0, eps)) | (fit[d] == 0)
                    log_r = log2_ratio(np.float64(select(out, unit[d], u)), unit_64[d])
                    w = select(out, 0.0, exp2_weight(p_64[d] * log_r))
                    power[at + d] = cast(w, eps)
                    if moments:
                        moment[at + d] = cast(w * log_r, eps)


@compiled
def node_sum_kernel(args, eps):
    """y, M = G, C and dy/dp of the segments, in the flagged channels, as sums of W and l W."""
    (counter, power_at, moment_at, ptr_at, col_at, p_at, q_at, center_at, flag_at) = args[:9]
    (y_at, M_at, C_at, dydp_at, long_at, part_at, D, S, tasks, span, form, stats, n_long) = args[9:]
    long, part = pointer(long_at, np.int64(0)), pointer(part_at, 0.0)
    power, moment, center = pointer(power_at, eps), pointer(moment_at, eps), pointer(center_at, eps)
    ptr, col, flag = pointer(ptr_at, np.int64(0)), pointer(col_at, np.int64(0)), pointer(flag_at, np.int8(0))
    p, q = pointer(p_at, 0.0), pointer(q_at, 0.0)
    y, M, C, dydp = pointer(y_at, eps), pointer(M_at, eps), pointer(C_at, eps), pointer(dydp_at, eps)
    zero = cast(0.0, eps)
    a_t, b_t = stack(eps), stack(eps)
    y_t, M_t, C_t, dydp_t = stack(eps), stack(eps), stack(eps), stack(eps)
    inv_p, q_64, m_64, a_64, b_64, k_64, log_a, factor = (
        stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0),
    )  # fmt: skip
    blocks = (D + BLOCK - 1) // BLOCK
    last = ptr[S]
    done = np.int64(0)
    while True:
        task, block, done = next_flagged(counter, done, tasks, blocks, flag)
        if task >= tasks:
            break
        some = flag[block] == SOME
        c0 = block * BLOCK
        nb = min(np.int64(BLOCK), D - c0)
        for d in range(nb):
            inv_p[d] = 1.0 / p[c0 + d]
            q_64[d] = q[c0 + d]
            m_64[d] = np.float64(center[c0 + d])
        first_key, stop_key, s = span_of(ptr, S, task, blocks, span)
        while s < S:
            base = ptr[s] - ptr[0] + s
            if base >= stop_key:
                break
            n = ptr[s + 1] - ptr[s]
            i, slot = piece_of(long, n_long, s, n, base, first_key)
            while has_piece(i, n, base, stop_key):
                e, hi = piece_ends(ptr[s], n, i)
                for d in range(nb):
                    a_64[d] = 0.0
                    b_64[d] = 0.0
                    k_64[d] = np.float64(hi - e) if form == KEEP else np.float64(form == NORM)
                if form == REMOVE:  # no power that takes part is 0
                    for t in range(e, hi):
                        r0 = col[t] * D + c0
                        for d in range(nb):
                            k_64[d] += select(power[r0 + d] == zero, 0.0, 1.0)
                while e < hi:
                    stop = min(hi, e + RUN)
                    for d in range(nb):
                        a_t[d] = zero
                        b_t[d] = zero
                    while e + 1 < stop:
                        r0, r1 = col[e] * D + c0, col[e + 1] * D + c0
                        if e + AHEAD + 1 < last:
                            for k in range(AHEAD, AHEAD + 2):
                                prefetch_row(power, col[e + k] * D + c0, nb)
                                if stats:
                                    prefetch_row(moment, col[e + k] * D + c0, nb)
                        for d in range(nb):
                            a_t[d] += power[r0 + d] + power[r1 + d]
                        if stats:
                            for d in range(nb):
                                b_t[d] += moment[r0 + d] + moment[r1 + d]
                        e += 2
                    if e < stop:
                        r0 = col[e] * D + c0
                        for d in range(nb):
                            a_t[d] += power[r0 + d]
                        if stats:
                            for d in range(nb):
                                b_t[d] += moment[r0 + d]
                        e += 1
                    for d in range(nb):
                        a_64[d] += a_t[d]
                        b_64[d] += b_t[d]
                at = s * D + c0
                if slot < 0 and not some:
                    finish(y, M, C, dydp, at, nb, n, stats, m_64, a_64, b_64, k_64, inv_p, q_64, log_a, factor, eps)
                elif slot < 0:
                    finish(
                        y_t, M_t, C_t, dydp_t, 0, nb, n, stats, m_64, a_64, b_64, k_64, inv_p, q_64, log_a, factor, eps
                    )
                    for d in range(nb):
                        if flag[blocks + c0 + d] != 0:
                            y[at + d] = y_t[d]
                            if stats:
                                M[at + d], C[at + d], dydp[at + d] = M_t[d], C_t[d], dydp_t[d]
                else:  # as in fwd_merge_kernel
                    at = slot * PARTS * D + c0
                    for d in range(nb):
                        if flag[blocks + c0 + d] != 0:
                            part[at + d] = m_64[d]
                            part[at + D + d] = a_64[d]
                            part[at + 2 * D + d] = b_64[d]
                            part[at + 3 * D + d] = k_64[d]
                    slot += 1
                i += 1
            s += 1


@compiled
def node_uniform_kernel(args, eps):
    """Clear the flag of channels in which the M of some segment is not the unit."""
    (M_at, center_at, flag_at, S, D) = args
    M, center, flag = pointer(M_at, eps), pointer(center_at, eps), pointer(flag_at, np.int8(0))
    zero, other = cast(0.0, eps), stack(np.int8(0))
    blocks = (D + BLOCK - 1) // BLOCK
    for block in range(blocks):
        c0 = block * BLOCK
        nb = min(np.int64(BLOCK), D - c0)
        for d in range(nb):
            other[d] = cast(0, other[d])
        for s in range(S):
            at = s * D + c0
            for d in range(nb):
                m = M[at + d]
                other[d] |= cast((m != center[c0 + d]) & (m != zero), other[d])
        safe = np.int64(0)
        for d in range(nb):
            if other[d] != 0:
                flag[blocks + c0 + d] = 0
            safe += np.int64(flag[blocks + c0 + d])
        flag[block] = ALL if safe == nb else (SOME if safe > 0 else NONE)


@compiled
def node_slope_kernel(args, eps):
    """dx in the flagged channels: the power of the node times the sum of g C over its segments."""
    (counter, x_at, t_ptr_at, t_row_at, p_at, pack_at, power_at, center_at, flag_at, dx_at) = args[:10]
    (long_at, part_at, N, D, tasks, span, relu, form, n_long) = args[10:]
    long, part = pointer(long_at, np.int64(0)), pointer(part_at, 0.0)
    x, dx, pack, power = pointer(x_at, eps), pointer(dx_at, eps), pointer(pack_at, eps), pointer(power_at, eps)
    t_ptr, t_row = pointer(t_ptr_at, np.int64(0)), pointer(t_row_at, np.int64(0))
    p, center, flag = pointer(p_at, 0.0), pointer(center_at, eps), pointer(flag_at, np.int8(0))
    clip, zero = cast(0.0 if relu else -np.inf, eps), cast(0.0, eps)
    thr, a_t, unit, a_64 = stack(eps), stack(eps), stack(0.0), stack(0.0)
    blocks = (D + BLOCK - 1) // BLOCK
    last = t_ptr[N]
    done = np.int64(0)
    while True:
        task, block, done = next_flagged(counter, done, tasks, blocks, flag)
        if task >= tasks:
            break
        some = flag[block] == SOME
        c0 = block * BLOCK
        nb = min(np.int64(BLOCK), D - c0)
        for d in range(nb):
            thr[d] = eps if removes(p[c0 + d], form) else zero
            unit[d] = np.float64(center[c0 + d])
        first_key, stop_key, j = span_of(t_ptr, N, task, blocks, span)
        while j < N:
            base = t_ptr[j] - t_ptr[0] + j
            if base >= stop_key:
                break
            n = t_ptr[j + 1] - t_ptr[j]
            i, slot = piece_of(long, n_long, j, n, base, first_key)
            while has_piece(i, n, base, stop_key):
                t, hi = piece_ends(t_ptr[j], n, i)
                for d in range(nb):
                    a_64[d] = 0.0
                while t < hi:
                    stop = min(hi, t + RUN)
                    for d in range(nb):
                        a_t[d] = zero
                    while t + 1 < stop:
                        r0, r1 = (2 * t_row[t] + 1) * D + c0, (2 * t_row[t + 1] + 1) * D + c0
                        if t + AHEAD + 1 < last:
                            for k in range(AHEAD, AHEAD + 2):
                                prefetch_row(pack, (2 * t_row[t + k] + 1) * D + c0, nb)
                        for d in range(nb):
                            a_t[d] += pack[r0 + d] + pack[r1 + d]
                        t += 2
                    if t < stop:
                        r0 = (2 * t_row[t] + 1) * D + c0
                        for d in range(nb):
                            a_t[d] += pack[r0 + d]
                        t += 1
                    for d in range(nb):
                        a_64[d] += a_t[d]
                at = j * D + c0
                for d in range(nb):
                    z = x[at + d]
                    v = magnitude(z, clip)
                    # In the norm form a flat entry still passes NaN on.
                    idle = select((form != NORM) | (p[c0 + d] < 0.0), 0.0, a_64[d] * 0.0)
                    h = a_64[d] * np.float64(power[at + d]) * (unit[d] / np.float64(v + eps))
                    a_64[d] = select(v <= thr[d], idle, select(z < zero, -h, h))
                if slot < 0 and not some:
                    for d in range(nb):
                        dx[at + d] = cast(a_64[d], eps)
                elif slot < 0:
                    for d in range(nb):
                        if flag[blocks + c0 + d] != 0:
                            dx[at + d] = cast(a_64[d], eps)
                else:  # as in bwd_merge_kernel
                    for d in range(nb):
                        if flag[blocks + c0 + d] != 0:
                            part[slot * D + c0 + d] = a_64[d]
                    slot += 1
                i += 1
            j += 1
