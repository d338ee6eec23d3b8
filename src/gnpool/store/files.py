"""Durable, atomic writes: a file is there wholly or not at all, after kill -9 and after a power cut."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends, and checksums count them
NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}  # file systems that know no fsync of a folder


def write(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``: a temporary file beside it, fsync, rename, fsync of the folder.

    The temporary name is fixed, so that the next attempt takes over what a killed one left. Writers of one path must
    hold its lock.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException as error:
        remove(temporary)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # nobody knows the temporary one
        raise
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove the file if it is there and can be removed."""
    with suppress(OSError):
        path.unlink()


def remove_tree(folder: Path) -> None:
    """Remove the folder with all that is in it, as far as possible."""
    with suppress(OSError):  # besides `ignore_errors`, which misses a failing close
        shutil.rmtree(folder, ignore_errors=True)


def make_folders(root: Path, folder: Path) -> None:
    """Create ``folder`` below ``root``, durably. A missing root is an error: it may be a disk that went away."""
    if folder.is_dir():
        return
    if folder == root:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(root))
    make_folders(root, folder.parent)
    try:
        folder.mkdir()
    except FileExistsError:  # a file there, or another process was faster
        if not folder.is_dir():
            raise
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were created, renamed or removed in ``folder`` survive a power cut."""
    if os.name == "nt":  # where folders cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)
