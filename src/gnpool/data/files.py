"""Reads the files of a folder, or of a zip without unpacking it. Files that end in ``.gz`` are decompressed."""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from gnpool.data.errors import DataError
from gnpool.data.limits import check_unpacked
from gnpool.store.regular import NotRegularError, open_regular

GZIP = b"\x1f\x8b"
PIECE = 1 << 20  # bytes unpacked at once


class Unpacked:
    """The content of a gzip file. A file that unpacks to absurdly much is refused on the way.

    Args:
        packed (IO[bytes]): The file.
        held (int): Its bytes.
        shown (str): The name of the file in messages.
    """

    def __init__(self, packed: IO[bytes], held: int, shown: str) -> None:
        self._file = gzip.GzipFile(fileobj=packed)
        self._held, self._shown = held, shown
        self._given = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, ``size`` of them or all."""
        pieces: list[bytes] = []
        missing = size
        while missing != 0 and (piece := self._piece(PIECE if missing < 0 else min(missing, PIECE))):
            pieces.append(piece)
            missing -= len(piece) if missing > 0 else 0
        return b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        try:
            piece = self._file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"the gzip file is damaged ({error})", file=self._shown) from error
        self._given += len(piece)
        check_unpacked(self._given, self._held, self._shown)
        return piece


def open_ordinary(path: str | Path) -> BinaryIO:
    """Open an ordinary file; anything else is an error of the data."""
    try:
        return open_regular(path)
    except NotRegularError as error:
        raise DataError(str(error.strerror), file=str(path)) from error


def read_maybe_packed(path: str | Path) -> bytes:
    """The bytes of an ordinary file, unpacked if it is a gzip file."""
    with open_ordinary(path) as file:
        held = os.fstat(file.fileno()).st_size
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        return Unpacked(file, held, str(path)).read() if packed else file.read()


def open_zip(path: Path) -> tuple[zipfile.ZipFile, BinaryIO]:
    """A zip that is an ordinary file, and its open file, which the caller must close."""
    file = open_ordinary(path)
    try:
        return zipfile.ZipFile(file), file
    except BaseException:
        file.close()
        raise


class Files:
    """Files by name, read only.

    Files of a zip are known by the last part of their paths: ``NAME/NAME_A.txt`` is ``NAME_A.txt``. A zip with paths
    that lead out of it, two files of the same name, or absurd sizes is refused before anything is read. Anything but an
    ordinary file, or a link to one, is refused when it is opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.zip: zipfile.ZipFile | None = None
        self._file: BinaryIO | None = None
        self._members: dict[str, str] = {}
        if path.is_dir():
            raw = path / "raw"  # where PyTorch Geometric keeps a TUDataset
            folders = [path, raw] if raw.is_dir() else [path]
            found = [file for folder in folders for file in sorted(folder.iterdir()) if not file.is_dir()]
            self._files = {file.name: file for file in found if file.exists()}
        else:
            self._files = {}
            self._open_zip()

    def _open_zip(self) -> None:
        try:
            self.zip, self._file = open_zip(self.path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise DataError(f"it is not a zip that can be read ({error})", file=str(self.path)) from error
        try:
            self._list_members(self.zip)
        except BaseException:
            self.close()
            raise

    def _list_members(self, packed: zipfile.ZipFile) -> None:
        claimed = 0
        for member in packed.infolist():
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
        check_unpacked(claimed, self.path.stat().st_size, str(self.path))

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted([*self._files, *self._members])

    def __contains__(self, name: str) -> bool:
        return name in self._files or name in self._members

    def shown(self, name: str) -> str:
        """The name of a file in messages."""
        return str(self._files[name]) if name in self._files else f"{self.path}/{self._members.get(name, name)}"

    def size(self, name: str) -> int:
        """The size of a file in bytes; in a zip, its packed size."""
        if name in self._files:
            return self._files[name].stat().st_size
        assert self.zip is not None
        return self.zip.getinfo(self._members[name]).compress_size

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes] | Unpacked]:
        """The bytes of a file, decompressed if its name ends in ``.gz``."""
        with ExitStack() as opened:
            try:
                if name in self._files:
                    file: IO[bytes] = opened.enter_context(open_ordinary(self._files[name]))
                else:
                    assert self.zip is not None
                    file = opened.enter_context(self.zip.open(self._members[name]))
                yield Unpacked(file, self.size(name), self.shown(name)) if name.endswith(".gz") else file
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:  # damage, or a password
                raise DataError(f"it cannot be read ({error})", file=self.shown(name)) from error
            except zlib.error as error:
                raise DataError(f"it is damaged ({error})", file=self.shown(name)) from error

    def close(self) -> None:
        """Close the zip."""
        if self.zip is not None:
            self.zip.close()
        if self._file is not None:
            self._file.close()
