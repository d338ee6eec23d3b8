"""Index kernels on the CPU: the list of long segments, and the stable counting sort behind ``build_csr``."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

import numpy as np

from gnpool.ops.cpu.arithmetic import compiled, pointer
from gnpool.ops.cpu.forward import PIECE

#: What :func:`sort_kernel` returns where there was nothing to sort, and where there was.
ORDERED, SORTED = -1, -2


@compiled
def plan_kernel(ptr_at, S, long_at):
    """Counts the long segments and their pieces; fills the list of (segment, first slot) when it has an address."""
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


@compiled
def sort_kernel(index_at, E, size, ptr_at, perm_at):
    """Stable counting sort. Returns ORDERED, without a perm, or SORTED, or the first bad position."""
    index, ptr, perm = pointer(index_at, np.int64(0)), pointer(ptr_at, np.int64(0)), pointer(perm_at, np.int64(0))
    ordered = True
    previous = np.int64(0)
    for s in range(size + 1):
        ptr[s] = 0
    for e in range(E):
        value = index[e]
        if value < 0 or value >= size:
            return e
        ordered &= value >= previous
        previous = value
        ptr[value + 1] += 1
    total = np.int64(0)
    if ordered:
        for s in range(1, size + 1):
            total += ptr[s]
            ptr[s] = total
        return np.int64(ORDERED)
    # ptr[s + 1] holds the next free place of segment s while the entries are dealt out, and its end afterwards.
    for s in range(1, size + 1):
        count = ptr[s]
        ptr[s] = total
        total += count
    for e in range(E):
        place = ptr[index[e] + 1]
        perm[place] = e
        ptr[index[e] + 1] = place + 1
    return np.int64(SORTED)
