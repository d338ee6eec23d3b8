"""Durable, atomic writes and careful reads. A file is either complete or absent, even after kill -9 or a power cut."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gnpool.store.errors import Damaged
from gnpool.store.regular import kind_of

BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends, and checksums count them
NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}  # file systems that cannot fsync a folder


@contextmanager
def replacing(path: Path, *, shared: bool = False) -> Iterator[int]:
    """Give a descriptor for the new content of ``path``, which replaces the file when the block ends without an error.

    The content goes to a temporary file beside ``path``; then follow fsync, rename, and fsync of the folder. After an
    error in the block nothing has changed. Only this function of the package replaces files.

    Args:
        path (pathlib.Path): The file.
        shared (bool, optional): Whether several processes may write it at once without a lock. The temporary name is
            then a new one each time; otherwise it is fixed, so that the next attempt takes over what a killed one left.
            (default: ``False``)
    """
    word = f".{secrets.token_hex(4)}" if shared else ""
    temporary = path.with_name(f".{path.name}{word}.tmp")
    try:
        descriptor = _created(temporary)
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException as error:
        remove(temporary)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(path), None  # the user does not know the temporary file
        raise
    sync_folder(path.parent)


def write(path: Path, data: bytes, *, shared: bool = False) -> None:
    """Write ``data`` to ``path`` atomically, see :func:`replacing`."""
    with replacing(path, shared=shared) as descriptor:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _created(temporary: Path) -> int:
    """Create a new file. Whatever has its name is removed first, since it may be a FIFO or a link."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY
    try:
        return os.open(temporary, flags, 0o644)
    except FileExistsError:
        temporary.unlink()
        return os.open(temporary, flags, 0o644)


def read(path: str | Path, limit: int) -> bytes:
    """The content of an ordinary file of at most ``limit`` bytes. Other files are not opened or not read to the end."""
    size = check_ordinary(path).st_size
    if size > limit:
        raise Damaged(f"'{Path(path).name}' has {size} bytes, but at most {limit} are expected")
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the same
        data = file.read(size)
        while len(data) < size and (more := file.read(size - len(data))):  # the system reads at most 2 GiB at once
            data += more
    return data


def check_ordinary(path: str | Path) -> os.stat_result:
    """The status of an ordinary file or a link to one; anything else raises :class:`Damaged`."""
    try:
        about = os.stat(path)  # noqa: PTH116 - text makes no Path, which would cost more than the call
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink():
            name = Path(path).name
            raise Damaged(f"'{name}' is a link that leads back to itself and not an ordinary file") from error
        raise
    kind = kind_of(about.st_mode)
    if kind is not None:
        raise Damaged(f"'{Path(path).name}' is {kind} and not an ordinary file")
    return about


def remove(path: Path) -> None:
    """Remove the file if it is there and can be removed."""
    with suppress(OSError):
        path.unlink()


def remove_tree(folder: Path) -> None:
    """Remove the folder with all that is in it, as far as possible."""
    with suppress(OSError):  # besides `ignore_errors`, which misses a failing close
        shutil.rmtree(folder, ignore_errors=True)


def make_folders(root: Path, folder: Path) -> None:
    """Create ``folder`` below ``root``, durably. A missing root is an error, since its disk may be gone."""
    if folder.is_dir():
        return
    if folder == root:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(root))
    make_folders(root, folder.parent)
    try:
        folder.mkdir()
    except FileExistsError:  # there is a file, or another process was faster
        if not folder.is_dir():
            raise
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make changes of names in ``folder`` survive a power cut."""
    if os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)
