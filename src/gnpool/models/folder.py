"""Writes a folder atomically."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gnpool.store.files import sync_folder, write


def write_folder(
    folder: str | Path, files: Mapping[str, bytes], replaces: Callable[[Path], bool] = lambda folder: False
) -> None:
    """Write a folder with these files atomically; their names may contain folders.

    The folder is filled under another name and then renamed. An existing folder is replaced if it is empty or
    ``replaces`` allows it; otherwise it is an error.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 -- resolve() would follow a link
    check_free(folder, replaces)
    with naming(folder):
        _write(folder, files)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make errors of the system inside the block name the wanted path instead of a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"it could not be written ({error.strerror})", str(path)) from error


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    old = made.with_suffix(".old")
    try:
        made.chmod(0o755)  # mkdtemp makes it readable for the user only
        for name, data in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            write(made / name, data)
        if folder.exists():
            folder.rename(old)
        made.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    finally:
        for rest in (made, old):
            shutil.rmtree(rest, ignore_errors=True)
    sync_folder(folder.parent)


def check_free(folder: Path, replaces: Callable[[Path], bool] = lambda folder: False) -> None:
    """Raise an error if ``folder`` exists and must not be replaced."""
    if folder.is_dir():
        if any(folder.iterdir()) and not replaces(folder):
            raise FileExistsError(errno.EEXIST, "it holds other files; choose another folder", str(folder))
    elif folder.exists():
        raise FileExistsError(errno.EEXIST, "it is a file; choose another folder", str(folder))
