"""Kinds of tables know nothing about one another, and a new kind needs no change outside its folder."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from gnpool.lab import AnyTable, Estimate, Scope, find_table, register_table, registry, reproduce
from gnpool.lab.paper import paper_tables
from gnpool.lab.plan import plan
from gnpool.lab.results import spread
from gnpool.lab.running.job import Bench, Job, Key
from gnpool.lab.stored import stored_tables
from gnpool.lab.table import Machine
from gnpool.store import Store
from tests.lab.shared import ENVIRONMENT
from tests.test_rooms import SOURCE, imported

KINDS = list(registry.kinds())
LOADED = "import sys; print(*sorted(name for name in sys.modules if name.startswith('gnpool.lab.')))"


# What knows nothing of the lab is imported once; a fork of that imports one part of the lab.
FORKS = f"""
import os, sys, torch_geometric.nn, gnpool.influence, gnpool.tasks.arena
assert not any(name.startswith("gnpool.lab") for name in sys.modules)
for code in sys.argv[1:]:
    if (child := os.fork()) == 0:
        exec(code)
        {LOADED.removeprefix("import sys; ")}
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def kinds_in(line: str) -> set[str]:
    """The kinds that have a module in a line."""
    return {kind for kind in KINDS if any(f"{name}.".startswith(f"gnpool.lab.{kind}.") for name in line.split())}


def loaded(code: str, *arguments: str) -> list[set[str]]:
    """The kinds of tables that a fresh interpreter has imported, for each line that it prints at its end."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True, timeout=180)
    return [kinds_in(line) for line in done.stdout.splitlines()]


def test_a_kind_is_imported_alone_and_by_the_lab_itself_none() -> None:
    lab = "import gnpool.lab.registry, gnpool.lab.reproduction, gnpool.lab.plan, gnpool.lab.record, gnpool.lab.stored"
    codes = [f"from gnpool.lab.{kind} import TABLES; assert TABLES" for kind in KINDS]
    assert loaded(FORKS, lab, *codes) == [set(), *({kind} for kind in KINDS)]


def test_a_smoke_run_imports_its_own_kind_alone(tmp_path: Path) -> None:
    code = "import sys; from gnpool.cli.app import app; app(sys.argv[1:], standalone_mode=False)"
    options = ("--preset", "smoke", "--jobs", "1", "--out", str(tmp_path))
    assert loaded(f"{code}\n{LOADED}", "reproduce", "exp_graph_harmonic", *options)[-1] == {"synthetic"}
    assert (tmp_path / "results.json").exists()


@functools.cache
def imports() -> set[tuple[str, str]]:
    """Every file of the package with every module that it imports."""
    files = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")]
    text = {path: (SOURCE / path).read_text(encoding="utf-8") for path in files}
    return {(path.as_posix(), target) for path in files for _, target in imported(text[path], path)}


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_outside_its_folder_names_a_kind(kind: str) -> None:
    """Nothing imports a kind, not even inside a function, except for ``gnpool.lab.TABLES`` of the generated data."""
    naming = {path for path, target in imports() if f"{target}.".startswith(f"gnpool.lab.{kind}.")}
    outside = {path for path in naming if not path.startswith(f"lab/{kind}/")}
    assert outside == ({"lab/__init__.py"} if kind == "synthetic" else set())


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_of_a_kind_is_that_of_its_tables(kind: str) -> None:
    tables = registry.tables_of(kind)
    assert registry.kinds()[kind] == tuple(tables) == tuple(table.id for table in tables.values())
    assert all(isinstance(table, AnyTable) for table in tables.values())


def test_every_table_of_the_paper_is_of_some_kind() -> None:
    assert set(paper_tables()) <= set(registry.table_names())


@dataclass(frozen=True)
class Throw(Job):
    """A job of the kind that this file defines."""

    die: str
    seed: int

    @property
    def label(self) -> str:
        return self.die

    @property
    def key(self) -> Key:
        return {"table": "throws", "die": self.die, "seed": self.seed}

    def work(self, bench: Bench) -> bool:
        value = int(torch.randint(1, 7, (), generator=torch.Generator().manual_seed(self.seed)))
        return bench.record(self.key, lambda _: ({"value": value}, {}, {"preset": "smoke"})) is not None


@dataclass(frozen=True)
class Place:
    row: str
    column: str


@dataclass(frozen=True)
class Dice(AnyTable):
    """A table of the kind that this file defines."""

    family: ClassVar[str] = "dice"
    id: str = "dice"
    title: str = "Dice"
    metric: str = "eyes"
    cells: tuple[Place, ...] = (Place("fair", "mean"), Place("also fair", "mean"))

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> list[Throw]:
        return [Throw(cell.row, seed) for cell in self.cells for seed in range(3)]

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        return (job.key for job in self.jobs(scope, store, torch.device("cpu")))

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        return Estimate(runs=6, minutes=0.1, minutes_left=0.1 if store is None else 0.0)

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        found = {name: [store.get(Throw(name, seed).key) for seed in range(3)] for name in ("fair", "also fair")}
        cells = [
            {"row": row, "column": "mean", "ours": spread([r.scores["value"] for r in records if r]), "paper": None}
            for row, records in found.items()
        ]
        filled = [{**cell, "ours": cell["ours"] if cell["ours"]["runs"] else None} for cell in cells]
        return {"table": self.id, "title": self.title, "metric": self.metric, "cells": filled, "meta": {}}


def test_a_kind_of_ones_own_runs_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_OWN", {})
    register_table(Dice())
    assert plan(["dice", "demo"], tmp_path / "new", preset="smoke", device="cpu").tables["dice"].runs == 6
    (dice, _) = reproduce(["dice", "real_stat"], _with_statistics(tmp_path), preset="smoke", jobs=2)["tables"]
    assert [len(cell["ours"]["runs"]) for cell in dice["cells"]] == [3, 3]
    assert dice["cells"][0]["ours"] == dice["cells"][1]["ours"]
    assert {table["table"] for table in stored_tables(tmp_path)} == {"dice", "real_stat"}
    assert len(json.loads((tmp_path / "results.json").read_text())["tables"]) == 2
    with pytest.raises(ValueError, match="the numbers of table 'dice' come from no model that can be read"):
        find_table("dice").model_cell("fair", None)


def _with_statistics(folder: Path) -> Path:
    """A store that has the statistics of the real data sets already, so that none is fetched."""
    for cell in find_table("real_stat").cells:
        scores = {"number_of_graphs": 1.0, "average_nodes": 2.0, "average_edges": 3.0}
        Store(folder).put({"table": "real_stat", "dataset": cell.row}, scores=scores)
    return folder
