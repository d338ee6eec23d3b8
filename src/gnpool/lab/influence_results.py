"""The table of influence maximisation, computed from the raw scores of the store."""

from __future__ import annotations

import math
import statistics
from typing import Any

from gnpool.influence.train import BATCH
from gnpool.lab.cost import Estimate
from gnpool.lab.influence import (
    LEARNED_WITH,
    MODELS,
    Choice,
    InfluenceAmount,
    InfluenceCell,
    InfluenceTable,
    read_graph,
)
from gnpool.lab.influence_runner import baseline_choices, choices_of, summary_runs, trainings
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.results import DATA_SEED, verdict
from gnpool.store import Record, Store

METRIC = "INFLUENCE"
PAIRS = 9  # steps of a cascade to learn from, on average over the graphs
SECONDS = {"cpu": (0.25, 60.0), "cuda": (0.001, 5.0)}  # of a training step, and of the choice of 100 seeds: guesses


def influence_results(table: InfluenceTable, store: Store, amount: InfluenceAmount) -> dict[str, Any]:
    """The table as results.json holds it; cells without any run have ``"ours": null``."""
    published, cells, meta, seconds = paper_cells(table.id), [], None, 0.0
    found: dict[tuple[str, str], list[Record]] = {}
    for cell in table.cells:
        choices = choices_for(cell, amount)
        records = summary_runs(choices, store, amount)
        found[cell.row, cell.column] = records
        paper = published.get((cell.row, cell.column))
        entry: dict[str, Any] = {"row": cell.row, "column": cell.column, "ours": None, "paper": paper}
        entry |= {"metric": METRIC, "gnp": cell.row == "GNP"}
        if records:
            meta = meta or records[0].meta
            seconds += sum(record.meta["seconds"] for record in records)
            entry["ours"] = summary([record.scores["influence"] for record in records])
            entry["part"] = f"{len(records)} of {len(choices)} runs" if len(records) < len(choices) else None
            entry["standard_error"] = max(record.scores["standard_error"] for record in records)
        entry["verdict"] = verdict(entry["ours"], paper, metric=METRIC, gnp=entry["gnp"], higher=True)
        cells.append(entry)
    trained = [record for record in store.records("influence-training") if belongs(record, amount)]
    seconds += sum(record.meta["seconds"] for record in trained)
    columns = list(dict.fromkeys(cell.column for cell in table.cells))
    hidden = ("seconds", "seconds_of_choice", "notes", "preset")
    return {
        "table": table.id,
        "title": table.title,
        "metric": table.metric,
        "rows_are": paper_tables()[table.id].get("rows_are"),
        "columns_are": None,
        "cells": cells,
        "differences": [
            {"column": column, **difference(found["max", column], found["GNP", column])}  # GNP minus max
            for column in columns
        ],
        "meta": {
            **{name: value for name, value in (meta or {}).items() if name not in hidden},
            "preset": amount.preset,
            "notes": amount.notes,
            "seed": DATA_SEED,
            "seeds": list(range(amount.runs)),
            "seconds": round(seconds, 1),
        },
    }


def choices_for(cell: InfluenceCell, amount: InfluenceAmount) -> list[Choice]:
    """What a cell is the mean of."""
    runs = 1 if cell.row == "degree" else amount.runs
    return [Choice(*cell.place, cell.row, run) for run in range(runs)]


def belongs(record: Record, amount: InfluenceAmount) -> bool:
    """Whether a stored training is one of this amount."""
    return bool(record.key["preset"] == amount.digest(*LEARNED_WITH))


def summary(values: list[float]) -> dict[str, Any]:
    """Mean and sample deviation over runs."""
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "runs": values,
        "median": statistics.median(values),
        "failed": 0,
    }


def difference(first: list[Record], second: list[Record]) -> dict[str, Any]:
    """The mean of second minus first over the runs that both have, measured in the same cascades."""
    by_run = [{record.key["run"]: record.scores["influence"] for record in records} for records in (first, second)]
    gaps = [by_run[1][run] - by_run[0][run] for run in by_run[0] if run in by_run[1]]
    if not gaps:
        return {"difference": None, "standard_error": None, "runs": 0}
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else None
    return {"difference": statistics.fmean(gaps), "standard_error": error, "runs": len(gaps)}


def influence_estimate(table: InfluenceTable, amount: InfluenceAmount, kind: str, store: Store | None) -> Estimate:
    """What the table costs here."""
    wanted = trainings(amount)
    done = [t for t in wanted if store is not None and t.key(amount) in store]
    choices = [choice for training in wanted for choice in choices_of(training)]
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


def require_graphs(store: Store, amount: InfluenceAmount) -> None:
    """Have the graphs at hand if anything is missing, so that a machine without them says so at once."""
    learned = [choice for training in trainings(amount) for choice in choices_of(training)]
    missing = [choice for choice in (*learned, *baseline_choices(amount)) if choice.key(amount) not in store]
    if missing:
        read_graph(missing[0].target, "test", "BT", amount.nodes)
