"""The tables of graph classification: their work, and their numbers from the raw scores of the store."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gnpool.lab.classification.cost import run_seconds
from gnpool.lab.classification.jobs import StackJob, stack_jobs
from gnpool.lab.classification.methods import DATASETS, FAMILIES, GNP, ORIGINAL, RMSPROP, Amount, Trial, amount_of
from gnpool.lab.classification.results import paired, part, summary
from gnpool.lab.results import DATA_SEED, meta_of, verdict
from gnpool.lab.running.job import Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Scope
from gnpool.models.stacked.folds import SEEDS
from gnpool.store import Record, Store

METRIC = "ACCURACY"
HIDDEN = ("stack", "setting", "preset")


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

    cells: tuple[Trial, ...]
    pairs: tuple[tuple[str, str], ...]

    def wanted(self, amount: Amount) -> list[Trial]:
        """The trials on data sets of the amount."""
        return [trial for trial in self.cells if trial.dataset in amount.datasets]

    def data(self) -> list[str]:
        return list(dict.fromkeys(trial.dataset for trial in self.cells))

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[StackJob]:
        amount = amount_of(scope)
        return stack_jobs(self.wanted(amount), amount, store, device.type) if scope.train else ()

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        amount = amount_of(scope)
        return (trial.key(amount, run) for trial in self.cells for run in amount.runs)

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        amount = amount_of(scope)
        cells, found, every = [], {}, list[Record]()
        for cell in self.cells:
            records, entry = cell.records(store, amount), self.entry(cell, METRIC, cell.gnp)
            accuracies = {run: record.scores["accuracy"] for run, record in records.items()}
            found[cell.row, cell.column] = accuracies
            every += records.values()
            if records:
                entry["ours"] = summary(accuracies)
                entry["setting"] = cell.method(amount).setting.to_dict()
                entry["part"] = part(accuracies, amount)
                validation = [record.scores["val_accuracy"] for record in records.values()]
                entry["epochs"] = statistics.fmean(record.scores["epochs"] for record in records.values())
                entry["validation"] = statistics.fmean(filter(math.isfinite, validation))
            entry["verdict"] = verdict(entry["ours"], entry["paper"], metric=METRIC, gnp=entry["gnp"], higher=True)
            cells.append(entry)
        pairs = [
            {"first": first, "second": second, "column": column, **paired(found[first, column], found[second, column])}
            for first, second in self.pairs
            for column in dict.fromkeys(cell.column for cell in self.cells)
            if found.get((first, column)) and found.get((second, column))
        ]
        return self.shown(
            cells,
            pairs=pairs,
            meta=meta_of(
                every[0].meta if every else None,
                sum(record.meta["seconds"] for record in every),
                HIDDEN,
                preset=amount.preset,
                notes=amount.notes,
                seed=DATA_SEED,
                seeds=list(SEEDS[: amount.seeds]),
                folds=amount.folds,
            ),
        )

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        amount, kind = amount_of(scope), machine.kind
        runs, stored = len(amount.runs), {trial: trial.records(store, amount) for trial in self.wanted(amount)}
        cost = {trial: run_seconds(trial, amount, kind) for trial in stored}
        timed = [
            (record.meta["seconds"], cost[trial])
            for trial, records in stored.items()
            for record in records.values()
            if record.meta["device"].startswith(kind)
        ]
        ratio = sum(took for took, _ in timed) / sum(expected for _, expected in timed) if timed else 1.0
        factor = ratio / (60 * (machine.jobs if kind == "cpu" else 1))
        whole = [trial for trial, records in stored.items() if len(records) == runs]
        found = Estimate(
            trainings=len(stored),
            runs=runs * len(stored),
            done=len(whole),
            minutes=factor * sum(runs * seconds for seconds in cost.values()),
            minutes_left=factor * sum((runs - len(stored[trial])) * seconds for trial, seconds in cost.items()),
            cells_done=sum(cell in whole for cell in self.cells),
        )
        return found if scope.train else found.untrained()


def _cells(family: str, variants: tuple[str, ...], datasets: tuple[str, ...] = DATASETS) -> Iterator[Trial]:
    return (Trial(family, variant, dataset) for variant in variants for dataset in datasets)


def _published(table: str, family: str) -> ClassificationTable:
    rows = (f"{family} {ORIGINAL}", f"{family} {GNP}")
    return ClassificationTable.of_paper(table, _cells(family, (ORIGINAL, GNP)), (rows,))


_OPTIMIZERS = ClassificationTable(
    "graphcl_optimizer",
    "Both readings of the optimiser of the GNP variants, on one data set",
    "test accuracy",
    tuple(cell for family in FAMILIES for cell in _cells(family, (GNP, RMSPROP), ("PROTEINS",))),
    tuple((f"{family} {GNP}", f"{family} {RMSPROP}") for family in FAMILIES),
)
TABLES = {
    table.id: table for table in (_published("graphcl_a", "SAGPool"), _published("graphcl_b", "ASAPool"), _OPTIMIZERS)
}
