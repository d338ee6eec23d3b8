"""Defines the tables on real graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gnpool.display.models import CRYSTAL
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.real.graphs import REAL, RealExam
from gnpool.lab.recipes.crystallized import crystallized
from gnpool.lab.recipes.models import FIXED, GRAPH_TASKS, graph_fixed, graph_gnp, graph_other
from gnpool.lab.recipes.table import Cell, Table
from gnpool.lab.results import meta_of, spread, verdict
from gnpool.lab.running.job import Bench, Job, Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Place, Scope
from gnpool.store import Store
from gnpool.tasks.real_graphs import statistics_of

OTHERS = {"SortPooling": "SortPool", "Set2Set": "Set2Set", "SAGPool": "SAGPool"}  # labels in real_baselines


@dataclass(frozen=True)
class Count(Job):
    """Count graphs, nodes and edges of a data set."""

    dataset: str

    @property
    def label(self) -> str:
        return f"{self.dataset}: statistics"

    @property
    def key(self) -> Key:
        return {"table": "real_stat", "dataset": self.dataset}

    def data(self, store: Store) -> set[str]:
        return {self.dataset} if self.key not in store else set()

    def work(self, bench: Bench) -> bool:
        return bench.record(self.key, lambda _: (statistics_of(self.dataset), {}, {})) is not None


@dataclass(frozen=True)
class StatisticsTable(AnyTable):
    """A table of the numbers of graphs, nodes and edges of data sets; it trains nothing."""

    family: ClassVar[str] = "statistics"
    cells: tuple[Place, ...]

    def data(self) -> list[str]:
        return list(dict.fromkeys(cell.row for cell in self.cells))

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> list[Count]:
        return [Count(dataset) for dataset in self.data()]

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        return (Count(cell.row).key for cell in self.cells)

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        return Estimate(cells_done=0 if store is None else sum(key in store for key in self.keys(scope, store)))

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        cells = []
        for cell in self.cells:
            record, entry = store.get(Count(cell.row).key), self.entry(cell, "COUNT", gnp=False)
            entry["verdict"] = "not run"
            if record is not None:
                value, paper = record.scores[cell.column], entry["paper"]
                entry["ours"] = spread([value])
                entry["verdict"] = "" if paper is None else "matched" if _rounds_to(value, paper["mean"]) else "worse"
            cells.append(entry)
        return self.shown(cells, meta=meta_of(None, 0.0, preset=scope.preset, notes="", seed=0, seeds=[0]))


def _rounds_to(value: float, published: float | None) -> bool:
    """Whether a number equals the published one to the printed digits."""
    digits = len(repr(published).partition(".")[2]) if isinstance(published, float) else 0
    return published is not None and round(value, digits) == published


@dataclass(frozen=True)
class BaselinesTable(Table):
    """All baselines, preceded by those that the paper shows: the best by test error."""

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        found = super().results(scope, store)
        found["cells"] = with_best(found["cells"], paper_cells(self.id))
        theirs = combination_of(self.id)
        for cell in found["cells"]:
            if (cell["row"], cell["column"]) in theirs:
                cell["paper_combination"] = theirs[cell["row"], cell["column"]]
            cell["verdict"] = verdict(cell["ours"], cell["paper"], gnp=False)
        return found


CHOSEN = ("ours", "setting", "validation", "search", "form")  # facts of a cell about its models


def with_best(cells: Sequence[Mapping[str, Any]], paper: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """The rows of real_baselines that the paper shows: for each, the baseline with the lowest test error.

    They precede all others. ``cells`` have rows "task/model". "Best" is chosen among all baselines of a task. For
    maxdegree the ideal combination is sum, max, and the second best is chosen among the other combinations of a fixed
    aggregation and a fixed readout. There is no best until all of them have run.
    """
    shown: list[dict[str, Any]] = []
    for row in dict.fromkeys(row for row, _ in paper):
        task = row.split(" ")[0]
        for column in REAL:
            mine = [c for c in cells if c["column"] == column and c["row"].split("/")[0] == task]
            if "ideal" in row:
                mine = [c for c in mine if c["row"].endswith("/sum,max")]
            elif "2nd" in row:
                mine = [c for c in mine if "," in c["row"] and not c["row"].endswith("/sum,max")]
            done = [c for c in mine if c["ours"] and c["ours"]["mean"] is not None]
            complete = all(c["ours"] for c in mine)
            best = min(done, key=lambda c: float(c["ours"]["mean"]), default=None) if complete else None
            entry: dict[str, Any] = {"row": row, "column": column, "ours": None, "metric": "MAPE", "gnp": False}
            entry["paper"] = paper.get((row, column))
            if best is not None:
                entry |= {name: best[name] for name in CHOSEN if name in best}
                entry["combination"] = best["row"].split("/", 1)[1]
            shown.append(entry)
    return [*shown, *map(dict, cells)]


def combination_of(table: str) -> Mapping[tuple[str, str], str]:
    """The model that the paper names beside a cell, by row and column."""
    published = paper_tables()[table]
    return {
        (row["label"], column): cell["combination"]
        for row in published["rows"]
        for column, cell in zip(published["columns"], row["cells"], strict=True)
        if "combination" in cell
    }


def _real_extrapolate() -> Iterator[Cell]:
    for task in GRAPH_TASKS:
        for name in REAL:
            yield Cell(task, name, graph_gnp(task), RealExam(real=name))
    for task in GRAPH_TASKS:
        for name in REAL:
            yield Cell(f"{task}/{CRYSTAL}", name, crystallized(graph_gnp(task)), RealExam(real=name))


def _real_baselines() -> Iterator[Cell]:
    for task in GRAPH_TASKS:
        models = {f"{a},{r}": graph_fixed(task, a, r) for a in FIXED for r in FIXED}
        models |= {label: graph_other(task, model) for label, model in OTHERS.items()}
        for label, recipe in models.items():
            for name in REAL:
                yield Cell(f"{task}/{label}", name, recipe, RealExam(real=name))


_COLUMNS = paper_tables()["real_stat"]["columns"]
TABLES: dict[str, AnyTable] = {
    "real_stat": StatisticsTable.of_paper("real_stat", (Place(name, column) for name in REAL for column in _COLUMNS)),
    "real_extrapolate": Table.of_paper("real_extrapolate", _real_extrapolate()),
    "real_baselines": BaselinesTable.of_paper("real_baselines", _real_baselines()),
}
