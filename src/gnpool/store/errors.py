"""Errors of files, which name the path, the problem and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADVICE = {
    errno.ENOSPC: "the disk is full; free some space and start again, since what was stored is still there",
    errno.EDQUOT: "the disk quota is used up; free some space and start again, since what was stored is still there",
    errno.EFBIG: "the file would be larger than the limit of this process or file system; raise it (ulimit -f)",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EACCES: "permission is denied; change the permissions (chmod, chown) or choose another folder",
    errno.EPERM: "permission is denied; change the permissions (chmod, chown) or choose another folder",
    errno.ENOENT: "the folder does not exist, or was removed; restore it or choose another",
    errno.ENOTDIR: "there is a file where a folder is expected; move it away or choose another folder",
    errno.EEXIST: "there is a file where a folder is expected; move it away or choose another folder",
    errno.EISDIR: "there is a folder where a file is expected; move it away",
    errno.ELOOP: "links lead back to themselves; remove them or choose another folder",
    errno.ETIMEDOUT: "the owner of this lock does not release it; if that process is gone, remove the file",
    errno.ENAMETOOLONG: "the path is too long for this file system; choose a shorter folder, or a key of fewer fields",
}


class Damaged(Exception):  # noqa: N818 - a finding that the store acts on, never an error users see
    """The content is not what was written; the text says what is wrong."""


class StoreError(RuntimeError):
    """The store cannot do its work; the message says where, why, and what to do.

    Args:
        path (pathlib.Path): The file or folder of the problem, kept as ``path``.
        problem (str): The problem, and what to do.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gnpool.store import Store, StoreError
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "results")
        ...     _ = file.write_text("not a folder")
        ...     try:
        ...         Store(file)
        ...     except StoreError as error:
        ...         print(str(error).partition(": ")[2])
        there is a file where a folder is expected; move it away or choose another folder
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, problem)  # both arguments, so that the error can be pickled and sent from a worker
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"'{self.path}': {self.problem}"


class StoreWarning(UserWarning):
    """Something was set aside or left out, and the work can go on.

    Example:
        >>> import tempfile, warnings
        >>> from pathlib import Path
        >>> from gnpool.store import Store
        >>> key = {"table": "t", "seed": 0}
        >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as seen:
        ...     _ = Store(folder).put(key, scores=[1.0])
        ...     _ = [path.write_text("{") for path in Path(folder).rglob("*.json")]
        ...     print(key in Store(folder), seen[0].category.__name__)
        False StoreWarning
    """


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` at ``path`` into a :class:`StoreError`, and keep the cause."""
    try:
        yield
    except OSError as error:
        where = Path(error.filename) if isinstance(error.filename, str) else path
        advice = ADVICE.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(where, advice) from error
