"""Results: every printed number, computed from the raw scores of the store."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.presets import Preset
from gnpool.lab.tables import Cell, Table
from gnpool.store import Store
from gnpool.tasks import Task

SCHEMA = 1
DATA_SEED = 0  # of all graphs and sets; the seeds of the runs are those of their initial weights
FAILS = 20.0  # percent of error from which a model does not extrapolate, for the comparison with the paper
CLOSE = 0.1  # two means within a tenth of each other agree, whatever the deviations
CURVE_OF = {"aggregation": "aggr", "readout": "readout"}  # how a column of fig_pq is called in the networks


def table_results(table: Table, store: Store, preset: Preset, search: str = "all") -> dict[str, Any]:
    """A table as results.json holds it; cells whose scores are missing have ``"ours": null``."""
    published = paper_tables().get(table.id, {})
    cells, seconds, meta = [], 0.0, None
    for cell in table.cells:
        training = cell.recipe.key(preset, search)
        record = store.get(cell.exam.key(training, preset, cell.recipe.spec))
        trained = store.get(training) if record is not None else None
        source, row, column = cell.published or (table.id, cell.row, cell.column)
        paper, metric = paper_cells(source).get((row, column)), metric_name(cell.recipe.spec)
        entry: dict[str, Any] = {"row": cell.row, "column": cell.column, "ours": None, "paper": paper, "metric": metric}
        if record is not None and trained is not None:
            meta = meta or record.meta
            seconds += record.meta["seconds"]
            entry["ours"] = summary(record.scores["loss"])
            entry["by_metric"] = summary(record.scores["metric"])  # where the metric of the table selects
            entry["setting"] = trained.scores["chosen"]["loss"]["setting"]
            if table.curves:
                entry["curves"] = _curves(cell, table.curves, trained.tensors or {})
        entry["verdict"] = verdict(entry["ours"], paper, percent=metric != "MAE")
        cells.append(entry)
    trainings = [store.get(recipe.key(preset, search)) for recipe in table.recipes]
    seconds += sum(record.meta["seconds"] for record in trainings if record is not None)
    return {
        "table": table.id,
        "title": table.title,
        "metric": table.metric,
        "rows_are": published.get("rows_are"),
        "columns_are": published.get("columns_are"),
        "cells": cells,
        "meta": {
            **{name: value for name, value in (meta or {}).items() if name != "seconds"},
            "preset": preset.name,
            "notes": preset.notes,
            "search": search,
            "seed": DATA_SEED,
            "seeds": list(range(preset.seeds)),
            "seconds": round(seconds, 1),
        },
    }


def metric_name(task: Task) -> str:
    """The metric of a task as tables call it, such as MAPE, in percent, or MAE."""
    return getattr(task.metric, "__name__", str(task.metric)).upper()


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample deviation over the runs that did not fail, beside all of them."""
    values = [run["mean"] for run in runs]
    good = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(good) if good else None,
        "std": statistics.stdev(good) if len(good) > 1 else None,
        "runs": values,
        "median": statistics.fmean([run["median"] for run in runs if run["mean"] is not None]) if good else None,
        "failed": len(values) - len(good),
    }


def verdict(ours: dict[str, Any] | None, paper: dict[str, Any] | None, percent: bool = True) -> str:
    """How a cell compares with the paper's, in a word or two."""
    if ours is None or ours["mean"] is None:
        return "failed" if ours is not None else "not run"
    if paper is None or paper["mean"] is None:
        return ""
    mine, theirs = ours["mean"], paper["mean"]
    if percent and mine > FAILS and theirs > FAILS:
        return "both fail"
    deviation = math.hypot(ours["std"] or 0.0, paper["std"] or 0.0)
    if percent and (mine > FAILS) != (theirs > FAILS):  # success and failure differ, however wide the deviations
        deviation = 0.0
    tiny = 0.1 if percent else 0.001  # the last digit of the paper's tables
    if abs(mine - theirs) <= max(2 * deviation / math.sqrt(len(ours["runs"])), CLOSE * theirs, tiny):
        return "agrees"
    return "better" if mine < theirs else "worse"


def _curves(cell: Cell, names: Sequence[str], tensors: dict[str, Any]) -> dict[str, list[list[float | None]]]:
    """The exponents over training, (epochs + 1) x seeds, of the layer that the column names."""
    part = "pool" if cell.recipe.spec.level == "set" else CURVE_OF[cell.column]
    found: dict[str, list[list[float | None]]] = {}
    for name in names:
        paths = [key.split(".") for key in tensors if key.startswith("curve/") and key.endswith(f".{name}")]
        keys = sorted(".".join(path) for path in paths if part in path[-2])
        if keys:  # of several layers the last
            found[name] = [[v if math.isfinite(v) else None for v in epoch] for epoch in tensors[keys[-1]].tolist()]
    return found
