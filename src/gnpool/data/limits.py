"""Limits the memory that a file may need. A small file that claims gigabytes is refused before they are allocated."""

from __future__ import annotations

import os
import re

from gnpool.data.errors import DataError

VARIABLE = "GNPOOL_MEMORY_LIMIT"
DEFAULT = 2**30  # bytes
RATIO = 200  # a byte of a file may need this many bytes, if that is more; text is packed to about a tenth
MOST = 8  # no file, whatever its size, may need more than this many times the limit
TEXT = 16  # bytes of memory for a byte of text while it is read
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def memory_limit() -> int:
    """The bytes that any file may need: ``$GNPOOL_MEMORY_LIMIT``, such as ``16G``, or 1 GiB."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE | re.ASCII)
    if found is None or float(found[1]) == 0:
        raise DataError(f"{VARIABLE} must be a size such as 16G, got {text!r}")
    return int(float(found[1]) * UNITS[found[2].upper()])


def check_need(need: int, held: int, what: str, file: str | None = None) -> None:
    """Refuse data that need much more memory than the size of their file explains.

    Args:
        need (int): Bytes of memory, estimated.
        held (int): Bytes of the file.
        what (str): What needs them, for the message.
        file (str, optional): The file.
    """
    limit = memory_limit()
    if need > max(limit, min(RATIO * held, MOST * limit)):
        raise DataError(
            f"{what} would need {_shown(need)} of memory, but the file has only {_shown(held)}; "
            f"if that is right, allow it by {VARIABLE}={-(-need // 2**30)}G",
            file=file,
        )


def most_unpacked(held: int) -> int:
    """The bytes that a compressed file of ``held`` bytes may unpack to."""
    limit = memory_limit()
    return max(limit // TEXT, min(RATIO * held, MOST * limit))


def check_unpacked(claimed: int, held: int, file: str) -> None:
    """Refuse a compressed file that unpacks to more than it can reasonably hold."""
    if claimed > most_unpacked(held):
        raise DataError(
            f"it unpacks to {_shown(claimed)} or more, which is absurd for {_shown(held)}; "
            f"if that is right, allow it by {VARIABLE}={2 * -(-claimed * TEXT // 2**30)}G",
            file=file,
        )


def _shown(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"
