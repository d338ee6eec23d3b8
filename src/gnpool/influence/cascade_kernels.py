"""Cascades on a CPU, 64 of them in a word.

Cascade c is bit ``c % 64`` of block ``c // 64``. An edge is *live* in a cascade or not, once and for all, so a node is
activated at the length of its shortest live path from the seeds: the independent cascade model.

Whether edge e is live in the 64 cascades of a block is a comparison of 64 random binary fractions with the probability,
digit by digit: word k of the stream (e, block) holds digit k of all of them. Most comparisons end after a digit or two,
and all that are asked for after about log2(64) + 1, whatever the probability; the result is exact to 64 digits. Streams
are functions of (seed, block, edge, k), so bits depend neither on threads nor on what else is simulated.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# ruff: noqa: D103 -- the names are the formulas of the module's docstring

import numpy as np
from numba import njit

GAMMA = np.uint64(0x9E3779B97F4A7C15)
M1, M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64
ZERO, ONE, TOP = np.uint64(0), np.uint64(1), np.uint64(1 << 63)
S27, S30, S31 = np.uint64(27), np.uint64(30), np.uint64(31)
LOOK = 1024  # nodes between looks whether to stop
PLANES = 40  # binary digits of the size of a cascade

_INLINE = {"nogil": True, "inline": "always"}
_KERNEL = {"nogil": True, "cache": True}


@njit(**_INLINE)
def mix(z):
    """A bijection of 64-bit words after which neighbours have nothing in common (the end of splitmix64)."""
    z = (z ^ (z >> S30)) * M1
    z = (z ^ (z >> S27)) * M2
    return z ^ (z >> S31)


@njit(**_INLINE)
def popcount(w):
    w = w - ((w >> ONE) & np.uint64(0x5555555555555555))
    w = (w & np.uint64(0x3333333333333333)) + ((w >> np.uint64(2)) & np.uint64(0x3333333333333333))
    w = (w + (w >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((w * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(**_INLINE)
def live_bits(key, edge, threshold, wanted):
    """In which of the ``wanted`` cascades an edge is live."""
    if threshold == ~ZERO:
        return wanted
    stream = mix(key + np.uint64(edge + 1) * GAMMA)
    live, open_ = ZERO, wanted
    while open_ != ZERO and threshold != ZERO:
        stream += GAMMA
        word = mix(stream)
        if threshold & TOP != ZERO:  # digit 1: a random 0 is below
            live |= open_ & ~word
            open_ &= word
        else:  # digit 0: a random 1 is above
            open_ &= ~word
        threshold = threshold << ONE
    return live


@njit(**_KERNEL)
def block_kernel(
    keys, lanes, seeds, out_ptr, out_node, out_edge, out_threshold, active, fresh, coming, queue, after, touched,
    planes, totals, counts, stop,
):  # fmt: skip
    """The blocks of one seed set whose random numbers are those of ``keys``, and whose cascades are those of ``lanes``.

    ``totals`` (2,) gains the sizes of the cascades and their squares; ``counts`` (T, N) the activations at each step,
    all later ones in the last row, or has no row. ``active``, ``fresh`` and ``coming`` (N,) are 0 before and after;
    ``queue``, ``after`` and ``touched`` (N,) and ``planes`` are scratch. When ``stop`` (1,) is not 0 any more it
    gives up, and leaves them as they are. Returns the largest number of steps.
    """
    rows = counts.shape[0]
    longest = 0
    for block in range(keys.shape[0]):
        key, wanted = keys[block], lanes[block]
        planes[:] = ZERO
        waiting = known = 0
        for node in seeds:
            if active[node] == ZERO:
                active[node] = fresh[node] = wanted
                queue[waiting] = touched[known] = node
                waiting += 1
                known += 1
        step = 0
        while waiting > 0:
            longest = max(longest, step)
            reached = 0
            for i in range(waiting):
                if i % LOOK == 0 and stop[0] != 0:
                    return longest
                node = queue[i]
                word = fresh[node]
                fresh[node] = ZERO
                if rows > 0:
                    counts[min(step, rows - 1), node] += popcount(word)
                for at in range(out_ptr[node], out_ptr[node + 1]):
                    neighbor = out_node[at]
                    open_ = word & ~(active[neighbor] | coming[neighbor])
                    if open_ != ZERO:
                        live = live_bits(key, out_edge[at], out_threshold[at], open_)
                        if live != ZERO:
                            if coming[neighbor] == ZERO:
                                after[reached] = neighbor
                                reached += 1
                            coming[neighbor] |= live
                place = 0
                while word != ZERO:  # one more in these cascades: their sizes are binary numbers side by side
                    carry = planes[place] & word
                    planes[place] ^= word
                    word = carry
                    place += 1
            for i in range(reached):
                node = after[i]
                if active[node] == ZERO:
                    touched[known] = node
                    known += 1
                fresh[node] = coming[node]
                active[node] |= coming[node]
                coming[node] = ZERO
                queue[i] = node
            waiting = reached
            step += 1
        for lane in range(64):
            size = np.int64(0)
            for place in range(planes.shape[0]):
                size += np.int64((planes[place] >> np.uint64(lane)) & ONE) << place
            totals[0] += size
            totals[1] += size * size
        for i in range(known):
            active[touched[i]] = ZERO
    return longest


@njit(**_KERNEL)
def gain_kernel(
    keys, lanes, base, node, out_ptr, out_node, out_edge, out_threshold, active, fresh, queue, touched, keep, stop,
):  # fmt: skip
    """How many nodes ``node`` activates beyond those of ``base`` (blocks, N), summed over all cascades.

    ``active`` and ``fresh`` (N,) are 0 before and after; ``queue`` (N,), a ring of nodes with bits to pass on, and
    ``touched`` (N,) are scratch. With ``keep`` the base grows. The order of steps does not matter here.
    When ``stop`` (1,) is not 0 any more it gives up, and leaves everything as it is.
    """
    size = queue.shape[0]
    total = np.int64(0)
    for block in range(keys.shape[0]):
        known = base[block]
        word = lanes[block] & ~known[node]
        if word == ZERO:
            continue
        active[node] = fresh[node] = word
        queue[0] = touched[0] = node
        first, waiting, reached = 0, 1, 1
        steps = 0
        while waiting > 0:
            if steps % LOOK == 0 and stop[0] != 0:
                return total
            steps += 1
            here = queue[first]
            first = first + 1 if first + 1 < size else 0
            waiting -= 1
            word = fresh[here]
            fresh[here] = ZERO
            for at in range(out_ptr[here], out_ptr[here + 1]):
                neighbor = out_node[at]
                open_ = word & ~(known[neighbor] | active[neighbor])
                if open_ != ZERO:
                    live = live_bits(keys[block], out_edge[at], out_threshold[at], open_)
                    if live != ZERO:
                        if active[neighbor] == ZERO:
                            touched[reached] = neighbor
                            reached += 1
                        if fresh[neighbor] == ZERO:
                            queue[(first + waiting) % size] = neighbor
                            waiting += 1
                        active[neighbor] |= live
                        fresh[neighbor] |= live
        for i in range(reached):
            total += popcount(active[touched[i]])
            if keep:
                known[touched[i]] |= active[touched[i]]
            active[touched[i]] = ZERO
    return total
