"""The files of one unit, loose or in a pack, and their checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from gnpool.store import tensors as blobs
from gnpool.store.encoding import unpack
from gnpool.store.errors import Damaged, StoreError
from gnpool.store.files import check_ordinary, read
from gnpool.store.keys import RECORD, TENSORS, canonical, place
from gnpool.store.packs import Pack

SCHEMA = 1
RECORD_LIMIT = 1 << 28  # bytes of the longest record


class Found(NamedTuple):
    """A checked record: its fields, and its tensors if they were read."""

    fields: dict[str, Any]
    tensors: dict[str, Tensor] | None


class Files(Protocol):
    """The two files of a unit, which differ in their suffixes; a missing one raises ``FileNotFoundError``."""

    @property
    def path(self) -> Path:
        """The path of the record, for messages."""

    def size(self, suffix: str) -> int:
        """Bytes of a file."""

    def read(self, suffix: str, limit: int) -> bytes:
        """Its content; more than ``limit`` bytes raise :class:`Damaged`."""


class Loose:
    """The files of a loose unit.

    Args:
        path (pathlib.Path): The record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stem = str(path).removesuffix(RECORD)

    def size(self, suffix: str) -> int:
        return check_ordinary(self._stem + suffix).st_size

    def read(self, suffix: str, limit: int) -> bytes:
        return read(self._stem + suffix, limit)


@dataclass(frozen=True)
class Packed:
    """The files of a unit in a pack."""

    pack: Pack
    name: str  # of the unit below units/, without suffix

    @property
    def path(self) -> Path:
        return self.pack.path / f"{self.name}{RECORD}"

    def size(self, suffix: str) -> int:
        return self.pack.size(self.name + suffix)

    def read(self, suffix: str, limit: int) -> bytes:
        return self.pack.read(self.name + suffix, limit)


def read_unit(files: Files, name: str, *, whole: bool) -> Found:
    """Read the unit at ``name``. :class:`Damaged` if a bit differs, ``FileNotFoundError`` if there is no record."""
    fields = unpack(files.read(RECORD, RECORD_LIMIT))
    _check_schema(files.path, fields)
    _check_fields(fields)
    if _place(fields["key"]) != name:
        raise Damaged(f"it is the record of another key, {fields['key']}")
    expected = fields["tensors"]
    if expected is None:
        return Found(fields, {} if whole else None)
    try:
        size = files.size(TENSORS)
        if size != expected["bytes"]:
            raise Damaged(f"'{expected['file']}' has {size} bytes, and had {expected['bytes']}")
        if not whole:
            return Found(fields, None)
        blob = files.read(TENSORS, size)
    except FileNotFoundError:
        raise Damaged(f"its tensors, '{expected['file']}', are missing") from None
    if describe(name, blob) != expected:
        raise Damaged(f"the content of '{expected['file']}' does not fit its checksum")
    return Found(fields, blobs.load(blob))


def describe(name: str, blob: bytes) -> dict[str, Any]:
    """The description of its tensors in a record."""
    file = f"{name.rpartition('/')[2]}{TENSORS}"
    return {"file": file, "bytes": len(blob), "sha256": hashlib.sha256(blob).hexdigest()}


def same_results(stored: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether two records have equal results, where NaN equals NaN."""
    return _results(stored) == _results(given)


def _results(fields: Mapping[str, Any]) -> str:
    whole = fields["dropped"]["of"] if "dropped" in fields else fields["tensors"]  # as before packing
    try:
        return json.dumps([fields["scores"], whole], sort_keys=True)
    except RecursionError:  # deeper than any value that `put` accepts
        return ""


def _check_schema(path: Path, fields: dict[str, Any]) -> None:
    schema = fields.get("schema")
    if type(schema) is not int:
        raise Damaged("it has no schema")
    if schema != SCHEMA:
        raise StoreError(
            path, f"it has schema {schema}, this version of gnpool reads {SCHEMA}; use the one that wrote it"
        )


def _check_fields(fields: dict[str, Any]) -> None:
    """Check the fields too, since a correct checksum does not tell who wrote the file."""
    tensors, dropped = fields.get("tensors", ""), fields.get("dropped")
    problems = {
        "key": not isinstance(fields.get("key"), dict),
        "tensors": tensors is not None and not _is_description(tensors),
        "meta": not isinstance(fields.get("meta"), dict),
        "scores": "scores" not in fields,
        "dropped": "dropped" in fields and not _is_dropped(dropped),
    }
    wrong = [name for name, problem in problems.items() if problem]
    if wrong:
        raise Damaged(f"its {wrong[0]} are not what a store writes")


def _is_description(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"file", "bytes", "sha256"}:
        return False
    return type(value["bytes"]) is int and isinstance(value["file"], str) and isinstance(value["sha256"], str)


def _is_dropped(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"names", "of"} or not _is_description(value["of"]):
        return False
    return isinstance(value["names"], list) and all(isinstance(name, str) for name in value["names"])


def _place(key: dict[str, Any]) -> str:
    try:
        return place(canonical(key))
    except (TypeError, ValueError, RecursionError) as error:
        raise Damaged(f"its key is not valid ({error})") from error
