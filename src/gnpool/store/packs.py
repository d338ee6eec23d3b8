"""Packs are zip files that hold the files of many units. They are read beside loose files.

A pack is written once and never changed. Its members have the names of the loose files below ``units/``, so that
``unzip`` restores them. The comment of the zip is the checksum of its list of members. The content of a member is
checked by the checksums of the record, like a loose file.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gnpool.store.errors import Damaged, StoreError
from gnpool.store.files import check_ordinary, replacing
from gnpool.store.keys import RECORD_NAME

PACK_NAME = re.compile(r"[1-9][0-9]{0,8}\.zip")
MARK = b"gnpool pack 1, sha256 "
COMMENT = len(MARK) + 64
# the header of a member: its magic number, and the lengths of the two fields that follow
LOCAL = struct.Struct("<4s22xHH")
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
RATIO, SPARE = 64, 1 << 20  # bounds on the unpacked size of a member, so that no small file needs gigabytes
WHEN = (1980, 1, 1, 0, 0, 0)  # the time of every member, so that equal units make equal packs


@dataclass(frozen=True)
class Member:
    """The position of a file in a pack."""

    offset: int
    packed: int
    size: int
    method: int


@dataclass(frozen=True)
class Pack:
    """One pack and the list of its members.

    Args:
        path (pathlib.Path): The zip file.
        members (dict): Their positions by name.
    """

    path: Path
    members: dict[str, Member]

    def records(self, folder: str | None = None) -> Iterator[str]:
        """Names of the records, or of those in one folder."""
        for name in self.members:
            if RECORD_NAME.fullmatch(name.rpartition("/")[2]) and folder in (None, name.partition("/")[0]):
                yield name

    def size(self, name: str) -> int:
        """Bytes of a member, unpacked; ``FileNotFoundError`` if there is none."""
        return self._member(name).size

    def read(self, name: str, limit: int) -> bytes:
        """The content of a member; :class:`Damaged` if it exceeds ``limit`` or differs from the list of members."""
        member = self._member(name)
        if member.size > min(limit, RATIO * member.packed + SPARE):
            raise Damaged(f"'{name}' would be unpacked to {member.size} bytes, which is more than expected")
        with self.path.open("rb") as file:
            file.seek(member.offset)
            head = file.read(LOCAL.size)
            if len(head) < LOCAL.size or not head.startswith(b"PK\x03\x04"):
                raise Damaged(f"'{name}' is not where the pack says")
            file.seek(sum(LOCAL.unpack(head)[1:]), os.SEEK_CUR)
            data = file.read(member.packed)
        return self._unpacked(name, member, data)

    def _unpacked(self, name: str, member: Member, data: bytes) -> bytes:
        if member.method == zipfile.ZIP_DEFLATED:
            try:
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, member.size + 1)
            except zlib.error as error:
                raise Damaged(f"'{name}' cannot be unpacked ({error})") from error
        if len(data) != member.size:
            raise Damaged(f"'{name}' is not as long as the pack says")
        return data

    def _member(self, name: str) -> Member:
        try:
            return self.members[name]
        except KeyError:
            raise FileNotFoundError(f"{self.path} has no {name}") from None


class Packs:
    """The packs of a store; new ones may appear while it is open.

    Args:
        folder (pathlib.Path): The folder ``units`` of the store.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[tuple[str, int, int, int], Pack] = {}

    def __reduce__(self) -> tuple[type[Packs], tuple[Path]]:
        return Packs, (self.folder,)  # without the lists of members, which can be read again

    def __iter__(self) -> Iterator[Pack]:
        """All packs, the newest first. If several have a unit, the newest is read."""
        found = {}
        for number, marks, path in sorted(self._files(), reverse=True):
            del number
            found[marks] = self._known.get(marks) or _read_list(path)
        self._known = found
        return iter(found.values())

    def free_path(self) -> Path:
        """The path for the next pack."""
        number = max((number for number, _, _ in self._files()), default=0) + 1
        return self.folder / f"{number}.zip"

    def _files(self) -> Iterator[tuple[int, tuple[str, int, int, int], Path]]:
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - asked for every unit that is not loose
        except FileNotFoundError:
            return
        for name in names:
            if name.endswith(".zip") and PACK_NAME.fullmatch(name):
                path = self.folder / name
                about = _ordinary(path)
                yield int(path.stem), (name, about.st_ino, about.st_size, about.st_mtime_ns), path


def write_pack(path: Path, files: Iterable[tuple[str, bytes]]) -> Pack:
    """Write a pack of these files atomically."""
    with replacing(path) as descriptor, os.fdopen(descriptor, "w+b", closefd=False) as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in files:
                archive.writestr(_info(name, data), data, compresslevel=9)
            archive.comment = bytes(COMMENT)
        file.seek(archive.start_dir)
        content = file.read()
        file.seek(-COMMENT, os.SEEK_END)
        file.write(_comment(content[:-COMMENT]))
    return _read_list(path)


def _info(name: str, data: bytes) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, WHEN)
    info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
    small = len(data) <= SPARE or len(data) <= RATIO * len(zlib.compress(data, 9))
    # a member that shrinks too much would be refused when it is read
    info.compress_type = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
    return info


def _comment(members: bytes) -> bytes:
    """The checksum of all bytes between the last member of a zip and its comment, which are the list of members."""
    return MARK + hashlib.sha256(members).hexdigest().encode()


def _ordinary(path: Path) -> os.stat_result:
    try:
        return check_ordinary(path)
    except Damaged as error:
        raise StoreError(path, f"a pack of units is expected there: {error}; move it away") from error


def _read_list(path: Path) -> Pack:
    """The members of a pack. A damaged list is an error, since all units of the pack would count as missing."""
    try:
        with path.open("rb") as file:
            return Pack(path, _members(file))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, Damaged) as error:
        raise StoreError(
            path, f"the pack is damaged ({error}); restore it from a copy, or move it away to compute its units again"
        ) from error


def _members(file: BinaryIO) -> dict[str, Member]:
    with zipfile.ZipFile(file) as archive:
        entries, begin, comment = archive.infolist(), archive.start_dir, archive.comment
    file.seek(begin)
    if comment != _comment(file.read()[:-COMMENT]):
        raise Damaged("its list of members does not fit its checksum")
    found = {
        one.filename: Member(one.header_offset, one.compress_size, one.file_size, one.compress_type) for one in entries
    }
    if any(one.method not in METHODS or one.offset < 0 for one in found.values()):
        raise Damaged("its list of members is none that a store writes")
    return found
