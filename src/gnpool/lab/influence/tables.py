"""The table of influence maximisation: its work, and its numbers from the raw scores of the store."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gnpool.display.models import GNP, is_gnp
from gnpool.influence import collection
from gnpool.influence.train import BATCH
from gnpool.lab.influence.amount import BASELINES, LEARNED_WITH, MODELS, InfluenceAmount, amount_of
from gnpool.lab.influence.jobs import Choice, baseline_choices, influence_jobs, lessons
from gnpool.lab.paper import paper_tables
from gnpool.lab.results import DATA_SEED, meta_of, spread, verdict
from gnpool.lab.running.job import Job, Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Place, Scope
from gnpool.store import Record, Store

METRIC = "INFLUENCE"
PAIRS = 9  # mean number of steps of a cascade to learn from, over the graphs
SECONDS = {"cpu": (0.25, 60.0), "cuda": (0.001, 5.0)}  # estimates for a training step and for the choice of 100 seeds
HIDDEN = ("seconds_of_choice", "notes", "preset")


@dataclass(frozen=True)
class InfluenceTable(AnyTable):
    """The influence of seeds, by the model or baseline that chose them."""

    family: ClassVar[str] = "influence"
    options: ClassVar[frozenset[str]] = frozenset({"seeds"})

    def at_hand(self) -> bool:
        return collection.graphs_zip() is not None

    def fetch(self, scope: Scope, store: Store) -> None:
        amount = amount_of(scope)
        learned = [choice for lesson in lessons(amount) for choice in lesson.choices]
        missing = [one for one in (*learned, *baseline_choices(amount)) if one.key not in store]
        if missing and scope.train:
            collection.read_graph(missing[0].target, "test", "BT", amount.nodes)

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[Job]:
        return influence_jobs(amount_of(scope), store) if scope.train else ()

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        amount = amount_of(scope)
        yield from (lesson.key for lesson in lessons(amount))
        yield from (choice.key for cell in self.cells for choice in choices_for(cell, amount))

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        amount = amount_of(scope)
        cells: list[dict[str, Any]] = []
        found: dict[tuple[str, str], list[Record]] = {}
        for cell in self.cells:
            choices, entry = choices_for(cell, amount), self.entry(cell, METRIC, is_gnp(cell.row))
            records = [record for choice in choices if (record := store.get(choice.key)) is not None]
            found[cell.row, cell.column] = records
            if records:
                entry["ours"] = spread([record.scores["influence"] for record in records])
                entry["part"] = f"{len(records)} of {len(choices)} runs" if len(records) < len(choices) else None
                entry["standard_error"] = max(record.scores["standard_error"] for record in records)
            entry["verdict"] = verdict(entry["ours"], entry["paper"], metric=METRIC, gnp=entry["gnp"], higher=True)
            cells.append(entry)
        tested = [record for records in found.values() for record in records]
        preset = amount.digest(*LEARNED_WITH)
        trained = [record for record in store.records("influence-training") if record.key["preset"] == preset]
        return self.shown(
            cells,
            rows_are=self.about("rows_are"),
            differences=[
                {"column": column, **difference(found["max", column], found[GNP, column])}  # GNP minus max
                for column in dict.fromkeys(cell.column for cell in self.cells)
            ],
            meta=meta_of(
                tested[0].meta if tested else None,
                sum(record.meta["seconds"] for record in (*tested, *trained)),
                HIDDEN,
                preset=amount.preset,
                notes=amount.notes,
                seed=DATA_SEED,
                seeds=list(range(amount.runs)),
            ),
        )

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        amount = amount_of(scope)
        wanted = lessons(amount)
        choices = [choice for lesson in wanted for choice in lesson.choices]

        def held(*jobs: Job) -> int:
            return 0 if store is None else sum(job.key in store for job in jobs)

        steps = amount.epochs * max(1, round(2 * 0.8 * amount.sets * PAIRS * len(wanted[0].sources) / BATCH))
        step, choice_seconds = SECONDS.get(machine.kind, SECONDS["cpu"])
        if amount.nodes is not None:
            step, choice_seconds = step / 20, 0.2
        side = min(len(MODELS), len(wanted)) if machine.kind == "cuda" else 1

        def minutes(missing: int, unchosen: int) -> float:
            return (missing * steps * step + unchosen * choice_seconds) / side / 60

        found = Estimate(
            trainings=len(wanted),
            runs=len(wanted),
            exams=len(choices),
            done=held(*wanted),
            minutes=minutes(len(wanted), len(choices)),
            minutes_left=minutes(len(wanted) - held(*wanted), len(choices) - held(*choices)),
            cells_done=sum(held(*choices_for(cell, amount)) > 0 for cell in self.cells),
        )
        return found if scope.train else found.untrained()


def choices_for(cell: Place, amount: InfluenceAmount) -> list[Choice]:
    """The runs that a cell is the mean of."""
    target, _, probability = cell.column.partition("/")
    runs = 1 if cell.row == "degree" else amount.runs
    return [Choice(target, probability, cell.row, run, amount) for run in range(runs)]


def difference(first: list[Record], second: list[Record]) -> dict[str, Any]:
    """The mean difference, second minus first, over the runs that both have, measured in the same cascades."""
    by_run = [{record.key["run"]: record.scores["influence"] for record in records} for records in (first, second)]
    gaps = [by_run[1][run] - by_run[0][run] for run in by_run[0] if run in by_run[1]]
    if not gaps:
        return {"difference": None, "standard_error": None, "runs": 0}
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else None
    return {"difference": statistics.fmean(gaps), "standard_error": error, "runs": len(gaps)}


_COLUMNS = paper_tables()["im_monstor"]["columns"]
_CELLS = (Place(row, column) for row in (*MODELS, *BASELINES) for column in _COLUMNS)
IM_MONSTOR = InfluenceTable.of_paper("im_monstor", _CELLS)
TABLES = {IM_MONSTOR.id: IM_MONSTOR}
