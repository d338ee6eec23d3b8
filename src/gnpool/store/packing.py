"""Decides which files of loose units go into a pack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnpool.store import tensors as blobs
from gnpool.store.encoding import encode, pack
from gnpool.store.keys import RECORD, TENSORS
from gnpool.store.units import RECORD_LIMIT, Found, Loose, describe

Drop = Callable[[dict[str, Any], str], bool]


@dataclass
class Packing:
    """The result of :meth:`Store.pack`.

    Args:
        path (pathlib.Path): The pack.
        units (int): How many units went into it.
        before (int): Bytes of their files.
        dropped (Counter): How many tensors were left out, by the first part of their names (``loss`` of
            ``loss/mix.weight``).

    Example:
        >>> import tempfile
        >>> from gnpool.store import Store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder)
        ...     for seed in range(3):
        ...         _ = store.put({"table": "t", "seed": seed}, scores=[1.0])
        ...     found = store.pack()
        ...     print(found.units, found.path.name, found.after > 0)
        3 1.zip True
    """

    path: Path
    units: int = 0
    before: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def after(self) -> int:
        """Bytes of the pack."""
        return self.path.stat().st_size if self.units else 0

    def __str__(self) -> str:
        if not self.units:
            return f"removed files whose units '{self.path.parent}' had in a pack"
        text = (
            f"packed {self.units:,} units into '{self.path}': {self.before / 1e6:.1f} MB, now {self.after / 1e6:.1f} MB"
        )
        dropped = ", ".join(f"{count:,} of {name}" for name, count in sorted(self.dropped.items()))
        return text + (f"; dropped tensors: {dropped}" if dropped else "; nothing was dropped")

    def add(self, path: Path, name: str, found: Found, drop: Drop | None) -> list[tuple[str, bytes]]:
        """Count a loose unit, and return its members of the pack: its files, perhaps without some tensors."""
        loose = Loose(path)
        record = loose.read(RECORD, RECORD_LIMIT)
        about, tensors = found.fields["tensors"], found.tensors or {}
        self.units += 1
        self.before += len(record) + (about["bytes"] if about else 0)
        names = [one for one in sorted(tensors) if drop is not None and drop(found.fields["key"], one)]
        if not names:
            blob = loose.read(TENSORS, about["bytes"]) if about else None
        else:
            self.dropped.update(one.partition("/")[0] for one in names)
            kept = {one: value for one, value in tensors.items() if one not in names}
            blob = blobs.dump(kept) if kept else None
            record = _without(found.fields, names, None if blob is None else describe(name, blob))
        members = [(name + RECORD, record)]
        return members if blob is None else [*members, (name + TENSORS, blob)]


def _without(fields: dict[str, Any], names: list[str], tensors: dict[str, Any] | None) -> bytes:
    """The record of a unit without some tensors. It names them, and keeps the checksum of all tensors."""
    before = fields.get("dropped", {"names": [], "of": fields["tensors"]})
    dropped = {"names": sorted({*before["names"], *names}), "of": before["of"]}
    rest = {"meta": encode(fields["meta"], "meta"), "scores": encode(fields["scores"], "scores")}
    return pack({"schema": fields["schema"], "key": fields["key"], "tensors": tensors, "dropped": dropped, **rest})
