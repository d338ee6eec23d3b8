"""The interface of a table, of any kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import torch

from gnpool.data.tudataset import at_hand, tudataset
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.running.job import Job, Key
from gnpool.store import Store

SEARCHES = ("all", "point")  # ways to search a grid; "point" will be deleted when the runs begun with it are done
PROGRAM = 560  # megabytes (2**20) of the program itself, with small data and two runs
T = TypeVar("T")


@dataclass(frozen=True)
class Scope:
    """How much of a table to do, and in what way.

    Args:
        preset (str): Name of the preset.
        searches (tuple): Ways to search the settings. Work uses the first; results use the first that is stored for the
            model. (default: every setting with every seed)
        seeds (int, optional): Number of seeds, if the table leaves it open. (default: the preset's)
        folds (int, optional): Number of folds of a cross-validation. (default: the preset's)
        datasets (tuple, optional): Data sets of cross-validations. (default: all)
        data_seed (int): Seed of generated data.
        train (bool): Whether to train what is missing.
        test (bool): Whether to test trained models.

    Example:
        >>> from gnpool.lab import Scope
        >>> Scope("smoke", data_seed=3).preset, Scope().train
        ('smoke', True)
    """

    preset: str = "quick"
    searches: tuple[str, ...] = SEARCHES[:1]
    seeds: int | None = None
    folds: int | None = None
    datasets: tuple[str, ...] | None = None
    data_seed: int = 0
    train: bool = True
    test: bool = True

    def __post_init__(self) -> None:
        unknown = [search for search in self.searches if search not in SEARCHES]
        if unknown:
            raise ValueError(f"'search' must be one of {', '.join(SEARCHES)}, got {unknown[0]!r}")

    def of(self, presets: Mapping[str, T]) -> T:
        """The value that a kind of table has for the preset."""
        if self.preset not in presets:
            raise ValueError(f"'preset' must be one of {', '.join(presets)}, got {self.preset!r}")
        return presets[self.preset]


@dataclass(frozen=True)
class Machine:
    """The machine to work on: the kind of device, and the number of trainings side by side."""

    kind: str
    jobs: int = 1


@dataclass(frozen=True)
class Estimate:
    """The work of a table, and how much of it is stored.

    Args:
        trainings (int): Models to train, each with its whole grid.
        runs (int): Networks to train.
        exams (int): Tests of trained models.
        done (int): Trainings that are stored.
        minutes (float): Time for everything, with an empty store.
        minutes_left (float): Time for what is missing.
        cells_done (int): Cells whose numbers are stored, in both forms of the network if there are two.

    Example:
        >>> from gnpool.lab import Estimate
        >>> estimate = Estimate(trainings=4, done=1, minutes=20.0, minutes_left=15.0)
        >>> f"{estimate.trainings - estimate.done} trainings, about {estimate.minutes_left:.0f} minutes"
        '3 trainings, about 15 minutes'
    """

    trainings: int = 0
    runs: int = 0
    exams: int = 0
    done: int = 0
    minutes: float = 0.0
    minutes_left: float = 0.0
    cells_done: int = 0

    def untrained(self) -> Estimate:
        """The estimate without training, if only stored models are to be tested."""
        return replace(self, trainings=0, runs=0, exams=0, done=0, minutes_left=0.0)


@dataclass(frozen=True)
class Place:
    """A cell of a table, by the names of its row and column."""

    row: str
    column: str


@dataclass(frozen=True)
class AnyTable(ABC):
    """A table or a figure of any kind. A kind of table is a subclass of this class in its own folder.

    Example:
        >>> from gnpool.lab import find_table
        >>> table = find_table("exp_graph_harmonic")
        >>> table.id, table.metric, table.data()
        ('exp_graph_harmonic', 'MAPE', [])
    """

    family: ClassVar[str]  # tables of one family run together, because they may share jobs
    options: ClassVar[frozenset[str]] = frozenset()  # which of seeds, folds and data_seed apply to the table

    id: str
    title: str
    metric: str
    cells: tuple[Any, ...]

    @classmethod
    def of_paper(cls, name: str, cells: Iterable[Any], *more: Any) -> Self:
        """A table of the paper, under its title and metric; ``more`` are the further fields of a kind."""
        published = paper_tables()[name]
        metric = published["metric"] if "row" not in published["metric"] else "MAPE, for shortest MAE"
        return cls(name, published["title"], metric, tuple(cells), *more)

    def data(self) -> list[str]:
        """The data sets of real graphs that the table needs."""
        return []

    def at_hand(self) -> bool:
        """Whether the data of the table is on this machine."""
        return all(map(at_hand, self.data()))

    def fetch(self, scope: Scope, store: Store) -> None:
        """Get the data that is still needed, so that an offline machine fails before any training."""
        jobs = self.jobs(scope, store, torch.device("cpu"))
        for name in sorted({name for job in jobs for name in job.data(store)}):
            if not at_hand(name):
                tudataset(name)

    @abstractmethod
    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[Job]:
        """The jobs that compute the table."""

    @abstractmethod
    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        """The table for results.json, from stored scores; what is missing has ``"ours": null``."""

    @abstractmethod
    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        """The keys of every stored unit that its numbers are computed from."""

    @abstractmethod
    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        """The cost of the table alone."""

    def together(self, tables: Sequence[Any]) -> Sequence[AnyTable]:
        """Tables of its family, merged if they share trained models."""
        return tables

    def megabytes(self, scope: Scope) -> list[float]:
        """The peak memory of each training on a CPU, if it was measured."""
        return []

    def model_cell(self, row: str, column: str | None) -> Any:
        """A cell whose number comes from stored models; without a column, the first cell of the row."""
        raise ValueError(f"the numbers of table {self.id!r} come from no model that can be read")

    def published(self, row: str, column: str) -> dict[str, float | None] | None:
        """The paper's number for a cell, if it has one."""
        return paper_cells(self.id).get((row, column))

    def about(self, name: str) -> Any:
        """What the paper says about its own table."""
        return paper_tables().get(self.id, {}).get(name)

    def entry(self, cell: Any, metric: str, gnp: bool) -> dict[str, Any]:
        """A cell for results.json, still without our number."""
        paper = self.published(cell.row, cell.column)
        return {"row": cell.row, "column": cell.column, "ours": None, "paper": paper, "metric": metric, "gnp": gnp}

    def shown(
        self,
        cells: Sequence[Mapping[str, Any]],
        *,
        meta: Mapping[str, Any],
        rows_are: str | None = None,
        columns_are: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """The table for results.json; ``more`` is inserted between its head and ``meta``."""
        head = {"table": self.id, "title": self.title, "metric": self.metric}
        return {**head, "rows_are": rows_are, "columns_are": columns_are, "cells": cells, **more, "meta": meta}
