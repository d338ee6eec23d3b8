"""Backward kernels on the CPU.

dz = g C sign(z) r^(|p| - sign p) = g C sign(z) 2^((p - 1) l) with l = log2(u / M), for both signs of p. The first
kernel goes over segments: it packs M and g C into one (S, 2, D) buffer, marks the segments whose M is outside the range
of the fast logarithm (1: always careful, 2: careful if x holds denormals), and sums dp and dq in float64. The second
writes dx, by segments (each row of x used once) or by source rows.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,assignment"

import math

import numpy as np
from numba import njit

from gnpool.ops.cpu.arithmetic import (
    BLOCK,
    HUGE,
    INLINE,
    LINE,
    bits,
    cast,
    compiled,
    exp2_parts,
    exp2_weight,
    float_facts,
    from_bits,
    int_facts,
    log2_ratio,
    log2_ratio_any,
    pointer,
    prefetch,
    prefetch_row,
    select,
    stack,
)
from gnpool.ops.cpu.forward import (
    AHEAD,
    PIECE,
    RUN,
    entry_weight,
    first_at,
    has_piece,
    magnitude,
    next_task,
    piece_ends,
    piece_of,
    removes,
    row_at,
)
from gnpool.ops.form import KEEP, NORM


@njit(**INLINE)
def load_ranges(p, eps, form, low, high, scan, nb):
    """For each channel: the M for which ``slope`` is accurate, and whether it fails for a denormal u."""
    facts = float_facts(eps)
    normal_eps = eps >= cast(2.0 ** facts[0], eps)
    for d in range(nb):
        value = p[d]
        highest = facts[1]
        fits = value >= 1.0 or value < 0.0 or (form != NORM and value == 0.0)
        if fits and value < 1.0:
            highest = min(highest, facts[3] - facts[4])
        elif form != NORM and value > 0.0 and value < 1.0 and normal_eps:  # 2^((p - 1) l) <= (M / eps)^(1 - p)
            fits = True
            highest = min(highest, math.log2(np.float64(eps)) + (facts[1] - 6.0) / (1.0 - value))
        low[d] = cast(2.0 ** facts[0] if fits else np.inf, eps)
        high[d] = cast(2.0**highest if fits else 0.0, eps)
        # An exponent p - 1 in (0, 1) needs an exact logarithm of a denormal u, so this holds only without eps.
        scan[d] = (not normal_eps) and value > 1.0 and value < 2.0


@njit(**INLINE)
def load_slopes(p, eps, form, power, power_64, thr, dead, nb):
    """For each channel: p - 1, the largest v without a slope, and whether such an entry ignores NaN from others."""
    for d in range(nb):
        value = p[d]
        value = value if value != 0.0 or form != NORM else np.nan
        value = max(min(value, HUGE), -HUGE) if value == value else value
        power_64[d] = value - 1.0
        power[d] = cast(value - 1.0, eps)
        thr[d] = eps if removes(value, form) else cast(0.0, eps)
        dead[d] = form != NORM or value < 0.0


@njit(**INLINE)
def with_sign(h, z):
    """h, with its sign flipped where z is negative."""
    b = bits(z)
    return from_bits(cast(bits(h) ^ (b & int_facts(b)[0]), b))


@njit(**INLINE)
def slope(z, clip, eps, thr, m, power, gc, idle):
    """dz of one entry; ``idle`` if z has no slope."""
    v = magnitude(z, clip)
    h = gc * exp2_weight(power * log2_ratio(v + eps, m))
    return select(v <= thr, idle, with_sign(h, z))


@njit(**INLINE)
def slope_any(z, clip, eps, thr, m, power, gc, idle, factor):
    """dz times a factor, for any m and z, through float64: finite if the product is, even if dz is not."""
    v = magnitude(z, clip)
    first, middle, last = exp2_parts(power * log2_ratio_any(np.float64(v + eps), np.float64(m)))
    h = cast(gc * first * factor * middle * last, z)
    return select(v <= thr, idle, with_sign(h, z))


@njit(**INLINE)
def slope_by_need(z, clip, eps, thr, m, power, power_64, gc, idle, low, high, scan, tiny):
    """The one of the two values that the channel needs, independent of its neighbours."""
    v = magnitude(z, clip)
    fast = (m >= low) & (m <= high) & ((scan == 0) | (v == cast(0.0, z)) | (v >= tiny))
    careful = slope_any(z, clip, eps, thr, m, power_64, gc, idle, cast(1.0, z))
    return select(fast, slope(z, clip, eps, thr, m, power, gc, idle), careful)


@njit(**INLINE)
def is_lost(h, x, w, clip, thr, power, gc, tiny):
    """Whether a slope h is infinite, or too small for a normal number although its product with x may count.

    The latter needs -1 < p < 0; otherwise such a small power is negligible beside that of the extreme.
    """
    one, steep = cast(1.0, x), cast(-2.0, x)
    small = (abs(h) < tiny) & (abs(x) > one) & (power > steep) & (power < -one)
    return (abs(h) == np.inf) | (small & (magnitude(x * w, clip) > thr) & (gc != cast(0.0, x)))


@compiled
def bwd_segment_kernel(args, eps):
    """By segments: the packed (M, g C), the marks, and the partial sums of dp and dq of each task."""
    (counter, grad_at, ptr_at, p_at, y_at, M_at, C_at, dydp_at, pack_at, mark_at, sums_at) = args[:11]
    (D, S, tasks, span, form, flag_at) = args[11:]
    ptr, mark, flag = pointer(ptr_at, np.int64(0)), pointer(mark_at, np.int8(0)), pointer(flag_at, np.int8(0))
    grad, y, dydp = pointer(grad_at, eps), pointer(y_at, eps), pointer(dydp_at, eps)
    M, C, p = pointer(M_at, eps), pointer(C_at, eps), pointer(p_at, 0.0)
    pack, sums = pointer(pack_at, eps), pointer(sums_at, 0.0)
    low, high, m_t, g_t, blank = stack(eps), stack(eps), stack(eps), stack(eps), stack(eps)
    dp, dq, scans = stack(0.0), stack(0.0), stack(np.int8(0))
    done = np.int64(0)
    while True:
        task = next_task(counter, done)
        done += 1
        if task >= tasks:
            break
        for c0 in range(0, D, BLOCK):
            nb = min(np.int64(BLOCK), D - c0)
            by_edge = flag_at == 0 or flag[c0 // BLOCK] != 1  # channels computed by nodes need neither M nor marks
            load_ranges(pointer(p_at + 8 * c0, 0.0), eps, form, low, high, scans, nb)
            scan = False
            for d in range(nb):
                scan |= scans[d] != 0
                # An M of 0 is used as a unit only if zeros are kept with p <= 0: then all other powers vanish.
                blank[d] = cast(0.0 if form == KEEP and p[c0 + d] <= 0.0 else 1.0, eps)
                dp[d] = 0.0
                dq[d] = 0.0
            for s in range(task * span, min(S, (task + 1) * span)):
                n = ptr[s + 1] - ptr[s]
                log_n = math.log(np.float64(n)) if n > 1 else 0.0
                at = s * D + c0
                for d in range(nb):
                    g = grad[at + d]
                    dp[d] += np.float64(g) * np.float64(dydp[at + d])
                    dq[d] -= select(log_n == 0.0, 0.0, np.float64(g) * np.float64(y[at + d]) * log_n)
                for d in range(nb):
                    g_t[d] = grad[at + d] * C[at + d]
                for d in range(nb):
                    pack[(2 * s + 1) * D + c0 + d] = g_t[d]
                if not by_edge:
                    continue
                bad = np.int64(0)
                for d in range(nb):
                    m = M[at + d]
                    none = (m == cast(0.0, eps)) & (blank[d] != cast(0.0, eps))
                    bad |= np.int64(not (none | ((m >= low[d]) & (m <= high[d]))))
                    m_t[d] = select(none, blank[d], m)
                for d in range(nb):
                    pack[2 * s * D + c0 + d] = m_t[d]
                mark[s * ((D + BLOCK - 1) // BLOCK) + c0 // BLOCK] = 1 if bad != 0 else (2 if scan else 0)
            for d in range(nb):
                sums[2 * task * D + c0 + d] = dp[d]
                sums[(2 * task + 1) * D + c0 + d] = dq[d]


@njit(**INLINE)
def has_denormal(x, r, nb, w, clip, tiny):
    """Whether a row contains a denormal number."""
    found = np.int64(0)
    for d in range(nb):
        v = magnitude(x[r + d] * w, clip)
        found |= np.int64((v > cast(0.0, tiny)) & (v < tiny))
    return found != 0


@compiled
def bwd_rows_kernel(args, eps):
    """dx if every row of x is used at most once: ranges of entries, with rows written directly."""
    (counter, x_at, ptr_at, col_at, p_at, pack_at, mark_at, dx_at, N, D, S, tasks, span, relu, form) = args
    x, dx, pack = pointer(x_at, eps), pointer(dx_at, eps), pointer(pack_at, eps)
    ptr, col, mark = pointer(ptr_at, np.int64(0)), pointer(col_at, np.int64(0)), pointer(mark_at, np.int8(0))
    has_col = col_at != 0
    clip = cast(0.0 if relu else -np.inf, eps)
    zero, one = cast(0.0, eps), cast(1.0, eps)
    tiny = cast(2.0 ** float_facts(eps)[0], eps)
    blocks = (D + BLOCK - 1) // BLOCK
    power, thr, m_t, g_t, idle = stack(eps), stack(eps), stack(eps), stack(eps), stack(eps)
    power_64, dead = stack(0.0), stack(np.int8(0))
    low, high, scan = stack(eps), stack(eps), stack(np.int8(0))
    last_block = np.int64(-1)
    done = np.int64(0)
    first, last = ptr[0], ptr[S]
    while True:
        task = next_task(counter, done)
        done += 1
        if task >= tasks:
            break
        block = task % blocks
        c0 = block * BLOCK
        nb = min(np.int64(BLOCK), D - c0)
        if block != last_block:
            load_slopes(pointer(p_at + 8 * c0, 0.0), eps, form, power, power_64, thr, dead, nb)
            load_ranges(pointer(p_at + 8 * c0, 0.0), eps, form, low, high, scan, nb)
            last_block = block
        lo = (task // blocks) * span
        hi = lo + span
        if not has_col:
            for r in range(lo, min(hi, first)):
                for d in range(nb):
                    dx[r * D + c0 + d] = zero
            for r in range(max(lo, last), min(hi, N)):
                for d in range(nb):
                    dx[r * D + c0 + d] = zero
        lo, hi = max(lo, first), min(hi, last)
        if lo >= hi:
            continue
        left, right = np.int64(0), S  # the last segment that starts at or before lo
        while left < right:
            mid = (left + right) >> 1
            if ptr[mid + 1] <= lo:
                left = mid + 1
            else:
                right = mid
        s = left
        e = lo
        while e < hi:
            while ptr[s + 1] <= e:
                s += 1
            stop = min(hi, ptr[s + 1])
            at = 2 * s * D + c0
            for d in range(nb):
                m_t[d] = pack[at + d]
                g_t[d] = pack[at + D + d]
                idle[d] = select(dead[d] != 0, zero, g_t[d] * zero)
            state = mark[s * blocks + block]
            while state != 0 and e < stop:
                r0 = row_at(col, has_col, e, D, c0)
                if state == 1 or has_denormal(x, r0, nb, one, clip, tiny):
                    for d in range(nb):
                        dx[r0 + d] = slope_by_need(
                            x[r0 + d], clip, eps, thr[d], m_t[d], power[d], power_64[d], g_t[d], idle[d],
                            low[d], high[d], scan[d], tiny,
                        )  # fmt: skip
                else:
                    for d in range(nb):
                        dx[r0 + d] = slope(x[r0 + d], clip, eps, thr[d], m_t[d], power[d], g_t[d], idle[d])
                e += 1
            while e < stop:
                if has_col and e + AHEAD < last:
                    r1 = row_at(col, has_col, e + AHEAD, D, c0)
                    prefetch_row(x, r1, nb)
                    prefetch_row(dx, r1, nb)
                r0 = row_at(col, has_col, e, D, c0)
                for d in range(nb):
                    dx[r0 + d] = slope(x[r0 + d], clip, eps, thr[d], m_t[d], power[d], g_t[d], idle[d])
                e += 1


@njit(**INLINE)
def lane_sum(values, lane, nb):
    """The sum of a stack buffer that is 0 from ``nb`` on: in lanes, because LLVM may not reorder a plain sum."""
    for i in range(LINE):
        lane[i] = values[i]
    for d in range(LINE, nb, LINE):
        for i in range(LINE):
            lane[i] += values[d + i]
    for i in range(8):
        lane[i] += lane[i + 8]
    for i in range(4):
        lane[i] += lane[i + 4]
    return (lane[0] + lane[2]) + (lane[1] + lane[3])


@compiled
def bwd_sources_kernel(args, eps):
    """dx and dw by source rows, over the transposed lists; long lists leave float64 partial sums for the merge."""
    (counter, x_at, weight_at, t_ptr_at, t_row_at, t_eid_at, p_at, pack_at, mark_at) = args[:9]
    (dx_at, dw_at, long_at, part_at, N, D, tasks, span, relu, form, n_long, flag_at) = args[9:]
    x, dx, pack, dw = pointer(x_at, eps), pointer(dx_at, eps), pointer(pack_at, eps), pointer(dw_at, eps)
    weight, part, long = pointer(weight_at, eps), pointer(part_at, 0.0), pointer(long_at, np.int64(0))
    t_ptr, t_row, t_eid = pointer(t_ptr_at, np.int64(0)), pointer(t_row_at, np.int64(0)), pointer(t_eid_at, np.int64(0))
    mark, flag = pointer(mark_at, np.int8(0)), pointer(flag_at, np.int8(0))
    has_w, has_eid = weight_at != 0, t_eid_at != 0
    clip = cast(0.0 if relu else -np.inf, eps)
    zero = cast(0.0, eps)
    tiny = cast(2.0 ** float_facts(eps)[0], eps)
    blocks = (D + BLOCK - 1) // BLOCK
    power, thr, a_t, prod, lane = stack(eps), stack(eps), stack(eps), stack(eps), stack(eps)
    slopes, lost = stack(eps), stack(np.int8(0))  # slopes of one edge, and which of them its type cannot hold
    power_64, a_64, dead = stack(0.0), stack(0.0), stack(np.int8(0))
    low, high, scan = stack(eps), stack(eps), stack(np.int8(0))
    last = t_ptr[N]
    last_block = np.int64(-1)
    done = np.int64(0)
    while True:
        task = next_task(counter, done)
        done += 1
        if task >= tasks:
            break
        first_key = task * span
        stop_key = first_key + span
        first_row = first_at(t_ptr, N, first_key)
        if first_row > 0 and t_ptr[first_row] - t_ptr[first_row - 1] > PIECE:
            first_row -= 1
        for block in range(blocks):
            if flag_at != 0 and flag[block] == 1:  # the whole block is computed by nodes
                continue
            c0 = block * BLOCK
            nb = min(np.int64(BLOCK), D - c0)
            if block != last_block:
                load_slopes(pointer(p_at + 8 * c0, 0.0), eps, form, power, power_64, thr, dead, nb)
                load_ranges(pointer(p_at + 8 * c0, 0.0), eps, form, low, high, scan, nb)
                for d in range(nb, BLOCK):
                    prod[d] = zero
                last_block = block
            j = first_row
            while j < N:
                base = t_ptr[j] - t_ptr[0] + j
                if base >= stop_key:
                    break
                start, n = t_ptr[j], t_ptr[j + 1] - t_ptr[j]
                r = j * D + c0
                i, slot = piece_of(long, n_long, j, n, base, first_key)
                while has_piece(i, n, base, stop_key):
                    t, hi = piece_ends(start, n, i)
                    for d in range(nb):
                        a_64[d] = 0.0
                    while t < hi:
                        stop = min(hi, t + RUN)
                        for d in range(nb):
                            a_t[d] = zero
                        while dw_at == 0 and t + 1 < stop:
                            s0, s1 = t_row[t], t_row[t + 1]
                            if (mark[s0 * blocks + block] | mark[s1 * blocks + block]) != 0:
                                break
                            if t + AHEAD + 1 < last:
                                for k in range(AHEAD, AHEAD + 2):
                                    prefetch_row(pack, 2 * t_row[t + k] * D + c0, nb)
                                    prefetch_row(pack, 2 * t_row[t + k] * D + D + c0, nb)
                                    if has_w and has_eid:
                                        prefetch(weight, t_eid[t + k])
                            at, bt = 2 * s0 * D + c0, 2 * s1 * D + c0
                            w0 = entry_weight(weight, has_w, t_eid, has_eid, t, eps)
                            w1 = entry_weight(weight, has_w, t_eid, has_eid, t + 1, eps)
                            for d in range(nb):
                                g0, g1 = pack[at + D + d], pack[bt + D + d]
                                i0 = select(dead[d] != 0, zero, g0 * zero)
                                i1 = select(dead[d] != 0, zero, g1 * zero)
                                d0 = slope(x[r + d] * w0, clip, eps, thr[d], pack[at + d], power[d], g0, i0)
                                d1 = slope(x[r + d] * w1, clip, eps, thr[d], pack[bt + d], power[d], g1, i1)
                                a_t[d] = (a_t[d] + w0 * d0) + w1 * d1
                            t += 2
                        while t < stop:
                            s = t_row[t]
                            if t + AHEAD < last:
                                prefetch_row(pack, 2 * t_row[t + AHEAD] * D + c0, nb)
                                prefetch_row(pack, 2 * t_row[t + AHEAD] * D + D + c0, nb)
                                if has_w and has_eid:
                                    prefetch(weight, t_eid[t + AHEAD])
                                    if dw_at != 0:
                                        prefetch(dw, t_eid[t + AHEAD])
                            at = 2 * s * D + c0
                            w0 = entry_weight(weight, has_w, t_eid, has_eid, t, eps)
                            state = mark[s * blocks + block]
                            if state == 2:
                                state = np.int8(has_denormal(x, r, nb, w0, clip, tiny))
                            if state != 0:
                                for d in range(nb):
                                    g0 = pack[at + D + d]
                                    i0 = select(dead[d] != 0, zero, g0 * zero)
                                    slopes[d] = slope_by_need(
                                        x[r + d] * w0, clip, eps, thr[d], pack[at + d], power[d], power_64[d], g0, i0,
                                        low[d], high[d], scan[d], tiny,
                                    )  # fmt: skip
                            else:
                                for d in range(nb):
                                    g0 = pack[at + D + d]
                                    i0 = select(dead[d] != 0, zero, g0 * zero)
                                    slopes[d] = slope(x[r + d] * w0, clip, eps, thr[d], pack[at + d], power[d], g0, i0)
                            any_lost = np.int64(0)
                            if state != 0 or dw_at != 0:
                                for d in range(nb):
                                    v, g0 = x[r + d], pack[at + D + d]
                                    lost[d] = is_lost(slopes[d], v, w0, clip, thr[d], power[d], g0, tiny)
                                    any_lost |= np.int64(lost[d])
                            if any_lost != 0:
                                for d in range(nb):
                                    slopes[d] = select(lost[d] != 0, zero, slopes[d])
                            for d in range(nb):
                                a_t[d] += w0 * slopes[d]
                                prod[d] = slopes[d] * x[r + d]
                            if any_lost != 0:
                                for d in range(nb):
                                    if lost[d] != 0:
                                        v, m, g0 = x[r + d], pack[at + d], pack[at + D + d]
                                        a_t[d] += slope_any(v * w0, clip, eps, thr[d], m, power_64[d], g0, zero, w0)
                                        prod[d] = slope_any(v * w0, clip, eps, thr[d], m, power_64[d], g0, zero, v)
                            if dw_at != 0:
                                place = t_eid[t] if has_eid else t
                                total = lane_sum(prod, lane, nb)
                                dw[place] = total if block == 0 else dw[place] + total
                            t += 1
                        for d in range(nb):
                            a_64[d] += a_t[d]
                    if dx_at != 0:
                        if slot < 0:
                            for d in range(nb):
                                dx[r + d] = cast(a_64[d], eps)
                        else:
                            for d in range(nb):
                                part[slot * D + c0 + d] = a_64[d]
                            slot += 1
                    i += 1
                j += 1


@compiled
def bwd_merge_kernel(args, eps):
    """Add the partial sums of the long source rows, in order."""
    (t_ptr_at, dx_at, long_at, part_at, D, n_long) = args
    t_ptr, long = pointer(t_ptr_at, np.int64(0)), pointer(long_at, np.int64(0))
    dx, part = pointer(dx_at, eps), pointer(part_at, 0.0)
    a_64 = stack(0.0)
    for k in range(n_long):
        j, slot = long[2 * k], long[2 * k + 1]
        pieces = (t_ptr[j + 1] - t_ptr[j] + PIECE - 1) // PIECE
        for c0 in range(0, D, BLOCK):
            nb = min(np.int64(BLOCK), D - c0)
            for d in range(nb):
                a_64[d] = 0.0
            for i in range(slot, slot + pieces):
                for d in range(nb):
                    a_64[d] += part[i * D + c0 + d]
            for d in range(nb):
                dx[j * D + c0 + d] = cast(a_64[d], eps)
