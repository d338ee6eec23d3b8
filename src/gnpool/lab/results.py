"""Results: every printed number, computed from the raw scores of the store."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.presets import Preset
from gnpool.lab.recipes import Recipe
from gnpool.lab.tables import Cell, Table
from gnpool.lab.training import SEARCHES
from gnpool.store import Store
from gnpool.tasks import Task

SCHEMA = 1
DATA_SEED = 0  # of tables whose data is given
FAILS = 20.0  # percent of error from which a model does not extrapolate, for the comparison with the paper
DIGITS = {"MAPE": 0.1, "INFLUENCE": 0.1}  # the last digit that the paper prints; 0.001 elsewhere
CURVE_OF = {"aggregation": "aggr", "readout": "readout"}  # how a column of fig_pq is called in the networks


def table_results(table: Table, store: Store, preset: Preset, *searches: str) -> dict[str, Any]:
    """A table as results.json holds it; cells whose scores are missing have ``"ours": null``.

    Of several ``searches`` (default: ``"all"``) a model takes the first by which the store has it. Where that is not
    the first of all, its cells say so.
    """
    searches = searches or SEARCHES[:1]
    published = paper_tables().get(table.id, {})
    cells, seconds, meta = [], 0.0, None
    used: set[str] = set()
    for cell in table.cells:
        search = stored_search(cell.recipe, store, preset, searches)
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
            chosen = trained.scores["chosen"]["loss"]
            entry["setting"] = chosen["setting"]
            entry["validation"] = chosen["validation"] if math.isfinite(chosen["validation"]) else None
            used.add(search)
            if search != searches[0]:
                entry["search"] = search
            if table.curves:
                entry["curves"] = _curves(cell, table.curves, trained.tensors or {})
        entry["gnp"] = is_gnp(cell.recipe)
        if cell.published is not None:
            entry["published"] = list(cell.published)  # whose counterpart stands in another table
        higher = paper_tables().get(source, {}).get("lower_is_better") is False
        entry["verdict"] = verdict(entry["ours"], paper, metric=metric, gnp=entry["gnp"], higher=higher)
        cells.append(entry)
    trainings = [store.get(one.key(preset, stored_search(one, store, preset, searches))) for one in table.recipes]
    seconds += sum(record.meta["seconds"] for record in trainings if record is not None)
    return {
        "table": table.id,
        "title": table.title,
        "metric": table.metric,
        "rows_are": published.get("rows_are"),
        "columns_are": published.get("columns_are"),
        "higher_is_better": published.get("lower_is_better") is False,
        "cells": cells,
        "meta": {
            **{name: value for name, value in (meta or {}).items() if name != "seconds"},
            "preset": preset.name,
            "notes": preset.notes,
            "search": ", ".join(search for search in searches if search in used) or searches[0],
            "seed": preset.data_seed,
            "seeds": list(range(preset.seeds)),
            "seconds": round(seconds, 1),
        },
    }


def stored_search(recipe: Recipe, store: Store, preset: Preset, searches: Sequence[str]) -> str:
    """The first of ``searches`` by which the store has a model, or else the first of all."""
    if len(searches) == 1:
        return searches[0]
    return next((search for search in searches if recipe.base.key(preset, search) in store), searches[0])


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


def is_gnp(recipe: Recipe) -> bool:
    """Whether GNP is what the recipe trains, in any of its forms; other models are baselines."""
    return any(str(part).startswith("gnp") for variant in recipe.variants for part in variant.values())


def verdict(
    ours: dict[str, Any] | None,
    paper: dict[str, Any] | None,
    *,
    metric: str = "MAPE",
    gnp: bool = True,
    higher: bool = False,
) -> str:
    """How a cell compares with the paper's, in a word or two; the only place where that is decided.

    Args:
        ours (dict, optional): Mean and deviation, or None.
        paper (dict, optional): The same of the paper.
        metric (str, optional): Errors by MAPE above 20 % are failures. (default: ``"MAPE"``)
        gnp (bool, optional): A baseline that works where the paper's fails, or the reverse, is another outcome, and
            neither better nor worse. (default: ``True``)
        higher (bool, optional): Whether more is better. (default: ``False``)
    """
    if ours is None:
        return "not run"
    if paper is None or paper["mean"] is None:
        return "failed" if ours["mean"] is None else ""
    theirs = paper["mean"]
    mine = ours["mean"] if ours["mean"] is not None else -math.inf if higher else math.inf  # no run came to an end
    fails = [not math.isfinite(value) or (metric == "MAPE" and value > FAILS) for value in (mine, theirs)]
    if all(fails):
        return "both fail"
    if within(ours, paper, metric, deviations=0 if any(fails) else 2):  # else success and failure could be the same
        return "matched"
    if any(fails) and not gnp:
        return "different outcome"
    return "better" if (mine > theirs) == higher else "worse"


def within(ours: dict[str, Any], paper: dict[str, Any], metric: str, deviations: float = 2) -> bool:
    """Whether two means differ by at most that many of the larger deviation and half a printed digit."""
    if ours["mean"] is None:
        return False
    margin = 0.5 * DIGITS.get(metric, 0.001) + 1e-9  # rounding of the paper, and of the decimal fractions here
    margin += deviations * max(ours["std"] or 0.0, paper["std"] or 0.0)
    return bool(abs(ours["mean"] - paper["mean"]) <= margin)


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
