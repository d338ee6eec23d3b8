"""What the lab asks of a table, of whatever kind it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import torch

from gnpool.data.tudataset import at_hand, tudataset
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.running.job import Job, Key
from gnpool.store import Store

SEARCHES = ("all", "point")  # ways to search a grid; "point" goes when the runs that were begun with it are done
T = TypeVar("T")


@dataclass(frozen=True)
class Scope:
    """How much of a table is done, and in what way.

    Args:
        preset (str): Name of the preset.
        searches (tuple): How settings are searched: work is done by the first; results are shown of the first by which
            the store has a model. (default: every setting with every seed)
        seeds (int, optional): How many, where a table leaves that open. (default: those of the preset)
        folds (int, optional): Of a cross-validation, how many. (default: those of the preset)
        datasets (tuple, optional): Cross-validate on these alone. (default: all)
        data_seed (int): Of generated data.
        train (bool): Whether to train what is missing.
        test (bool): Whether to test what is trained.
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
        """What a kind of table has for the preset."""
        if self.preset not in presets:
            raise ValueError(f"'preset' must be one of {', '.join(presets)}, got {self.preset!r}")
        return presets[self.preset]


@dataclass(frozen=True)
class Machine:
    """What a table is to be done on: the kind of device, and trainings side by side."""

    kind: str
    jobs: int = 1


@dataclass(frozen=True)
class Estimate:
    """What a table takes, and what of it is there already.

    Args:
        trainings (int): Models to train, each with its whole grid.
        runs (int): Networks to train.
        exams (int): Tests of trained models.
        done (int): Trainings that are stored.
        minutes (float): For all of it, if nothing were stored.
        minutes_left (float): For what is missing.
        cells_done (int): Cells of the table whose numbers are there, in both forms of the network where there are two.
    """

    trainings: int = 0
    runs: int = 0
    exams: int = 0
    done: int = 0
    minutes: float = 0.0
    minutes_left: float = 0.0
    cells_done: int = 0

    def untrained(self) -> Estimate:
        """The same without training, where nothing else is to be done."""
        return replace(self, trainings=0, runs=0, exams=0, done=0, minutes_left=0.0)


@dataclass(frozen=True)
class Place:
    """A cell of a table, by the names of its row and column."""

    row: str
    column: str


@dataclass(frozen=True)
class AnyTable(ABC):
    """A table or a figure of any kind. A kind of table is a subclass of it in a folder of its own."""

    family: ClassVar[str]  # tables of one family are run together: they may share jobs
    options: ClassVar[frozenset[str]] = frozenset()  # which of seeds, folds and data_seed mean something to it

    id: str
    title: str
    metric: str
    cells: tuple[Any, ...]

    def data(self) -> list[str]:
        """The data sets of real graphs that it needs."""
        return []

    def at_hand(self) -> bool:
        """Whether its data is here."""
        return all(map(at_hand, self.data()))

    def missing(self, scope: Scope, store: Store) -> set[str]:
        """The data sets that are needed for what the store does not have."""
        return set()

    def fetch(self, scope: Scope, store: Store) -> None:
        """Have the data ready that is still needed, so that an offline machine says so before anything is trained."""
        for name in sorted(self.missing(scope, store)):
            if not at_hand(name):
                tudataset(name)

    @abstractmethod
    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[Job]:
        """What has to be done for it."""

    @abstractmethod
    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        """The table as results.json holds it, from the scores of the store; what is missing has ``"ours": null``."""

    @abstractmethod
    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        """Every unit of the store that its numbers are computed from."""

    @abstractmethod
    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        """What it takes by itself."""

    def together(self, tables: Sequence[Any]) -> Sequence[AnyTable]:
        """Tables of its family as fewer ones, where they share what is trained."""
        return tables

    def megabytes(self, scope: Scope) -> list[float]:
        """The peak of each training on a CPU, where it was measured."""
        return []

    def model_cell(self, row: str, column: str | None) -> Any:
        """A cell whose number comes from models that the store holds; without a column the first of the row."""
        raise ValueError(f"the numbers of table {self.id!r} come from no model that can be read")

    def published(self, row: str, column: str) -> dict[str, float | None] | None:
        """The paper's number in a place, if it has one."""
        return paper_cells(self.id).get((row, column))

    def about(self, name: str) -> Any:
        """What the paper's own table says of itself."""
        return paper_tables().get(self.id, {}).get(name)

    def shown(
        self,
        cells: Sequence[Mapping[str, Any]],
        *,
        meta: Mapping[str, Any],
        rows_are: str | None = None,
        columns_are: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """The table as results.json holds it, with more between its head and ``meta``."""
        head = {"table": self.id, "title": self.title, "metric": self.metric}
        return {**head, "rows_are": rows_are, "columns_are": columns_are, "cells": cells, **more, "meta": meta}


def check_options(tables: Sequence[AnyTable], scope: Scope) -> None:
    """Refuse options that mean nothing to any of the tables."""
    known = frozenset[str]().union(*(table.options for table in tables))
    if any(getattr(scope, name) is not None and name not in known for name in ("seeds", "folds")):
        raise ValueError("'seeds' and 'folds' are for tables that are cross-validated, such as graphcl_a")
    given = [table.id for table in tables if "data_seed" not in table.options]
    if scope.data_seed and given:
        raise ValueError(f"'data_seed' is for tables on generated data, and the data of {given[0]} is given")
    if not scope.train and not scope.test:
        raise ValueError("without 'train' and 'test' there is nothing to do")
