"""Forward kernels on the CPU: the reduction of pieces of segments, and their merge.

Shapes: x (N, D), segments (S, D), entries E. Addresses and sizes come in one tuple of integers, so that a call costs
little. The work is cut into *tasks* by shapes alone: ranges of (entries + segments) times blocks of ``BLOCK`` channels.
Threads draw tasks from a counter. A segment longer than ``PIECE`` entries is cut into pieces, whose partial results
(M, A, B, K) are merged in order: the bits do not depend on the number of threads.

Per segment and channel, with u = v + eps, l = log2(u / M) and M the largest (p > 0) or the smallest kept u (p < 0):
A = sum 2^(p l) and B = sum l 2^(p l). Both signs of p share this form, so one loop serves both.

The growth form needs one more number, K: the number of entries that take part. In the norm form K is 1, so that
y = M (A / K)^(1/p) n^-q is the same formula. ``near.py`` has the kernels for exponents near 0.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

import math

import numpy as np
from numba import njit

from gnpool.ops.cpu.arithmetic import (
    BLOCK,
    HUGE,
    INLINE,
    bits,
    cast,
    compiled,
    exp2_any,
    exp2_parts,
    exp2_weight,
    fetch_add,
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
from gnpool.ops.form import KEEP, NORM, REMOVE

#: Entries of a segment that are reduced in one go; longer segments are cut.
PIECE = 512
#: Numbers that a piece stores for each channel.
PARTS = 4
#: Entries that are summed in the type of x before the sum moves on to float64.
RUN = 32
#: Distance from the current entry to the one that is fetched from memory, if rows are gathered.
AHEAD = 8

_LN2 = math.log(2.0)
#: Rounding of log2(A / K), in float32 and float64.
_NOISE_32, _NOISE_64 = 2.0**-21, 2.0**-50


@njit(**INLINE)
def magnitude(z, clip):
    """|z|, or max(z, 0) with clip = 0; NaN stays, with a positive sign."""
    z = select(z < clip, cast(0.0, z), z)
    b = bits(z)
    return from_bits(cast(b & int_facts(b)[2], b))


@njit(**INLINE)
def next_task(counter, done):
    """The next task of this thread, from the shared counter; without a counter, simply the next task."""
    if counter == 0:
        return done
    return fetch_add(pointer(counter, np.int64(0)), np.int64(1))


@njit(**INLINE)
def first_at(ptr, S, key):
    """The first segment s with ptr[s] - ptr[0] + s >= key."""
    lo, hi = np.int64(0), S
    while lo < hi:
        mid = (lo + hi) >> 1
        if ptr[mid] - ptr[0] + mid < key:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(**INLINE)
def span_of(ptr, S, task, blocks, span):
    """The keys of a task, from the first to the one after the last, and its first segment."""
    first_key = (task // blocks) * span
    s = first_at(ptr, S, first_key)
    if s > 0 and ptr[s] - ptr[s - 1] > PIECE:
        s -= 1
    return first_key, first_key + span, s


@njit(**INLINE)
def removes(p, form):
    """Whether entries up to eps are removed."""
    return form == REMOVE or (form == NORM and p < 0.0)


@njit(**INLINE)
def load_exponents(p, eps, form, p_t, p_64, inv_p, thr, off, flip, low, high, nb):
    """For each channel: p and 1/p in working form, the removal threshold, the order of u, the fast range of M."""
    facts = float_facts(eps)
    ints = int_facts(bits(eps))
    normal_eps = eps >= cast(2.0 ** facts[0], eps)
    for d in range(nb):
        value = p[d]
        if value == 0.0 and form == NORM:
            value = np.nan
        negative = value < 0.0 or value == 0.0
        a = abs(value)
        work = min(a, HUGE)
        p_64[d] = -work if negative else (work if a == a else a)
        p_t[d] = cast(p_64[d], eps)
        inv_p[d] = 1.0 / value
        thr[d] = eps if removes(value, form) else cast(-1.0, eps)
        off[d] = cast(ints[1] if negative else 0, off[d])
        flip[d] = cast(-1 if negative else 0, flip[d])
        lowest, highest = facts[0], facts[1]
        reach = facts[4] if a >= 1.0 else facts[4] / a
        if negative:
            highest = min(highest, facts[3] - reach)
        elif not normal_eps:
            lowest = max(lowest, facts[2] + reach)
        # Below 1/4, the 1/p of the last step would magnify the rounding errors of A, so A is in float64.
        fits = a >= 0.25 and lowest < highest
        low[d] = cast(2.0**lowest if fits else np.inf, eps)
        high[d] = cast(2.0**highest if fits else 0.0, eps)


@njit(**INLINE)
def order_key(z, clip, eps, thr, off, flip):
    """An integer that is largest for the extreme u: bits order non-negative floats, and NaN is above all of them."""
    v = magnitude(z, clip)
    b = bits(v + eps)
    key = cast(cast(b + off, b) ^ flip, b)
    return select(v <= thr, cast(int_facts(b)[0], b), key)


@njit(**INLINE)
def weigh(z, clip, eps, thr, m, p):
    """(2^(p l), l 2^(p l)), 0 where removed."""
    v = magnitude(z, clip)
    log_r = log2_ratio(v + eps, m)
    e = select(v <= thr, cast(0.0, z), exp2_weight(p * log_r))
    return e, e * log_r


@njit(**INLINE)
def entry_weight(weight, has_w, eid, has_eid, i, like):
    """The weight of entry i: 1 without weights."""
    if not has_w:
        return cast(1.0, like)
    return weight[eid[i]] if has_eid else weight[i]


@njit(**INLINE)
def row_at(col, has_col, i, D, c0):
    """The offset of entry i in x, at channel c0."""
    return (col[i] if has_col else i) * D + c0


@njit(**INLINE)
def find_long(long, n_long, s):
    """The place of segment s in the list of long segments: pairs (segment, first slot of its partial results)."""
    lo, hi = np.int64(0), n_long
    while lo < hi:
        mid = (lo + hi) >> 1
        if long[2 * mid] < s:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(**INLINE)
def piece_of(long, n_long, s, n, base, first_key):
    """The first piece of segment s in a task, and its slot of partial results; -1 if the segment is not long."""
    i = np.int64(0)
    if base < first_key:
        i = (first_key - base + PIECE - 1) // PIECE
    slot = np.int64(-1)
    if n > PIECE:
        slot = long[2 * find_long(long, n_long, s) + 1] + i
    return i, slot


@njit(**INLINE)
def has_piece(i, n, base, stop_key):
    """Whether piece i of a segment is there and begins in the task; an empty segment has one piece."""
    return (i * PIECE < n and base + i * PIECE < stop_key) or (n == 0 and i == 0)


@njit(**INLINE)
def piece_ends(start, n, i):
    """The first entry of piece i, and the one after its last."""
    lo = start + i * PIECE
    return lo, min(start + n, lo + PIECE)


@njit(**INLINE)
def finish(y, M, C, dydp, at, nb, n, stats, m_64, a_64, b_64, k_64, inv_p, q_64, log_a, factor, like):
    """y = M (A / K)^(1/p) n^-q, C = dy/du at u = M and dy/dp of one segment, in float64, rounded once at the end.

    y has its own loop, so that its bits do not depend on ``stats``. In the growth forms (K > 1), the slope in p of
    nearly equal entries is far below the rounding of A. It is set to 0 there, because an optimiser that divides by the
    size of its gradients would follow the noise.
    """
    noise = _NOISE_32 if float_facts(like)[1] < 1000.0 else _NOISE_64
    log_n = math.log2(np.float64(n)) if n > 0 else 0.0
    for d in range(nb):
        m, a = m_64[d], a_64[d]
        log_a[d] = select(a != a, a, log2_ratio(a, k_64[d])) * inv_p[d]
        f0, f1, f2 = exp2_parts(log_a[d] - q_64[d] * log_n)
        factor[d] = f0 * f1 * f2
        value = select((a == 0.0) | ((m == 0.0) & (a == a)), 0.0, m * f0 * f1 * f2)
        y[at + d] = cast(value, like)
    if stats:
        for d in range(nb):
            m, a = m_64[d], a_64[d]
            none = a == 0.0
            M[at + d] = cast(select(none, 0.0, m), like)
            C[at + d] = cast(select(none, 0.0, factor[d] / a), like)
            slope = b_64[d] / a - log_a[d]
            still = (slope == 0.0) | ((k_64[d] > 1.0) & (abs(slope) <= noise * abs(inv_p[d])))
            flat = none | (((m == 0.0) | still | (inv_p[d] == 0.0)) & (a == a))
            dydp[at + d] = cast(select(flat, 0.0, m * factor[d] * (inv_p[d] * _LN2) * slope), like)


@compiled
def fwd_kernel(args, eps):
    """y, M, C and dy/dp of the segments of each task; long segments store partial results for the merge."""
    (counter, x_at, weight_at, ptr_at, col_at, eid_at, p_at, q_at, y_at, M_at, C_at, dydp_at, long_at, part_at) = args[
        :14
    ]
    (D, S, tasks, span, relu, form, stats, n_long, skip_at) = args[14:]
    x = pointer(x_at, eps)
    weight = pointer(weight_at, eps)
    ptr = pointer(ptr_at, np.int64(0))
    col = pointer(col_at, np.int64(0))
    eid = pointer(eid_at, np.int64(0))
    long = pointer(long_at, np.int64(0))
    skip = pointer(skip_at, np.int8(0))
    part = pointer(part_at, 0.0)
    q = pointer(q_at, 0.0)
    y, M, C, dydp = pointer(y_at, eps), pointer(M_at, eps), pointer(C_at, eps), pointer(dydp_at, eps)
    has_w, has_col, has_eid = weight_at != 0, col_at != 0, eid_at != 0
    clip = cast(0.0 if relu else -np.inf, eps)
    zero = cast(0.0, eps)
    ib = bits(eps)
    least = cast(int_facts(ib)[0], ib)

    p_t, thr, low, high, m_t, a_t, b_t = (
        stack(eps),
        stack(eps),
        stack(eps),
        stack(eps),
        stack(eps),
        stack(eps),
        stack(eps),
    )
    p_64, inv_p, q_64, m_64, a_64, b_64 = stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0)
    a_any, b_any, k_64 = stack(0.0), stack(0.0), stack(0.0)
    off, flip, key = stack(ib), stack(ib), stack(ib)

    blocks = (D + BLOCK - 1) // BLOCK
    last = ptr[S]
    last_block = np.int64(-1)
    done = np.int64(0)
    while True:
        task = next_task(counter, done)
        done += 1
        if task >= tasks:
            break
        block = task % blocks
        if skip_at != 0 and skip[block] == 1:  # other kernels compute the whole block
            continue
        c0 = block * BLOCK
        nb = min(np.int64(BLOCK), D - c0)
        if block != last_block:
            load_exponents(pointer(p_at + 8 * c0, 0.0), eps, form, p_t, p_64, inv_p, thr, off, flip, low, high, nb)
            for d in range(nb):
                q_64[d] = q[c0 + d]
            last_block = block
        first_key, stop_key, s = span_of(ptr, S, task, blocks, span)
        while s < S:
            base = ptr[s] - ptr[0] + s
            if base >= stop_key:
                break
            start, n = ptr[s], ptr[s + 1] - ptr[s]
            i, slot = piece_of(long, n_long, s, n, base, first_key)
            while has_piece(i, n, base, stop_key):
                lo, hi = piece_ends(start, n, i)
                # The extreme of every channel.
                for d in range(nb):
                    key[d] = least
                e = lo
                while e + 3 < hi:
                    if has_col and e + AHEAD + 3 < last:
                        for k in range(AHEAD, AHEAD + 4):
                            prefetch_row(x, row_at(col, has_col, e + k, D, c0), nb)
                            if has_w and has_eid:
                                prefetch(weight, eid[e + k])
                    r0 = row_at(col, has_col, e, D, c0)
                    r1 = row_at(col, has_col, e + 1, D, c0)
                    r2 = row_at(col, has_col, e + 2, D, c0)
                    r3 = row_at(col, has_col, e + 3, D, c0)
                    w0 = entry_weight(weight, has_w, eid, has_eid, e, eps)
                    w1 = entry_weight(weight, has_w, eid, has_eid, e + 1, eps)
                    w2 = entry_weight(weight, has_w, eid, has_eid, e + 2, eps)
                    w3 = entry_weight(weight, has_w, eid, has_eid, e + 3, eps)
                    for d in range(nb):
                        k0 = order_key(x[r0 + d] * w0, clip, eps, thr[d], off[d], flip[d])
                        k1 = order_key(x[r1 + d] * w1, clip, eps, thr[d], off[d], flip[d])
                        k2 = order_key(x[r2 + d] * w2, clip, eps, thr[d], off[d], flip[d])
                        k3 = order_key(x[r3 + d] * w3, clip, eps, thr[d], off[d], flip[d])
                        k0 = select(k1 > k0, k1, k0)
                        k2 = select(k3 > k2, k3, k2)
                        k0 = select(k2 > k0, k2, k0)
                        key[d] = select(k0 > key[d], k0, key[d])
                    e += 4
                while e < hi:
                    r0 = row_at(col, has_col, e, D, c0)
                    w0 = entry_weight(weight, has_w, eid, has_eid, e, eps)
                    for d in range(nb):
                        k0 = order_key(x[r0 + d] * w0, clip, eps, thr[d], off[d], flip[d])
                        key[d] = select(k0 > key[d], k0, key[d])
                    e += 1
                bad = np.int64(0)
                for d in range(nb):
                    m = from_bits(cast(cast(key[d] ^ flip[d], ib) - off[d], ib))
                    none = (key[d] == least) | ((m == zero) & (p_64[d] > 0.0))
                    m_t[d] = select(none, cast(1.0, eps), m)
                    m_64[d] = select(key[d] == least, 0.0, np.float64(m))
                    bad |= np.int64(not ((none & (p_64[d] == p_64[d])) | ((m >= low[d]) & (m <= high[d]))))
                    a_64[d] = 0.0
                    b_64[d] = 0.0
                # The sums, relative to the extreme.
                e = lo
                while e < hi:
                    stop = min(hi, e + RUN)
                    for d in range(nb):
                        a_t[d] = zero
                        b_t[d] = zero
                    while e + 3 < stop:
                        r0 = row_at(col, has_col, e, D, c0)
                        r1 = row_at(col, has_col, e + 1, D, c0)
                        r2 = row_at(col, has_col, e + 2, D, c0)
                        r3 = row_at(col, has_col, e + 3, D, c0)
                        w0 = entry_weight(weight, has_w, eid, has_eid, e, eps)
                        w1 = entry_weight(weight, has_w, eid, has_eid, e + 1, eps)
                        w2 = entry_weight(weight, has_w, eid, has_eid, e + 2, eps)
                        w3 = entry_weight(weight, has_w, eid, has_eid, e + 3, eps)
                        for d in range(nb):
                            e0, l0 = weigh(x[r0 + d] * w0, clip, eps, thr[d], m_t[d], p_t[d])
                            e1, l1 = weigh(x[r1 + d] * w1, clip, eps, thr[d], m_t[d], p_t[d])
                            e2, l2 = weigh(x[r2 + d] * w2, clip, eps, thr[d], m_t[d], p_t[d])
                            e3, l3 = weigh(x[r3 + d] * w3, clip, eps, thr[d], m_t[d], p_t[d])
                            a_t[d] += (e0 + e1) + (e2 + e3)
                            b_t[d] += (l0 + l1) + (l2 + l3)
                        e += 4
                    while e < stop:
                        r0 = row_at(col, has_col, e, D, c0)
                        w0 = entry_weight(weight, has_w, eid, has_eid, e, eps)
                        for d in range(nb):
                            e0, l0 = weigh(x[r0 + d] * w0, clip, eps, thr[d], m_t[d], p_t[d])
                            a_t[d] += e0
                            b_t[d] += l0
                        e += 1
                    for d in range(nb):
                        a_64[d] += a_t[d]
                        b_64[d] += b_t[d]
                for d in range(nb):
                    all_zero = (m_64[d] == 0.0) & (p_64[d] > 0.0)
                    a_64[d] = select(all_zero, np.float64(hi - lo), a_64[d])
                    b_64[d] = select(all_zero, 0.0, b_64[d])
                if bad != 0:
                    for d in range(nb):
                        a_any[d] = 0.0
                        b_any[d] = 0.0
                    for e in range(lo, hi):
                        r0 = row_at(col, has_col, e, D, c0)
                        w0 = entry_weight(weight, has_w, eid, has_eid, e, eps)
                        for d in range(nb):
                            v = magnitude(x[r0 + d] * w0, clip)
                            log_r = log2_ratio_any(np.float64(v + eps), m_64[d])
                            t = select(v <= thr[d], 0.0, exp2_any(p_64[d] * log_r))
                            a_any[d] += t
                            b_any[d] += select(t == 0.0, 0.0, t * log_r)
                    for d in range(nb):
                        m = m_64[d]
                        fast = (m >= low[d]) & (m <= high[d])
                        a_64[d] = select(fast, a_64[d], a_any[d])
                        b_64[d] = select(fast, b_64[d], b_any[d])
                for d in range(nb):
                    k_64[d] = np.float64(hi - lo) if form == KEEP else np.float64(form == NORM)
                if form == REMOVE:
                    for e in range(lo, hi):
                        r0 = row_at(col, has_col, e, D, c0)
                        w0 = entry_weight(weight, has_w, eid, has_eid, e, eps)
                        for d in range(nb):
                            k_64[d] += select(magnitude(x[r0 + d] * w0, clip) <= thr[d], 0.0, 1.0)
                if slot < 0:
                    finish(
                        y, M, C, dydp, s * D + c0, nb, n, stats, m_64, a_64, b_64, k_64, inv_p, q_64, a_any, b_any, eps
                    )  # fmt: skip
                else:
                    at = slot * PARTS * D + c0
                    for d in range(nb):
                        part[at + d] = m_64[d]
                        part[at + D + d] = a_64[d]
                        part[at + 2 * D + d] = b_64[d]
                        part[at + 3 * D + d] = k_64[d]
                    slot += 1
                i += 1
            s += 1


@compiled
def fwd_merge_kernel(args, eps):
    """Merge the pieces of the long segments, in order."""
    (ptr_at, p_at, q_at, y_at, M_at, C_at, dydp_at, long_at, part_at, D, form, stats, n_long) = args
    ptr, long = pointer(ptr_at, np.int64(0)), pointer(long_at, np.int64(0))
    part, p, q = pointer(part_at, 0.0), pointer(p_at, 0.0), pointer(q_at, 0.0)
    y, M, C, dydp = pointer(y_at, eps), pointer(M_at, eps), pointer(C_at, eps), pointer(dydp_at, eps)
    p_64, inv_p, q_64, m_64, a_64, b_64 = stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0), stack(0.0)
    a_any, b_any, k_64 = stack(0.0), stack(0.0), stack(0.0)
    for c0 in range(0, D, BLOCK):
        nb = min(np.int64(BLOCK), D - c0)
        for d in range(nb):
            value = p[c0 + d] if p[c0 + d] != 0.0 else np.nan
            inv_p[d] = 1.0 / value
            p_64[d] = max(min(value, HUGE), -HUGE) if value == value else value
            q_64[d] = q[c0 + d]
        for k in range(n_long):
            s, slot = long[2 * k], long[2 * k + 1]
            n = ptr[s + 1] - ptr[s]
            pieces = (n + PIECE - 1) // PIECE
            for d in range(nb):
                m_64[d] = np.inf if p_64[d] < 0.0 else 0.0
                a_64[d] = 0.0
                b_64[d] = 0.0
                k_64[d] = 0.0
            for i in range(slot, slot + pieces):
                at = PARTS * i * D + c0
                for d in range(nb):
                    m = part[at + d]
                    better = select(p_64[d] < 0.0, m < m_64[d], m > m_64[d])
                    m_64[d] = select(better & (part[at + D + d] != 0.0), m, m_64[d])
            for i in range(slot, slot + pieces):
                at = PARTS * i * D + c0
                for d in range(nb):
                    a = part[at + D + d]
                    log_r = log2_ratio_any(part[at + d], m_64[d])
                    w = select(a == 0.0, 0.0, exp2_any(p_64[d] * log_r))
                    a_64[d] += w * a
                    b_64[d] += select(w == 0.0, 0.0, w * (part[at + 2 * D + d] + a * log_r))
                    k_64[d] = select(form == NORM, 1.0, k_64[d] + part[at + 3 * D + d])
            finish(y, M, C, dydp, s * D + c0, nb, n, stats, m_64, a_64, b_64, k_64, inv_p, q_64, a_any, b_any, eps)
