"""Defines the tables of graph classification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gnpool.lab.classification.cost import classification_estimate
from gnpool.lab.classification.jobs import StackJob, stack_jobs
from gnpool.lab.classification.methods import DATASETS, FAMILIES, GNP, ORIGINAL, RMSPROP, Amount, Trial, amount_of
from gnpool.lab.classification.results import classification_results
from gnpool.lab.paper import paper_tables
from gnpool.lab.running.job import Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Place, Scope
from gnpool.store import Store

METRIC = "test accuracy"


@dataclass(frozen=True)
class ClassificationCell(Place):
    """One number of a table, with its deviation."""

    trial: Trial


@dataclass(frozen=True)
class ClassificationTable(AnyTable):
    """A table of accuracies.

    Args:
        id (str): Name of the table.
        title (str): Title of the table.
        cells (tuple): The numbers of the table.
        pairs (tuple): Pairs of rows to compare: second minus first, run by run.
    """

    family: ClassVar[str] = "classification"
    options: ClassVar[frozenset[str]] = frozenset({"seeds", "folds"})

    cells: tuple[ClassificationCell, ...]
    pairs: tuple[tuple[str, str], ...]

    @property
    def trials(self) -> list[Trial]:
        """The trials to train, without repetition."""
        return list(dict.fromkeys(cell.trial for cell in self.cells))

    def wanted(self, amount: Amount) -> list[Trial]:
        """The trials on data sets of the amount."""
        return [trial for trial in self.trials if trial.dataset in amount.datasets]

    def data(self) -> list[str]:
        return list(dict.fromkeys(trial.dataset for trial in self.trials))

    def missing(self, scope: Scope, store: Store) -> set[str]:
        amount = amount_of(scope)
        trials = self.wanted(amount) if scope.train else []
        return {one.dataset for one in trials if any(one.key(amount, run) not in store for run in amount.runs)}

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[StackJob]:
        amount = amount_of(scope)
        return stack_jobs(self.wanted(amount), amount, store, device.type) if scope.train else ()

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        return classification_results(self, store, amount_of(scope))

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        amount = amount_of(scope)
        return (trial.key(amount, run) for trial in self.trials for run in amount.runs)

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        found = classification_estimate(self, amount_of(scope), store, machine)
        return found if scope.train else found.untrained()


def _cells(
    family: str, variants: tuple[str, ...], datasets: tuple[str, ...] = DATASETS
) -> Iterator[ClassificationCell]:
    for variant in variants:
        for dataset in datasets:
            trial = Trial(family, variant, dataset)
            yield ClassificationCell(trial.model, dataset, trial)


def _published(table: str, family: str) -> ClassificationTable:
    rows = (f"{family} {ORIGINAL}", f"{family} {GNP}")
    return ClassificationTable(
        table, paper_tables()[table]["title"], METRIC, tuple(_cells(family, (ORIGINAL, GNP))), (rows,)
    )


TABLES = {
    table.id: table
    for table in (
        _published("graphcl_a", "SAGPool"),
        _published("graphcl_b", "ASAPool"),
        ClassificationTable(
            "graphcl_optimizer",
            "Both readings of the optimiser of the GNP variants, on one data set",
            METRIC,
            tuple(cell for family in FAMILIES for cell in _cells(family, (GNP, RMSPROP), ("PROTEINS",))),
            tuple((f"{family} {GNP}", f"{family} {RMSPROP}") for family in FAMILIES),
        ),
    )
}
