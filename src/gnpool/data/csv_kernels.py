"""Kernels for plain CSV text: they find cells, read the numbers in them, and number the different cells.

A number is taken here only if its digits fit a float64 and its power of ten is at most 22: then one multiplication or
division gives the nearest float64, as Python's ``float`` does. Python reads all other numbers.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

import numpy as np
from numba import njit

SKIP, NUMBER, INTEGER = 0, 1, 2
LINE, MINUS, PLUS, POINT, ZERO, NINE = 10, 45, 43, 46, 48, 57
LARGE_E, SMALL_E = 69, 101
WHOLE = 2**53  # whole numbers up to here are exact in float64
EXACT = 22  # powers of ten are exact in float64 up to this exponent
DIGITS = 18  # an integer with at most this many digits fits 64 bits
TENS = 10.0 ** np.arange(EXACT + 1)
# random, so that nobody can prepare words that collide
SEED = np.uint64(int.from_bytes(np.random.default_rng().bytes(8), "little"))
FACTOR, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)

_KERNEL = {"nogil": True, "cache": True}


@njit(**_KERNEL)
def split(data, separator, columns, starts, ends):
    """Find the cells of whole lines; empty lines are skipped.

    Returns the number of rows, and the number of columns of the first line that has a wrong one, or 0.
    """
    cells = rows = 0
    line = begin = 0
    for at in range(data.size):
        letter = data[at]
        if letter != separator and letter != LINE:
            continue
        if letter == LINE and at == line:
            line = begin = at + 1
            continue
        starts[cells], ends[cells] = begin, at
        cells += 1
        begin = at + 1
        if letter == LINE:
            got = cells - rows * columns
            if got != columns:
                return rows, got
            rows += 1
            line = begin
    return rows, 0


@njit(**_KERNEL)
def number(data, at, end):
    """The number in data[at:end], NaN if that is empty, and whether it could be read."""
    if at == end:
        return np.nan, True
    negative = data[at] == MINUS
    if negative or data[at] == PLUS:
        at += 1
    digits = exponent = 0
    mantissa = 0
    fraction = False
    while at < end:
        letter = data[at]
        if letter == POINT and not fraction:
            fraction = True
        elif ZERO <= letter <= NINE:
            mantissa = mantissa * 10 + (letter - ZERO)
            if mantissa > WHOLE:
                return np.nan, False
            digits += 1
            if fraction:
                exponent -= 1
        else:
            break
        at += 1
    if digits == 0:
        return np.nan, False
    if at < end:
        if data[at] != LARGE_E and data[at] != SMALL_E:
            return np.nan, False
        at += 1
        down = at < end and data[at] == MINUS
        if at < end and (down or data[at] == PLUS):
            at += 1
        if at == end or end - at > 3:
            return np.nan, False
        power = 0
        while at < end:
            if not ZERO <= data[at] <= NINE:
                return np.nan, False
            power = power * 10 + (data[at] - ZERO)
            at += 1
        exponent += -power if down else power
    if abs(exponent) > EXACT:
        return np.nan, False
    value = mantissa * TENS[exponent] if exponent >= 0 else mantissa / TENS[-exponent]
    return (-value if negative else value), True


@njit(**_KERNEL)
def integer(data, at, end):
    """The integer in data[at:end], and whether it is an integer as Python writes it."""
    negative = at < end and data[at] == MINUS
    if negative:
        at += 1
    if at == end or end - at > DIGITS or (data[at] == ZERO and (negative or end - at > 1)):
        return 0, False
    value = 0
    while at < end:
        if not ZERO <= data[at] <= NINE:
            return 0, False
        value = value * 10 + (data[at] - ZERO)
        at += 1
    return (-value if negative else value), True


@njit(**_KERNEL)
def parse(data, starts, ends, kinds, places, numbers, integers, odd):
    """Read the cells (R, C) of columns whose kind is NUMBER or INTEGER into their places.

    Cells that could not be read go to ``odd``, as positions in R x C; returns how many they are.
    """
    count = 0
    rows, columns = starts.shape
    for row in range(rows):
        for column in range(columns):
            kind = kinds[column]
            if kind == NUMBER:
                value, good = number(data, starts[row, column], ends[row, column])
                numbers[row, places[column]] = value
            elif kind == INTEGER:
                whole, good = integer(data, starts[row, column], ends[row, column])
                integers[row, places[column]] = whole
            else:
                continue
            if not good:
                odd[count] = row * columns + column
                count += 1
    return count


@njit(**_KERNEL)
def equal_cells(data, starts, ends, slots, first, codes, seed):
    """Number the different cells in the order in which they come; ``first`` is where each stands.

    ``slots`` is a hash table, filled with -1 and twice as long as there are cells, or more: a power of two.
    Returns how many different cells there are.
    """
    count = 0
    mask = slots.size - 1
    for cell in range(starts.size):
        begin, length = starts[cell], ends[cell] - starts[cell]
        mark = seed
        for at in range(begin, begin + length):
            mark = (mark ^ np.uint64(data[at])) * FACTOR
            mark ^= mark >> SHIFT
        slot = np.int64(mark & np.uint64(mask))
        while True:
            code = slots[slot]
            if code < 0:
                slots[slot] = code = count
                first[count] = cell
                count += 1
                break
            other = starts[first[code]]
            if ends[first[code]] - other == length:
                same = True
                for k in range(length):
                    if data[other + k] != data[begin + k]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & mask
        codes[cell] = code
    return count
