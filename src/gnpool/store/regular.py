"""Reads files from elsewhere. Only ordinary files are opened, and none is read without a limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class NotRegularError(OSError):
    """Something that is not an ordinary file stands where one was expected."""


def kind_of(mode: int) -> str | None:
    """The kind of anything but an ordinary file, in words; None for an ordinary file.

    Example:
        >>> kind_of(Path("/").stat().st_mode)
        'a folder'
    """
    return None if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "something else")


def open_regular(path: str | Path) -> BinaryIO:
    """Open an ordinary file, or a link to one, for reading.

    A pipe could make the reader wait for ever, and a device may never end, so both are refused before they are opened.

    Raises:
        NotRegularError: If it is a pipe, a device or a socket.
        OSError: As ``open`` does.
    """
    _check(path, Path(path).stat().st_mode)
    descriptor = os.open(path, FLAGS)  # with flags that prevent waiting if the file has just become a pipe
    try:
        _check(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | Path, most: int | None = None) -> bytes:
    """The bytes of an ordinary file; if it is larger than ``most``, only the first ``most + 1`` bytes."""
    with open_regular(path) as file:
        return file.read(-1 if most is None else most + 1)


def _check(path: str | Path, mode: int) -> None:
    kind = kind_of(mode)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder; a file was expected", str(path))
    if kind is not None:
        raise NotRegularError(errno.EINVAL, f"it is {kind}; only ordinary files are read", str(path))
