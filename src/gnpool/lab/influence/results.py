"""Computes the table of influence maximisation from the raw scores of the store."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from gnpool.display.models import GNP, is_gnp
from gnpool.influence.train import BATCH
from gnpool.lab.influence.lessons import LEARNED_WITH, MODELS, Choice, InfluenceAmount, choices_of, lessons
from gnpool.lab.results import DATA_SEED, spread, verdict
from gnpool.lab.table import Estimate, Place
from gnpool.store import Record, Store

if TYPE_CHECKING:
    from gnpool.lab.influence.tables import InfluenceTable

METRIC = "INFLUENCE"
PAIRS = 9  # mean number of steps of a cascade to learn from, over the graphs
SECONDS = {"cpu": (0.25, 60.0), "cuda": (0.001, 5.0)}  # estimates for a training step and for the choice of 100 seeds


def influence_results(table: InfluenceTable, store: Store, amount: InfluenceAmount) -> dict[str, Any]:
    """The table for results.json; cells without any run have ``"ours": null``."""
    cells, meta, seconds = [], None, 0.0
    found: dict[tuple[str, str], list[Record]] = {}
    for cell in table.cells:
        choices = choices_for(cell, amount)
        records = [record for choice in choices if (record := store.get(choice.key(amount))) is not None]
        found[cell.row, cell.column] = records
        paper = table.published(cell.row, cell.column)
        entry: dict[str, Any] = {"row": cell.row, "column": cell.column, "ours": None, "paper": paper}
        entry |= {"metric": METRIC, "gnp": is_gnp(cell.row)}
        if records:
            meta = meta or records[0].meta
            seconds += sum(record.meta["seconds"] for record in records)
            entry["ours"] = spread([record.scores["influence"] for record in records])
            entry["part"] = f"{len(records)} of {len(choices)} runs" if len(records) < len(choices) else None
            entry["standard_error"] = max(record.scores["standard_error"] for record in records)
        entry["verdict"] = verdict(entry["ours"], paper, metric=METRIC, gnp=entry["gnp"], higher=True)
        cells.append(entry)
    trained = [record for record in store.records("influence-training") if belongs(record, amount)]
    seconds += sum(record.meta["seconds"] for record in trained)
    columns = list(dict.fromkeys(cell.column for cell in table.cells))
    hidden = ("seconds", "seconds_of_choice", "notes", "preset")
    return table.shown(
        cells,
        rows_are=table.about("rows_are"),
        differences=[
            {"column": column, **difference(found["max", column], found[GNP, column])}  # GNP minus max
            for column in columns
        ],
        meta={
            **{name: value for name, value in (meta or {}).items() if name not in hidden},
            "preset": amount.preset,
            "notes": amount.notes,
            "seed": DATA_SEED,
            "seeds": list(range(amount.runs)),
            "seconds": round(seconds, 1),
        },
    )


def choices_for(cell: Place, amount: InfluenceAmount) -> list[Choice]:
    """The runs that a cell is the mean of."""
    target, _, probability = cell.column.partition("/")
    runs = 1 if cell.row == "degree" else amount.runs
    return [Choice(target, probability, cell.row, run) for run in range(runs)]


def belongs(record: Record, amount: InfluenceAmount) -> bool:
    """Whether a stored training has this amount."""
    return bool(record.key["preset"] == amount.digest(*LEARNED_WITH))


def difference(first: list[Record], second: list[Record]) -> dict[str, Any]:
    """The mean difference, second minus first, over the runs that both have, measured in the same cascades."""
    by_run = [{record.key["run"]: record.scores["influence"] for record in records} for records in (first, second)]
    gaps = [by_run[1][run] - by_run[0][run] for run in by_run[0] if run in by_run[1]]
    if not gaps:
        return {"difference": None, "standard_error": None, "runs": 0}
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else None
    return {"difference": statistics.fmean(gaps), "standard_error": error, "runs": len(gaps)}


def influence_estimate(table: InfluenceTable, amount: InfluenceAmount, kind: str, store: Store | None) -> Estimate:
    """The time that the table needs on this machine."""
    wanted = lessons(amount)
    done = [lesson for lesson in wanted if store is not None and lesson.key(amount) in store]
    choices = [choice for lesson in wanted for choice in choices_of(lesson)]
    held = [choice for choice in choices if store is not None and choice.key(amount) in store]
    steps = amount.epochs * max(1, round(2 * 0.8 * amount.sets * PAIRS * len(wanted[0].sources) / BATCH))
    step, choice_seconds = SECONDS.get(kind, SECONDS["cpu"])
    if amount.nodes is not None:
        step, choice_seconds = step / 20, 0.2
    side = min(len(MODELS), len(wanted)) if kind == "cuda" else 1
    cells = 0
    if store is not None:
        cells = sum(any(c.key(amount) in store for c in choices_for(cell, amount)) for cell in table.cells)

    def minutes(missing: int, unchosen: int) -> float:
        return (missing * steps * step + unchosen * choice_seconds) / side / 60

    return Estimate(
        trainings=len(wanted),
        runs=len(wanted),
        exams=len(choices),
        done=len(done),
        minutes=minutes(len(wanted), len(choices)),
        minutes_left=minutes(len(wanted) - len(done), len(choices) - len(held)),
        cells_done=cells,
    )
