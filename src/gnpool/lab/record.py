"""The record: every number of the paper beside ours, how they compare, and where ours come from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gnpool.lab.paper import paper_tables
from gnpool.lab.registry import find_table, table_names
from gnpool.lab.results import within
from gnpool.lab.running.job import key_text
from gnpool.lab.stored import filled
from gnpool.lab.table import SEARCHES, AnyTable, Scope
from gnpool.store import Record, Store, keys

PRESET = "paper"
COMMITS = "commits.json"  # in a store's folder: by commit, those of its units that do not name a commit themselves
QUICK = "quick.json"  # in the same folder: the cost of the quick preset
SEEDED = re.compile(r", data seed (\d+)$")  # the data seed in a model's name, see Recipe.key
HELD = "machine"  # table name of units that say how long a machine was held
Key = Mapping[str, Any]


class ReadStore(Store):
    """A store that keeps what was read, for repeated reading."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, create=False)
        self._kept: dict[str, Record | None] = {}

    def get(self, key: Key) -> Record | None:
        """The stored record of a unit, or None."""
        name = key_text(key)
        if name not in self._kept:
            self._kept[name] = super().get(key)
        return self._kept[name]

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None


def record(folder: str | Path) -> dict[str, Any]:
    """Build the whole record from the folder of a store.

    Returns:
        dict: ``tables``: the paper's tables as in ``results.json``, each with its ``origin``; ``spread``: tables that
        were run on other data, by data seed; ``cost``: the time that all of it took.
    """
    store = ReadStore(folder)
    records = list(store.records())
    units = {key_text(one.key): one for one in records}
    commits = {unit: commit for commit, units in _told(store.root / COMMITS, {}).items() for unit in units}
    return {
        "tables": [
            {**found, "cells": [*map(_by_deviations, found["cells"])], "origin": origin(table, store, units, commits)}
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
    """The whole record on the data of a seed."""
    return Scope(PRESET, SEARCHES, data_seed=data_seed)


def published_results(store: Store, data_seed: int = 0) -> Iterator[tuple[AnyTable, dict[str, Any]]]:
    """Every table of the paper, run or not; for other data, only those whose data is generated."""
    for name in table_names():
        if name in paper_tables():
            table = find_table(name)
            if not data_seed or "data_seed" in table.options:
                yield table, table.results(whole(data_seed), store)


def data_seeds(records: Iterable[Record]) -> list[int]:
    """The seed of the data that models were trained on."""
    found = [SEEDED.search(str(record.key.get("data"))) for record in records if record.key["table"] == "training"]
    return sorted({int(match[1]) if match else 0 for match in found})


def origin(table: AnyTable, store: Store, units: Mapping[str, Record], commits: Mapping[str, str]) -> dict[str, Any]:
    """The command that makes a table, and the commits, machines, seconds and number of units behind it.

    ``units`` are those of the store by the text of their keys, and ``commits`` are of units that do not name their own.
    """
    names = dict.fromkeys(key_text(key) for key in table.keys(whole(), store))
    found = [units[name] for name in names if name in units]
    machines = [machine(one.meta) for one in found]
    return {
        "command": f"gnpool reproduce {table.id} --preset {PRESET} --out results/{PRESET}",
        "units": len(found),
        "of": len(names),
        "seconds": _seconds(found),
        "gpu_seconds": _seconds(one for one in found if str(one.meta.get("device")).startswith("cuda")),
        "commits": sorted({str(one.meta.get("commit") or commits.get(place(one.key), "")) for one in found} - {""}),
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
    """The cost of the record: seconds of its units by device, seconds that machines were held, and ``quick``'s cost."""
    units: dict[str, dict[str, float]] = {}
    held: list[float] = []
    for one in records:
        if one.key["table"] == HELD:
            held.append(float(one.scores["seconds"]))
        elif one.meta.get("device"):
            entry = units.setdefault(str(one.meta["device"]), {"units": 0, "seconds": 0.0})
            entry["units"] += 1
            entry["seconds"] += float(one.meta.get("seconds") or 0.0)
    return {
        "units": {name: {**entry, "seconds": round(entry["seconds"], 1)} for name, entry in sorted(units.items())},
        "held": {"count": len(held), "seconds": round(sum(held), 1)},
        "quick": _told(folder / QUICK, None),
    }


def _told(path: Path, otherwise: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else otherwise


def place(key: Key) -> str:
    """The path of a unit below the store's folder of units, without its suffix."""
    return str(keys.place(keys.canonical(key)))


def _by_deviations(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell with one more fact: if it is matched, whether the paper's deviations alone match it; otherwise, whether
    deviations would.
    """
    ours, paper, metric = cell["ours"], cell["paper"], cell["metric"]
    if ours is None or paper is None or metric == "COUNT":
        return cell
    if cell["verdict"] == "matched":
        return {**cell, "strict": within({**ours, "std": None}, paper, metric)}
    return {**cell, "excused": within(ours, paper, metric)}
