"""The growth form near p = 0 on the CPU, where log(A / K) / p would lose all digits.

With l = log2(u / M) and h = p ln 2, every entry has e = 2^(p l) and X = l^2 E_1(h l), where
E_1(t) = ((t - 1) e^t + 1) / t^2 is smooth through 0. Then l E_0(h l) = l e - h X with E_0(t) = (e^t - 1) / t, and
both terms have the same sign. So three sums, of e, l e and X, are enough for F = mean l E_0(h l) and with it for

    c = log2(M_p / M) = F H(h F)            with H(t) = log(1 + t) / t
    dc/dp / ln 2      = mean(X) / (1 + h F) + F^2 H'(h F)

The last line is a second moment minus a squared mean. M is the entry with the largest power, so that the number of
entries in a piece bounds the lost digits. A piece stores (M, c, K, G) with G = K dc/dp / ln 2. Pieces are merged like
entries of value c and multiplicity K, to which the mean of G is added.

These kernels run after the kernels for all channels and write only their own channels.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,assignment"

import math

import numpy as np
from numba import njit

from gnpool.ops.cpu.arithmetic import (
    BLOCK,
    INLINE,
    bits,
    cast,
    compiled,
    exp2_near,
    exp2_parts,
    from_bits,
    int_facts,
    log2_near,
    log2_ratio,
    log2_ratio_any,
    pointer,
    prefetch,
    prefetch_row,
    second_near,
    select,
    stack,
)
from gnpool.ops.cpu.forward import (
    AHEAD,
    PARTS,
    PIECE,
    entry_weight,
    has_piece,
    magnitude,
    next_task,
    order_key,
    piece_ends,
    piece_of,
    row_at,
    span_of,
)
from gnpool.ops.form import REMOVE

#: Exponents below this size are near 0.
NEAR = 0.25
#: A level above it is infinite, up to rounding.
_ENDLESS = 1e20

_LN2 = math.log(2.0)


@compiled
def near_plan_kernel(p_at, flag_at, near_at, D):
    """Find the channels near 0; skip gets 1 for each block whose channels are all near 0 or computed by nodes.

    Return how many channels are near 0, and how many are neither.
    """
    p, flag, near = pointer(p_at, 0.0), pointer(flag_at, np.int8(0)), pointer(near_at, np.int8(0))
    blocks = (D + BLOCK - 1) // BLOCK
    found, rest = np.int64(0), np.int64(0)
    for block in range(blocks):
        left = np.int64(0)
        for d in range(block * BLOCK, min(D, (block + 1) * BLOCK)):
            here = abs(p[d]) < NEAR
            near[blocks + d] = 1 if here else 0
            found += np.int64(here)
            left += np.int64(not here and (flag_at == 0 or flag[blocks + d] == 0))
        near[block] = 1 if left == 0 else 0
        rest += left
    return found, rest


@njit(**INLINE)
def choose(near, nb, chan):
    """The list of the channels near 0, and its length."""
    count = np.int64(0)
    for d in range(nb):
        if near[d] != 0:
            chan[count] = d
            count += 1
    return count


@njit(**INLINE)
def gather(x, r, w, chan, nn, nb, z):
    """The entry at x[r], in the chosen channels."""
    if nn == nb:
        for d in range(nn):
            z[d] = x[r + d] * w
    else:
        for d in range(nn):
            z[d] = x[r + chan[d]] * w


@njit(**INLINE)
def powers(log_r, p, inv_h2, like):
    """(e, l e, X) of l; p l <= 0."""
    t = p * log_r
    e = exp2_near(t, like)
    second = select(t > -1.0, log_r * log_r * second_near(t, like), (1.0 - (1.0 - t * _LN2) * e) * inv_h2)
    return e, log_r * e, second


@njit(**INLINE)
def log_slopes(t):
    """H(t) = log(1 + t) / t and H'(t), t in [-1/3, 0]: with s = t / (2 + t), H = (1 - s) L(s^2), L = atanh(s) / s."""
    s = t / (2.0 + t)
    w = s * s
    level = 0.076962983481109832237
    level = level * w + 0.076233126683596762564
    level = level * w + 0.090932820113449033534
    level = level * w + 0.11111066163591001812
    level = level * w + 0.14285714746645827342
    level = level * w + 0.19999999997683143623
    level = level * w + 0.33333333333337763763
    level = level * w + 1.0
    rise = 0.55441762237962121928  # L'
    rise = rise * w + 0.4610301196665213064
    rise = rise * w + 0.46173263595612883891
    rise = rise * w + 0.45454177308563230021
    rise = rise * w + 0.44444448221875261837
    rise = rise * w + 0.42857142838149304243
    rise = rise * w + 0.40000000000036326922
    rise = rise * w + 0.33333333333333321949
    r = 1.0 - s
    return r * level, 0.5 * r * r * (2.0 * s * r * rise - level)


@njit(**INLINE)
def settle(a, b, second, k, p, inv_p):
    """c and dc/dp / ln 2 from the three sums over k entries."""
    h = p * _LN2
    f = (b - h * second) / k
    t = h * f
    value, rise = log_slopes(t)
    near_level = f * value
    near_slope = second / k / (1.0 + t) + f * f * rise
    far_level = select(a != a, a, log2_ratio(a, k)) * inv_p
    far_slope = (b / a - far_level) * (inv_p / _LN2)
    near = t > -1.0 / 3.0
    level, slope = select(near, near_level, far_level), select(near, near_slope, far_slope)
    return level, select(slope < 0.0, 0.0, slope)  # a variance is not negative


@njit(**INLINE)
def load_near(p, q, chan, nn, eps, form, p_64, q_64, inv_p, inv_h2, thr, off, flip):
    """For each chosen channel: the exponents, 1/p and 1/h^2 (0 at 0), the removal threshold, the order of u."""
    ints = int_facts(bits(eps))
    for d in range(nn):
        value = p[chan[d]]
        p_64[d] = value
        q_64[d] = q[chan[d]]
        inv_p[d] = 1.0 / value if value != 0.0 else 0.0
        inv_h2[d] = (inv_p[d] / _LN2) * (inv_p[d] / _LN2)
        thr[d] = eps if form == REMOVE else cast(-1.0, eps)
        off[d] = cast(0 if value > 0.0 else ints[1], off[d])
        flip[d] = cast(0 if value > 0.0 else -1, flip[d])


@njit(**INLINE)
def finish_near(y, M, C, dydp, at, chan, nn, n, stats, m_64, level, slope, k_64, p_64, q_64, out, like):
    """y = M 2^c n^-q, C = dy/du at u = M and dy/dp of one segment.

    An infinite entry at p = 0 makes y infinite, and flat in p. If M is 0, y is 0.
    """
    log_n = math.log2(np.float64(n)) if n > 0 else 0.0
    for d in range(nn):
        none = (k_64[d] == 0.0) | ((m_64[d] == 0.0) & (level[d] == level[d]))
        f0, f1, f2 = exp2_parts(level[d] - q_64[d] * log_n)
        out[d] = select(none, 0.0, select(level[d] > _ENDLESS, np.inf, m_64[d] * f0 * f1 * f2))
    for d in range(nn):
        y[at + chan[d]] = cast(out[d], like)
    if stats:
        for d in range(nn):
            flat = (slope[d] == 0.0) | (out[d] == 0.0) | ((p_64[d] == 0.0) & (level[d] > _ENDLESS))
            slope[d] = select(flat, 0.0, out[d] * slope[d] * (_LN2 * _LN2))
            f0, f1, f2 = exp2_parts(level[d] * (1.0 - p_64[d]) - q_64[d] * log_n)
            none = (k_64[d] == 0.0) | ((m_64[d] == 0.0) & (level[d] == level[d]))
            level[d] = select(none, 0.0, f0 * f1 * f2 / k_64[d])
        for d in range(nn):
            M[at + chan[d]] = cast(m_64[d], like)
            C[at + chan[d]] = cast(level[d], like)
            dydp[at + chan[d]] = cast(slope[d], like)


@compiled
def near_kernel(args, eps):
    """y, M, C and dy/dp in the channels near 0; long segments store partial results for the merge."""
    (counter, x_at, weight_at, ptr_at, col_at, eid_at, p_at, q_at, y_at, M_at, C_at, dydp_at, long_at, part_at) = args[
        :14
    ]
    (D, S, tasks, span, relu, form, stats, n_long, near_at) = args[14:]
    x, weight = pointer(x_at, eps), pointer(weight_at, eps)
    ptr, col, eid = pointer(ptr_at, np.int64(0)), pointer(col_at, np.int64(0)), pointer(eid_at, np.int64(0))
    long, part = pointer(long_at, np.int64(0)), pointer(part_at, 0.0)
    y, M, C, dydp = pointer(y_at, eps), pointer(M_at, eps), pointer(C_at, eps), pointer(dydp_at, eps)
    has_w, has_col, has_eid = weight_at != 0, col_at != 0, eid_at != 0
    clip = cast(0.0 if relu else -np.inf, eps)
    ib = bits(eps)
    least = cast(int_facts(ib)[0], ib)
    chan = stack(np.int64(0))
    z, thr, off, flip, key = stack(eps), stack(eps), stack(ib), stack(ib), stack(ib)
    p_64, q_64, inv_p, inv_h2, m_64 = stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0)
    a_64, b_64, x_64, k_64 = stack(0.0), stack(0.0), stack(0.0), stack(0.0)
    blocks = (D + BLOCK - 1) // BLOCK
    last = ptr[S]
    last_block, nn = np.int64(-1), np.int64(0)
    done = np.int64(0)
    while True:
        task = next_task(counter, done)
        done += 1
        if task >= tasks:
            break
        block = task % blocks
        c0 = block * BLOCK
        nb = min(np.int64(BLOCK), D - c0)
        if block != last_block:
            nn = choose(pointer(near_at + blocks + c0, np.int8(0)), nb, chan)
            p, q = pointer(p_at + 8 * c0, 0.0), pointer(q_at + 8 * c0, 0.0)
            load_near(p, q, chan, nn, eps, form, p_64, q_64, inv_p, inv_h2, thr, off, flip)
            last_block = block
        if nn == 0:
            continue
        first_key, stop_key, s = span_of(ptr, S, task, blocks, span)
        while s < S:
            base = ptr[s] - ptr[0] + s
            if base >= stop_key:
                break
            start, n = ptr[s], ptr[s + 1] - ptr[s]
            i, slot = piece_of(long, n_long, s, n, base, first_key)
            while has_piece(i, n, base, stop_key):
                lo, hi = piece_ends(start, n, i)
                for d in range(nn):
                    key[d] = least
                for e in range(lo, hi):
                    if has_col and e + AHEAD < last:
                        prefetch_row(x, row_at(col, has_col, e + AHEAD, D, c0), nb)
                        if has_w and has_eid:
                            prefetch(weight, eid[e + AHEAD])
                    w = entry_weight(weight, has_w, eid, has_eid, e, eps)
                    gather(x, row_at(col, has_col, e, D, c0), w, chan, nn, nb, z)
                    for d in range(nn):
                        k0 = order_key(z[d], clip, eps, thr[d], off[d], flip[d])
                        key[d] = select(k0 > key[d], k0, key[d])
                for d in range(nn):
                    m = from_bits(cast(cast(key[d] ^ flip[d], ib) - off[d], ib))
                    m_64[d] = select(key[d] == least, 0.0, np.float64(m))
                    a_64[d] = 0.0
                    b_64[d] = 0.0
                    x_64[d] = 0.0
                    k_64[d] = 0.0 if form == REMOVE else np.float64(hi - lo)
                for e in range(lo, hi):
                    w = entry_weight(weight, has_w, eid, has_eid, e, eps)
                    gather(x, row_at(col, has_col, e, D, c0), w, chan, nn, nb, z)
                    for d in range(nn):
                        v = magnitude(z[d], clip)
                        log_r = log2_near(np.float64(v + eps), m_64[d], eps)
                        log_r = select(v <= thr[d], 0.0, log_r)
                        e0, e1, e2 = powers(log_r, p_64[d], inv_h2[d], eps)
                        a_64[d] += select(v <= thr[d], 0.0, e0)
                        b_64[d] += e1
                        x_64[d] += e2
                    if form == REMOVE:
                        for d in range(nn):
                            k_64[d] += select(magnitude(z[d], clip) <= thr[d], 0.0, 1.0)
                for d in range(nn):
                    level, slope = settle(a_64[d], b_64[d], x_64[d], k_64[d], p_64[d], inv_p[d])
                    a_64[d] = level
                    b_64[d] = slope
                if slot < 0:
                    at = s * D + c0
                    finish_near(
                        y, M, C, dydp, at, chan, nn, n, stats, m_64, a_64, b_64, k_64, p_64, q_64, x_64, eps
                    )  # fmt: skip
                else:
                    at = slot * PARTS * D + c0
                    for d in range(nn):
                        part[at + chan[d]] = m_64[d]
                        part[at + D + chan[d]] = a_64[d]
                        part[at + 2 * D + chan[d]] = b_64[d] * k_64[d]
                        part[at + 3 * D + chan[d]] = k_64[d]
                    slot += 1
                i += 1
            s += 1


@compiled
def near_merge_kernel(args, eps):
    """Merge the pieces of the long segments, in order, in the channels near 0."""
    (ptr_at, p_at, q_at, y_at, M_at, C_at, dydp_at, long_at, part_at, D, form, stats, n_long, near_at) = args
    ptr, long, part = pointer(ptr_at, np.int64(0)), pointer(long_at, np.int64(0)), pointer(part_at, 0.0)
    y, M, C, dydp = pointer(y_at, eps), pointer(M_at, eps), pointer(C_at, eps), pointer(dydp_at, eps)
    ib = bits(eps)
    chan, thr, off, flip = stack(np.int64(0)), stack(eps), stack(ib), stack(ib)
    p_64, q_64, inv_p, inv_h2, m_64 = stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0)
    a_64, b_64, x_64, k_64, g_64, unit = stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0)
    blocks = (D + BLOCK - 1) // BLOCK
    for c0 in range(0, D, BLOCK):
        nn = choose(pointer(near_at + blocks + c0, np.int8(0)), min(np.int64(BLOCK), D - c0), chan)
        p, q = pointer(p_at + 8 * c0, 0.0), pointer(q_at + 8 * c0, 0.0)
        load_near(p, q, chan, nn, eps, form, p_64, q_64, inv_p, inv_h2, thr, off, flip)
        for j in range(n_long if nn > 0 else 0):
            s, slot = long[2 * j], long[2 * j + 1]
            n = ptr[s + 1] - ptr[s]
            pieces = (n + PIECE - 1) // PIECE
            for d in range(nn):
                m_64[d] = 0.0 if p_64[d] > 0.0 else np.inf
                unit[d] = -np.inf if p_64[d] > 0.0 else np.inf
                a_64[d], b_64[d], x_64[d], k_64[d], g_64[d] = 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(slot, slot + pieces):
                at = PARTS * i * D + c0
                for d in range(nn):
                    m, k = part[at + chan[d]], part[at + 3 * D + chan[d]]
                    better = m > m_64[d] if p_64[d] > 0.0 else m < m_64[d]
                    if better and k != 0.0:
                        m_64[d] = m
            # The unit of the pieces is the extreme of their own means, c0 from M; the extreme of all is too far away.
            for i in range(slot, slot + pieces):
                at = PARTS * i * D + c0
                for d in range(nn):
                    c = part[at + D + chan[d]] + log2_ratio_any(part[at + chan[d]], m_64[d])
                    better = c > unit[d] if p_64[d] > 0.0 else c < unit[d]
                    if better and part[at + 3 * D + chan[d]] != 0.0:
                        unit[d] = c
            for i in range(slot, slot + pieces):
                at = PARTS * i * D + c0
                for d in range(nn):
                    k = part[at + 3 * D + chan[d]]
                    if k != 0.0:
                        c = part[at + D + chan[d]] + log2_ratio_any(part[at + chan[d]], m_64[d])
                        e0, e1, e2 = powers(c - unit[d], p_64[d], inv_h2[d], 0.0)
                        a_64[d] += k * e0
                        b_64[d] += k * e1
                        x_64[d] += k * e2
                        k_64[d] += k
                        g_64[d] += e0 * part[at + 2 * D + chan[d]]
            for d in range(nn):
                level, slope = settle(a_64[d], b_64[d], x_64[d], k_64[d], p_64[d], inv_p[d])
                m_64[d] = 0.0 if k_64[d] == 0.0 else m_64[d]
                b_64[d] = slope + g_64[d] / a_64[d]
                a_64[d] = level + unit[d]
            at = s * D + c0
            finish_near(y, M, C, dydp, at, chan, nn, n, stats, m_64, a_64, b_64, k_64, p_64, q_64, x_64, eps)
