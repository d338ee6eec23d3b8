"""All tables by name: those on generated data, and those that need data sets of real graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from gnpool.data.tudataset import at_hand, tudataset
from gnpool.lab.classify import CLASSIFICATION_TABLES, Amount, ClassificationTable, get_amount
from gnpool.lab.classify_cost import classification_estimate
from gnpool.lab.cost import Estimate, estimates
from gnpool.lab.crystallised import crystallised
from gnpool.lab.forms import candidates
from gnpool.lab.influence import INFLUENCE_TABLES, InfluenceAmount, InfluenceTable, graphs_zip, influence_amount
from gnpool.lab.influence_results import influence_estimate, require_graphs
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.presets import Preset
from gnpool.lab.real_graphs import REAL, statistics_of, with_best
from gnpool.lab.recipes import Exam
from gnpool.lab.results import table_results, verdict
from gnpool.lab.tables import (
    CRYSTAL,
    FIXED,
    GRAPH_TASKS,
    TABLES,
    Cell,
    Table,
    graph_fixed,
    graph_gnp,
    graph_other,
)
from gnpool.store import Store

OTHERS = {"SortPooling": "SortPool", "Set2Set": "Set2Set", "SAGPool": "SAGPool"}  # as this table writes them


@dataclass(frozen=True)
class StatisticsCell:
    """One number of the statistics."""

    row: str
    column: str


@dataclass(frozen=True)
class StatisticsTable:
    """Numbers of graphs, nodes and edges of data sets; nothing is trained."""

    id: str
    title: str
    metric: str
    cells: tuple[StatisticsCell, ...]
    curves: tuple[str, ...] = ()

    @staticmethod
    def key(dataset: str) -> dict[str, Any]:
        """The name of a data set's numbers in the store."""
        return {"table": "real_stat", "dataset": dataset}

    def run(self, store: Store) -> None:
        """Count what the store does not have."""
        for dataset in dict.fromkeys(cell.row for cell in self.cells):
            if self.key(dataset) not in store:
                store.put(self.key(dataset), scores=statistics_of(dataset))

    def results(self, store: Store, preset: str) -> dict[str, Any]:
        """The table as results.json holds it."""
        published, cells = paper_cells(self.id), []
        for cell in self.cells:
            record = store.get(self.key(cell.row))
            paper = published.get((cell.row, cell.column))
            entry: dict[str, Any] = {"row": cell.row, "column": cell.column, "ours": None, "paper": paper}
            entry |= {"metric": "COUNT", "gnp": False, "verdict": "not run"}
            if record is not None:
                value = record.scores[cell.column]
                entry["ours"] = {"mean": value, "std": None, "runs": [value], "median": value, "failed": 0}
                entry["verdict"] = "" if paper is None else "matched" if _rounds_to(value, paper["mean"]) else "worse"
            cells.append(entry)
        meta = {"preset": preset, "notes": "", "seed": 0, "seeds": [0], "seconds": 0.0}
        shown = {"table": self.id, "title": self.title, "metric": self.metric, "rows_are": None, "columns_are": None}
        return {**shown, "cells": cells, "meta": meta}


AnyTable: TypeAlias = Table | ClassificationTable | InfluenceTable | StatisticsTable


def _rounds_to(value: float, published: float | None) -> bool:
    """Whether a number is the published one, to the digits that were published."""
    digits = len(repr(published).partition(".")[2]) if isinstance(published, float) else 0
    return published is not None and round(value, digits) == published


def _real_stat() -> StatisticsTable:
    published = paper_tables()["real_stat"]
    cells = tuple(StatisticsCell(name, column) for name in REAL for column in published["columns"])
    return StatisticsTable("real_stat", published["title"], published["metric"], cells)


def _real_extrapolate() -> Iterator[Cell]:
    for task in GRAPH_TASKS:
        for name in REAL:
            yield Cell(task, name, graph_gnp(task), Exam(real=name))
    for task in GRAPH_TASKS:
        for name in REAL:
            yield Cell(f"{task}/{CRYSTAL}", name, crystallised(graph_gnp(task)), Exam(real=name))


def _real_baselines() -> Iterator[Cell]:
    for task in GRAPH_TASKS:
        models = {f"{a},{r}": graph_fixed(task, a, r) for a in FIXED for r in FIXED}
        models |= {label: graph_other(task, model) for label, model in OTHERS.items()}
        for label, recipe in models.items():
            for name in REAL:
                yield Cell(f"{task}/{label}", name, recipe, Exam(real=name))


def _published(table: str, cells: Iterator[Cell]) -> Table:
    return Table(table, paper_tables()[table]["title"], paper_tables()[table]["metric"], tuple(cells))


DATA_TABLES: dict[str, AnyTable] = {
    **CLASSIFICATION_TABLES,
    **INFLUENCE_TABLES,
    "real_stat": _real_stat(),
    "real_extrapolate": _published("real_extrapolate", _real_extrapolate()),
    "real_baselines": _published("real_baselines", _real_baselines()),
}


def all_tables() -> dict[str, AnyTable]:
    """Every table and figure by name."""
    return {**TABLES, **DATA_TABLES}


def at_hand_tables() -> list[str]:
    """Names of the tables that need no download, which ``all`` stands for: those of the paper and the demo."""
    there = [name for name, table in DATA_TABLES.items() if all(map(at_hand, data_of(table)))]
    there = [name for name in there if name not in INFLUENCE_TABLES or graphs_zip() is not None]
    return [*TABLES, *there]


def find_table(name: str) -> AnyTable:
    """The table or figure called ``name``."""
    known = all_tables()
    if name not in known:
        raise ValueError(f"there is no table {name!r}; known are {', '.join(known)}")
    return known[name]


def data_of(table: AnyTable) -> list[str]:
    """The data sets of real graphs that a table needs."""
    if isinstance(table, InfluenceTable):
        return []  # its graphs are no data sets of the collection: see require_graphs
    if isinstance(table, ClassificationTable):
        return list(dict.fromkeys(study.dataset for study in table.studies))
    if isinstance(table, StatisticsTable):
        return list(dict.fromkeys(cell.row for cell in table.cells))
    return list(dict.fromkeys(cell.exam.real for cell in table.cells if cell.exam.real is not None))


def check_options(
    tables: Sequence[AnyTable], *, seeds: int | None, folds: int | None, data_seed: int, train: bool, test: bool
) -> None:
    """Refuse options of :func:`~gnpool.lab.reproduce` that mean nothing to any of the tables."""
    classified = any(isinstance(table, ClassificationTable) for table in tables)
    spread = any(isinstance(table, InfluenceTable) for table in tables)
    if ((seeds is not None and not spread) or folds is not None) and not classified:
        raise ValueError("'seeds' and 'folds' are for tables that are cross-validated, such as graphcl_a")
    given = [table.id for table in tables if not isinstance(table, Table)]
    if data_seed and given:
        raise ValueError(f"'data_seed' is for tables on generated data, and the data of {given[0]} is given")
    if not train and not test:
        raise ValueError("without 'train' and 'test' there is nothing to do")


def fetch_data(
    tables: Sequence[AnyTable],
    store: Store,
    preset: Preset,
    amount: Amount,
    influence: InfluenceAmount,
    *,
    search: str,
    train: bool = True,
    test: bool = True,
) -> None:
    """Have the data ready that tables still need, so that an offline machine says so before anything is trained."""
    wanted: set[str] = set()
    for table in tables:
        if isinstance(table, InfluenceTable):
            if train:
                require_graphs(store, influence)
        elif isinstance(table, ClassificationTable):
            studies = [study for study in table.studies if study.dataset in amount.datasets and train]
            wanted |= {s.dataset for s in studies if any(s.key(amount, r) not in store for r in amount.runs)}
        elif isinstance(table, StatisticsTable):
            wanted |= {name for name in data_of(table) if table.key(name) not in store}
        elif test:
            keys = [
                (c.exam, c.exam.key(one.key(preset, search), preset, one.spec))
                for c in table.cells
                if c.exam.real is not None
                for one in candidates(c.recipe, preset)
                if train or one.base.key(preset, search) in store
            ]
            wanted |= {str(exam.real) for exam, key in keys if key not in store}
    for name in sorted(wanted):
        if not at_hand(name):
            tudataset(name)


def recipe_results(table: Table, store: Store, preset: Preset, *searches: str) -> dict[str, Any]:
    """:func:`table_results`, with the rows that are chosen among others in front."""
    found = table_results(table, store, preset, *searches)
    if table.id == "real_baselines":
        found["cells"] = with_best(found["cells"], paper_cells(table.id))
        theirs = combination_of(table.id)
        for cell in found["cells"]:
            if (cell["row"], cell["column"]) in theirs:
                cell["paper_combination"] = theirs[cell["row"], cell["column"]]
            cell["verdict"] = verdict(cell["ours"], cell["paper"], gnp=False)
    return found


def combination_of(table: str) -> Mapping[tuple[str, str], str]:
    """Which model the paper names beside a cell, by row and column."""
    published = paper_tables()[table]
    return {
        (row["label"], column): cell["combination"]
        for row in published["rows"]
        for column, cell in zip(published["columns"], row["cells"], strict=True)
        if "combination" in cell
    }


def table_estimates(
    tables: Sequence[AnyTable],
    preset: Preset,
    kind: str,
    *,
    store: Store | None = None,
    search: str = "all",
    jobs: int = 1,
    seeds: int | None = None,
    folds: int | None = None,
    datasets: Sequence[str] | None = None,
    train: bool = True,
    test: bool = True,
) -> dict[str, Estimate]:
    """What each table costs here by itself, of whatever kind it is; arguments as those of :func:`reproduce`."""
    trained = [table for table in tables if isinstance(table, Table)]
    found = estimates(trained, preset, kind, store=store, search=search, jobs=jobs, train=train, test=test)
    for table in tables:
        if isinstance(table, ClassificationTable):
            amount = get_amount(preset.name, seeds, folds, datasets)
            found[table.id] = classification_estimate(table, amount, kind, store, jobs)
        elif isinstance(table, InfluenceTable):
            found[table.id] = influence_estimate(table, influence_amount(preset.name, seeds), kind, store)
        elif isinstance(table, StatisticsTable):
            counted = 0 if store is None else sum(table.key(cell.row) in store for cell in table.cells)
            found[table.id] = Estimate(0, 0, 0, 0, 0.0, 0.0, counted)
        if not train and not isinstance(table, Table):  # then nothing is done for it
            found[table.id] = replace(found[table.id], trainings=0, runs=0, exams=0, done=0, minutes_left=0.0)
    return {table.id: found[table.id] for table in tables}
