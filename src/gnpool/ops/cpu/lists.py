"""Index kernels on the CPU: the list of long segments, and the counting behind ``build_csr`` and ``transpose``."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

import numpy as np
from numba import njit

from gnpool.ops.cpu.arithmetic import INLINE, compiled, pointer
from gnpool.ops.cpu.forward import PIECE

#: Results of :func:`sort_kernel`: the index was in order, or it was sorted.
ORDERED, SORTED = -1, -2


@compiled
def plan_kernel(ptr_at, S, long_at):
    """Count the long segments and their pieces; fill the list of (segment, first slot) if it has an address."""
    ptr, long = pointer(ptr_at, np.int64(0)), pointer(long_at, np.int64(0))
    count, slots = np.int64(0), np.int64(0)
    for s in range(S):
        n = ptr[s + 1] - ptr[s]
        if n > PIECE:
            if long_at != 0:
                long[2 * count] = s
                long[2 * count + 1] = slots
            count += 1
            slots += (n + PIECE - 1) // PIECE
    return count, slots


@njit(**INLINE)
def count(index, E, size, ptr):
    """Fill ``ptr`` (size + 1,) and return ORDERED, SORTED (out of order) or the first bad position.

    If the index is out of order, ptr[s + 1] is first the start of s, and its end once all entries are distributed.
    """
    ordered = True
    previous = np.int64(0)
    for s in range(size + 1):
        ptr[s] = 0
    for e in range(E):
        value = index[e]
        if value < 0 or value >= size:
            return np.int64(e)
        ordered &= value >= previous
        previous = value
        ptr[value + 1] += 1
    total = np.int64(0)
    for s in range(1, size + 1):
        n = ptr[s]
        ptr[s] = total + n if ordered else total
        total += n
    return np.int64(ORDERED if ordered else SORTED)


@compiled
def sort_kernel(index_at, E, size, ptr_at, perm_at):
    """Stable counting sort. Return ORDERED (without a perm), SORTED, or the first bad position."""
    index, ptr, perm = pointer(index_at, np.int64(0)), pointer(ptr_at, np.int64(0)), pointer(perm_at, np.int64(0))
    code = count(index, E, size, ptr)
    if code == SORTED:
        for e in range(E):
            place = ptr[index[e] + 1]
            perm[place] = e
            ptr[index[e] + 1] = place + 1
    return code


@compiled
def transpose_kernel(source_at, destination_at, ptr_at, E, size, t_ptr_at, t_row_at, t_eid_at):
    """Distribute destination and number of each edge by source, in one pass. Return the result of :func:`count`.

    Without destinations, the edges are already grouped at ``ptr``. Numbers are left out if they have no address.
    """
    source, destination = pointer(source_at, np.int64(0)), pointer(destination_at, np.int64(0))
    ptr, t_ptr = pointer(ptr_at, np.int64(0)), pointer(t_ptr_at, np.int64(0))
    t_row, t_eid = pointer(t_row_at, np.int64(0)), pointer(t_eid_at, np.int64(0))
    code = count(source, E, size, t_ptr)
    if code >= 0:
        return code
    step = np.int64(0 if code == ORDERED else 1)
    s = np.int64(0)
    for e in range(E):
        place = t_ptr[source[e] + 1] if step == 1 else np.int64(e)
        if destination_at != 0:
            s = destination[e]
        else:
            while ptr[s + 1] <= e:
                s += 1
        t_row[place] = s
        if t_eid_at != 0:
            t_eid[place] = e
        t_ptr[source[e] + 1] += step
    return code
