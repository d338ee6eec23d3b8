"""The quick way through a CSV file that holds nothing but plain numbers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from gnpool.data.files import Files
from gnpool.data.table import Floats

BLOCK_BYTES = 1 << 24
LARGEST_EXACT = 2**53  # of the integers in a float64
PLAIN = np.zeros(256, dtype=bool)
PLAIN[list(b"0123456789,.-+eE\n")] = True
FRACTION = np.zeros(256, dtype=bool)  # what the name of a node or a graph must not have to be an integer
FRACTION[list(b".+eE")] = True
# A missing value or an empty line, and a number that is written as no integer is: both are for the careful way.
ODD = re.compile(rb"[,\n][,\n]|[,\n]-?0[0-9]")


def read_plain(files: Files, name: str, header: list[str], ids: frozenset[str]) -> Floats | None:
    """All numbers of a file, (rows, columns), or None if it has anything else, or integers too large in ``ids``."""
    names = [place for place, column in enumerate(header) if column in ids]
    blocks: list[Floats] = []
    with files.open(name) as raw:
        raw.readline()
        for block in _blocks(raw):
            table = _parse(block, len(header), names)
            if table is None:
                return None
            blocks.append(table)
    return np.concatenate(blocks) if blocks else np.zeros((0, len(header)))


def _blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """Whole lines, many at a time, each ended by a line feed."""
    rest = b""
    while data := raw.read(BLOCK_BYTES):
        data = rest + data.replace(b"\r", b"")
        cut = data.rfind(b"\n") + 1
        rest = data[cut:]
        if cut:
            yield data[:cut]
    if rest:
        yield rest + b"\n"


def _parse(block: bytes, columns: int, names: list[int]) -> Any:
    characters = np.frombuffer(block, dtype=np.uint8)
    if not PLAIN[characters].all() or ODD.search(b"\n" + block[:-1]):
        return None
    ends = np.flatnonzero((characters == ord(",")) | (characters == ord("\n")))
    if len(ends) % columns or ((characters[ends] == ord("\n")) != (np.arange(1, len(ends) + 1) % columns == 0)).any():
        return None  # a line with more or fewer columns
    fractions = np.flatnonzero(FRACTION[characters])
    if len(fractions) and np.isin(np.searchsorted(ends, fractions) % columns, names).any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            values = np.fromstring(block.replace(b"\n", b",").decode("ascii"), sep=",")
        except (DeprecationWarning, ValueError):  # something such as 1-2
            return None
    if len(values) != len(ends):
        return None
    table = values.reshape(-1, columns)
    if not np.isfinite(table).all() or (np.abs(table[:, names]) >= LARGEST_EXACT).any():
        return None
    return table
