"""The record: every number of the paper, ours beside it, how they compare, and where ours comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gnpool.lab.paper import paper_tables
from gnpool.lab.registry import find_table, table_names
from gnpool.lab.results import within
from gnpool.lab.stored import filled
from gnpool.lab.table import SEARCHES, AnyTable, Scope
from gnpool.store import Record, Store, keys

PRESET = "paper"
COMMITS = "commits.json"  # in the folder of a store: by commit, the units it brought that do not tell it themselves
QUICK = "quick.json"  # beside it: what the quick preset took
SEEDED = re.compile(r", data seed (\d+)$")  # how a key tells it, see Recipe.key
HELD = "machine"  # units of the store that tell how long the machine was held
Key = Mapping[str, Any]


class ReadStore(Store):
    """A store to be read more than once: what was read is kept."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, create=False)
        self._kept: dict[str, Record | None] = {}

    def get(self, key: Key) -> Record | None:
        """Everything stored of a unit, or None."""
        name = key_name(key)
        if name not in self._kept:
            self._kept[name] = super().get(key)
        return self._kept[name]

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None


def record(folder: str | Path) -> dict[str, Any]:
    """All of it, from the folder of a store.

    Returns:
        dict: ``tables``: those of the paper as ``results.json`` has them, each with its ``origin``; ``spread``: tables
        that were run on other data, by its seed; ``cost``: what all of it took.
    """
    store = ReadStore(folder)
    records = list(store.records())
    named = Origins(store, records)
    return {
        "tables": [
            {**found, "cells": [*map(_by_deviations, found["cells"])], "origin": named.origin(table)}
            for table, found in published_results(store)
        ],
        "spread": {
            seed: [found for _, found in published_results(store, seed) if filled(found)]
            for seed in data_seeds(records)
            if seed
        },
        "cost": cost(records, Path(folder)),
    }


def whole(data_seed: int = 0) -> Scope:
    """All of the record, on the data of a seed."""
    return Scope(PRESET, SEARCHES, data_seed=data_seed)


def published_results(store: Store, data_seed: int = 0) -> Iterator[tuple[AnyTable, dict[str, Any]]]:
    """Every table that is the paper's, whether anything of it was run or not; on other data those that can be."""
    for name in table_names():
        if name in paper_tables():
            table = find_table(name)
            if not data_seed or "data_seed" in table.options:
                yield table, table.results(whole(data_seed), store)


def data_seeds(records: Iterable[Record]) -> list[int]:
    """Of the data that models were trained on."""
    found = [SEEDED.search(str(record.key.get("data"))) for record in records if record.key["table"] == "training"]
    return sorted({int(match[1]) if match else 0 for match in found})


class Origins:
    """Tells where the numbers of a table come from.

    Args:
        store (Store): Of the numbers.
        records (Sequence): All its units.
    """

    def __init__(self, store: Store, records: Sequence[Record]) -> None:
        self._store = store
        self._records = {key_name(record.key): record for record in records}
        path = store.root / COMMITS
        brought = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self._commits = {unit: commit for commit, units in brought.items() for unit in units}

    def origin(self, table: AnyTable) -> dict[str, Any]:
        """The command that makes a table, and the commits, machines, seconds and number of the units behind it."""
        names = dict.fromkeys(key_name(key) for key in table.keys(whole(), self._store))
        found = {name: self._records[name] for name in names if name in self._records}
        commits = {str(one.meta.get("commit") or self._commits.get(place(one.key), "")) for one in found.values()}
        machines = [machine(one.meta) for one in found.values()]
        return {
            "command": f"gnpool reproduce {table.id} --preset {PRESET} --out results/{PRESET}",
            "units": len(found),
            "of": len(names),
            "seconds": _seconds(found.values()),
            "gpu_seconds": _seconds(one for one in found.values() if str(one.meta.get("device")).startswith("cuda")),
            "commits": sorted(commits - {""}),
            "machines": sorted({words: machines.count(words) for words in machines if words}.items()),
        }


def _seconds(units: Iterable[Record]) -> float:
    return round(sum(float(one.meta.get("seconds") or 0.0) for one in units), 1)


def machine(meta: Mapping[str, Any]) -> str:
    """Device and versions, in words."""
    versions = {"Python": meta.get("python"), **(meta.get("versions") or {})}
    words = [str(meta.get("device") or ""), *(f"{name} {value}" for name, value in versions.items() if value)]
    return ", ".join(words) if words[0] else ""


def cost(records: Iterable[Record], folder: Path) -> dict[str, Any]:
    """What the record took: seconds of its units by kind of device, of a machine's while it was held, of ``quick``."""
    units: dict[str, dict[str, float]] = {}
    held: list[float] = []
    for one in records:
        if one.key["table"] == HELD:
            held.append(float(one.scores["seconds"]))
        elif one.meta.get("device"):
            entry = units.setdefault(str(one.meta["device"]), {"units": 0, "seconds": 0.0})
            entry["units"] += 1
            entry["seconds"] += float(one.meta.get("seconds") or 0.0)
    quick = folder / QUICK
    return {
        "units": {name: {**entry, "seconds": round(entry["seconds"], 1)} for name, entry in sorted(units.items())},
        "held": {"count": len(held), "seconds": round(sum(held), 1)},
        "quick": json.loads(quick.read_text(encoding="utf-8")) if quick.is_file() else None,
    }


def key_name(key: Key) -> str:
    """A key as text."""
    return json.dumps(key, sort_keys=True)


def place(key: Key) -> str:
    """Where a unit lies in the store, below its folder of units and without its suffix."""
    return str(keys.place(keys.canonical(key)))


def _by_deviations(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell that says whether deviations alone would match it or, if it is matched, whether the paper's own do."""
    ours, paper, metric = cell["ours"], cell["paper"], cell["metric"]
    if ours is None or paper is None or metric == "COUNT":
        return cell
    if cell["verdict"] == "matched":
        return {**cell, "strict": within({**ours, "std": None}, paper, metric)}
    return {**cell, "excused": within(ours, paper, metric)}
