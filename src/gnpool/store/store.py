"""The store, which keeps one record for each work unit."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gnpool.store import keys as naming
from gnpool.store import tensors as blobs
from gnpool.store.damage import Damage, set_aside
from gnpool.store.encoding import encode, pack, unpack
from gnpool.store.errors import Damaged, StoreError, StoreWarning, translated
from gnpool.store.files import make_folders, remove, remove_tree, write
from gnpool.store.keys import RECORD, TENSORS
from gnpool.store.locks import lock
from gnpool.store.packing import Drop, Packing
from gnpool.store.packs import Packs, write_pack
from gnpool.store.units import RECORD_LIMIT, SCHEMA, Found, Loose, Packed, describe, read_unit, same_results

Key = Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """The stored data of one unit.

    Args:
        key (dict): The unit's key.
        scores (Any): The raw scores as they were stored, with lists instead of tuples.
        meta (dict): Versions, device, seconds and the like.
        tensors (dict, optional): Curves and weights by name; None if they were not read.
        dropped (tuple of str): Names of tensors that were left out when the unit was packed. (default: none)

    Example:
        >>> import tempfile
        >>> import torch
        >>> from gnpool.store import Store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder)
        ...     _ = store.put({"table": "t", "seed": 0}, scores=[1.5], tensors={"loss/train": torch.tensor([3.0, 2.0])})
        ...     record = store.get({"table": "t", "seed": 0})
        >>> record.scores, record.part("loss/")
        ([1.5], {'train': tensor([3., 2.])})
    """

    key: dict[str, Any]
    scores: Any
    meta: dict[str, Any]
    tensors: dict[str, Tensor] | None
    dropped: tuple[str, ...] = ()

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with ``prefix``, by the rest of their names; an error if some were dropped."""
        if self.tensors is None:
            raise ValueError("the tensors of this record were not read")
        if any(name.startswith(prefix) for name in self.dropped):
            raise ValueError(
                f"the tensors '{prefix}...' of {dict(self.key)} were dropped when the store was packed; "
                f"compute the unit again in another folder to have them"
            )
        return {name.removeprefix(prefix): value for name, value in self.tensors.items() if name.startswith(prefix)}


class Store:
    r"""A folder that keeps scores, curves and weights of work units, in files that ordinary tools read.

    A unit is named by a key, a mapping with a string ``"table"`` and any other fields of JSON values. It is stored
    atomically, even if the process is killed. A stored unit never changes: if several processes write the same key, the
    first to finish wins. Files carry checksums. A damaged unit is reported and moved away when it is read, and counts
    as missing. Loading runs no code. ``docs/store.md`` describes the files.

    Args:
        root (str or pathlib.Path): The folder.
        create (bool, optional): Whether to create the folder. (default: ``True``)
        on_damage (Callable, optional): Called with a :class:`Damage` for each damaged unit that is found. (default:
            a :class:`StoreWarning`)

    Example:
        >>> import tempfile, torch
        >>> from gnpool.store import Store
        >>> folder = tempfile.TemporaryDirectory()
        >>> store = Store(folder.name)
        >>> todo = [{"table": "invsize", "cell": "GNP/er", "unit": unit} for unit in range(2)]
        >>> for key in store.missing(todo):
        ...     with store.claim(key) as mine:
        ...         if mine and key not in store:
        ...             store.put(key, scores=[{"seed": 0, "mape": 1.25}], tensors={"p": torch.tensor([1.5, 2.5])})
        True
        True
        >>> store.get(todo[1]).tensors["p"]
        tensor([1.5000, 2.5000])
        >>> [record.scores[0]["mape"] for record in store.records("invsize")]
        [1.25, 1.25]
        >>> store.missing(todo)
        []
        >>> folder.cleanup()
    """

    def __init__(
        self, root: str | Path, *, create: bool = True, on_damage: Callable[[Damage], None] | None = None
    ) -> None:
        self.root = Path(root).absolute()
        self.on_damage = on_damage
        with translated(self.root):
            if create:
                self.root.mkdir(parents=True, exist_ok=True)
            self._check_root()
        self._packs = Packs(self.root / "units")

    def put(
        self, key: Key, *, scores: Any, tensors: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> bool:
        """Store a unit, and remove its checkpoint. Returns whether it was new.

        A unit that is already stored does not change; if its scores or tensors differ from these, there is a
        :class:`StoreWarning`.

        Args:
            key (Mapping): The unit.
            scores (Any): Any JSON value; numbers may be NaN or infinite, floats come back exactly.
            tensors (Mapping, optional): Dense tensors or numpy arrays by name; they come back as tensors on the CPU.
            meta (Mapping, optional): JSON values by name.
        """
        path = self._path(key)
        blob = blobs.dump(tensors) if tensors else None
        fields = {
            "schema": SCHEMA,
            "key": encode(dict(sorted(key.items())), "key", finite=True),
            "tensors": None if blob is None else describe(path.stem, blob),
            "meta": encode(dict(meta or {}), "meta"),
            "scores": encode(scores, "scores"),
        }
        data = pack(fields)
        if len(data) > RECORD_LIMIT:
            raise ValueError(f"a record must take at most {RECORD_LIMIT:,} bytes, got {len(data):,}; use 'tensors'")
        with translated(path), self._locked(path, "write"):
            stored = self._read_or_set_aside(path, whole=True) or self._look_packed(path, whole=True)
            if not isinstance(stored, Found):
                make_folders(self.root, path.parent)
                _write_both(path, data, blob)
        remove_tree(self._checkpoint(path))
        if isinstance(stored, Damage):
            self.report_damage(stored)
        if isinstance(stored, Found) and not same_results(stored.fields, unpack(data)):
            warnings.warn(f"'{path}' holds other results of this unit; the first stay", StoreWarning, stacklevel=2)
        return not isinstance(stored, Found)

    def get(self, key: Key) -> Record | None:
        """The record of a unit, or None if it is missing or damaged."""
        return self._record(self._path(key), whole=True)

    def __contains__(self, key: Key) -> bool:
        return self._record(self._path(key), whole=False) is not None

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """The keys whose units must still be computed, in their order.

        Records are checked completely, and tensors only by their size; :meth:`verify` also reads the tensors.
        """
        found = []
        for key in keys:
            path = self._path(key)
            if self._record(path, whole=False) is None:
                found.append(key)
            elif self._checkpoint(path).exists():  # a process was killed just after it had stored the unit
                remove_tree(self._checkpoint(path))
        return found

    def keys(self, table: str | None = None) -> list[dict[str, Any]]:
        """Keys of all units, or of one table."""
        return [record.key for record in self.records(table)]

    def records(self, table: str | None = None, *, tensors: bool = False) -> Iterator[Record]:
        """All units, or those of one table, in the order of their paths.

        Args:
            table (str, optional): The ``"table"`` of the keys.
            tensors (bool, optional): Whether to read tensors, too. (default: ``False``)
        """
        for path in self._paths(table):
            record = self._record(path, whole=tensors)
            if record is not None and table in (None, record.key["table"]):
                yield record

    def verify(self, table: str | None = None) -> list[Damage]:
        """Read every file, move damaged units away, and return them."""
        looked = (self._look(path, whole=True) for path in self._paths(table))
        return [found for found in looked if isinstance(found, Damage)]

    @contextmanager
    def claim(self, key: Key) -> Iterator[bool]:
        """Claim a unit for this process inside the block. The value is False if another process works on it.

        The claim of a process that dies is free at once. Check ``key not in store`` inside the block, since another
        process may have finished the unit before the claim.
        """
        path = self._path(key)
        with ExitStack() as stack:
            with translated(path):  # this must not translate errors of the block
                mine = stack.enter_context(self._locked(path, "claim", wait=False))
            yield mine

    def checkpoint(self, key: Key) -> Path:
        """A folder for the state from which an unfinished unit resumes; :meth:`put` of the unit removes it."""
        folder = self._checkpoint(self._path(key))
        with translated(folder):
            make_folders(self.root, folder)
        return folder

    def pack(self, table: str | None = None, *, drop: Drop | None = None) -> Packing | None:
        """Move loose units into a new pack, a zip file in ``units/`` whose units are read like loose ones.

        Other processes may keep reading and writing; the units that they write are loose. Returns the result, or None
        if no unit was loose.

        Args:
            table (str, optional): Only units of this table. (default: all)
            drop (Callable, optional): Called with the key of a unit and the name of a tensor, says whether to leave
                that tensor out. Scores are always kept. (default: nothing is left out)
        """
        units = self.root / "units"
        with translated(units), self._locked(units, "pack"):
            done, moved = Packing(self._packs.free_path()), list[Path]()
            files = self._to_pack(table, drop, done, moved)
            first = next(files, None)
            if first is not None:
                made = write_pack(done.path, itertools.chain([first], files))
                for name in (record.removesuffix(RECORD) for record in made.records()):  # before any is removed
                    read_unit(Packed(made, name), name, whole=True)
            for path in moved:
                with self._locked(path, "write"):
                    path.unlink(missing_ok=True)  # the record first, since a unit without a record does not exist
                    path.with_suffix(TENSORS).unlink(missing_ok=True)
            self._remove_rests()
        return done if moved else None

    def publish(self, name: str, text: str) -> Path:
        """Write a file that was made from the store, such as a summary, into its folder. The last writer wins."""
        path = self.root / name
        with translated(path), self._locked(path, "publish"):
            write(path, text.encode())
        return path

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({str(self.root)!r})"

    def _path(self, key: Key) -> Path:
        return self.root / "units" / f"{naming.place(naming.canonical(key))}{RECORD}"

    def _checkpoint(self, path: Path) -> Path:
        return self.root / "checkpoints" / path.stem

    def _name(self, path: Path) -> str:
        """The name in packs of the unit of a record, without suffix."""
        name = str(path).removeprefix(f"{self.root}{os.sep}units{os.sep}").removesuffix(RECORD)
        return name if os.sep == "/" else name.replace(os.sep, "/")

    def _paths(self, table: str | None) -> list[Path]:
        """The records that may belong to the table, sorted."""
        self._check_root()
        units = self.root / "units"
        with translated(units):
            found = set(self._loose(table))
            for made in self._packs:
                found |= {units / name for name in made.records(None if table is None else naming.label(table))}
        return sorted(found)

    def _loose(self, table: str | None) -> Iterator[Path]:
        """Loose records, and anything else with such a name, except folders of units."""
        top = self.root / "units"
        if table is not None:
            top /= naming.label(table)
        if top.exists():
            for folder, _, names in os.walk(top, onerror=_raise):
                yield from (Path(folder, name) for name in names if naming.RECORD_NAME.fullmatch(name))

    def _to_pack(
        self, table: str | None, drop: Drop | None, done: Packing, moved: list[Path]
    ) -> Iterator[tuple[str, bytes]]:
        """The members of a pack of all loose units; ``moved`` collects these units and loose copies of packed ones."""
        for path in sorted(self._loose(table)):
            found = self._look_loose(path, whole=True)
            if isinstance(found, Damage):
                self.report_damage(found)
            if not isinstance(found, Found) or table not in (None, found.fields["key"]["table"]):
                continue
            packed = self._look_packed(path, whole=True)
            moved.append(path)
            if not isinstance(packed, Found) or not same_results(packed.fields, found.fields):
                yield from done.add(path, self._name(path), found, drop)

    def _remove_rests(self) -> None:
        """Remove loose tensors of packed units, which stay if packing is killed after it has removed the record."""
        for made in self._packs:
            for path in (self.root / "units" / name for name in made.records()):
                rest = path.with_suffix(TENSORS)
                if rest.exists():
                    with self._locked(path, "write"):
                        if not path.exists():
                            rest.unlink(missing_ok=True)

    def _check_root(self) -> None:
        if not self.root.is_dir():
            problem = "is a file, but must be a folder" if self.root.exists() else "does not exist, or was removed"
            raise StoreError(self.root, f"the folder of the store {problem}; choose another")

    def _locked(self, path: Path, purpose: str, *, wait: bool = True) -> AbstractContextManager[bool]:
        folder = self.root / "locks"
        make_folders(self.root, folder)
        return lock(folder / f"{path.stem}.{purpose}", wait=wait)

    def _record(self, path: Path, *, whole: bool) -> Record | None:
        found = self._look(path, whole=whole)
        if isinstance(found, Damage):
            self.report_damage(found)
        if not isinstance(found, Found):
            return None
        fields = found.fields
        dropped = tuple(fields["dropped"]["names"]) if "dropped" in fields else ()
        return Record(fields["key"], fields["scores"], fields["meta"], found.tensors, dropped)

    def _look(self, path: Path, *, whole: bool) -> Found | Damage | None:
        with translated(path):
            return self._look_loose(path, whole=whole) or self._look_packed(path, whole=whole)

    def _look_loose(self, path: Path, *, whole: bool) -> Found | Damage | None:
        try:
            return self._read(path, whole=whole)
        except Damaged as damaged:
            reason = str(damaged)
        try:
            with self._locked(path, "write"):  # another process may be replacing it at this moment
                return self._read_or_set_aside(path, whole=whole)
        except OSError:  # the store is read-only
            return Damage(path, reason, None)

    def _read_or_set_aside(self, path: Path, *, whole: bool) -> Found | Damage | None:
        """Read a record whose lock is held."""
        try:
            return self._read(path, whole=whole)
        except Damaged as damaged:
            return set_aside(self.root, path, str(damaged))

    def _read(self, path: Path, *, whole: bool) -> Found | None:
        try:
            return read_unit(Loose(path), self._name(path), whole=whole)
        except FileNotFoundError:
            self._check_root()
            return None

    def _look_packed(self, path: Path, *, whole: bool) -> Found | Damage | None:
        """A unit from the packs. Packs never change, so a damaged unit stays where it is."""
        damage, name = None, self._name(path)
        for made in self._packs:
            if name + RECORD in made.members:
                files = Packed(made, name)
                try:
                    return read_unit(files, name, whole=whole)
                except Damaged as damaged:
                    damage = damage or Damage(files.path, str(damaged), None)
        return damage

    def report_damage(self, damage: Damage) -> None:
        """Tell ``on_damage`` of a damaged unit, or warn of it."""
        if self.on_damage is not None:
            self.on_damage(damage)
        else:
            warnings.warn(str(damage), StoreWarning, stacklevel=4)


def _write_both(path: Path, data: bytes, blob: bytes | None) -> None:
    """Write tensors, then the record, with which the unit exists; after a failure nothing is left."""
    file = path.with_suffix(TENSORS)
    try:
        if blob is None:
            file.unlink(missing_ok=True)  # a killed writer has left it
        else:
            write(file, blob)
        write(path, data)
    except BaseException:
        remove(path)
        remove(file)
        raise


def _raise(error: OSError) -> None:
    raise error
