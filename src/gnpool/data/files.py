"""The files of a folder or of a zip, which is never unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from gnpool.data.errors import DataError

MOST_BYTES = 8 * 2**30  # that the files of a zip may say they have
MOST_RATIO = 200  # times the size of the zip, where that is more than SMALL; text is packed to a tenth or so
SMALL = 64 * 2**20


def check_claimed(claimed: int, path: Path) -> None:
    """Refuse a zip whose files say that they have more bytes than they can have."""
    held = path.stat().st_size
    if claimed > MOST_BYTES or (claimed > SMALL and claimed > MOST_RATIO * held):
        raise DataError(f"its files claim {claimed} bytes, which is absurd for a zip of {held} bytes", file=str(path))


class Files:
    """Files by name, read only.

    Those of a zip go by their last part: ``NAME/NAME_A.txt`` is ``NAME_A.txt``. A zip with a path that leaves it, two
    files of one name, or sizes that are absurd is refused before anything is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.zip: zipfile.ZipFile | None = None
        self._members: dict[str, str] = {}
        if path.is_dir():
            raw = path / "raw"  # where PyTorch Geometric keeps a TUDataset
            folders = [path, raw] if raw.is_dir() else [path]
            self._files = {file.name: file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()}
        else:
            self._files = {}
            self._open_zip()

    def _open_zip(self) -> None:
        try:
            self.zip = zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise DataError(f"it is not a zip that can be read ({error})", file=str(self.path)) from error
        claimed = 0
        for member in self.zip.infolist():
            name = member.filename
            parts = PurePosixPath(name.replace("\\", "/"))
            if parts.is_absolute() or ".." in parts.parts or (parts.parts and ":" in parts.parts[0]):
                raise DataError(f"it has a file {name!r}, which leads out of it", file=str(self.path))
            if member.is_dir() or parts.name.startswith("."):
                continue
            if parts.name in self._members:
                raise DataError(f"it has two files {parts.name!r}", file=str(self.path))
            self._members[parts.name] = name
            claimed += member.file_size
        check_claimed(claimed, self.path)

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted([*self._files, *self._members])

    def __contains__(self, name: str) -> bool:
        return name in self._files or name in self._members

    def shown(self, name: str) -> str:
        """The file as messages call it."""
        return str(self._files[name]) if name in self._files else f"{self.path}/{self._members.get(name, name)}"

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """The bytes of a file."""
        try:
            if name in self._files:
                with self._files[name].open("rb") as file:
                    yield file
            else:
                assert self.zip is not None
                with self.zip.open(self._members[name]) as file:
                    yield file
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:  # damage, or a password
            raise DataError(f"it cannot be read ({error})", file=self.shown(name)) from error
        except zipfile.zlib.error as error:  # type: ignore[attr-defined]
            raise DataError(f"it is damaged ({error})", file=self.shown(name)) from error

    def close(self) -> None:
        """Close the zip."""
        if self.zip is not None:
            self.zip.close()
