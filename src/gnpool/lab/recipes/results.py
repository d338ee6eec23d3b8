"""Computes a table for results.json from the scores of recipes."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gnpool.display.models import is_gnp
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.recipes.crystallized import made_anew
from gnpool.lab.recipes.forms import StoredModels, candidates, chosen, form_of, trained
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import Recipe
from gnpool.lab.recipes.training import CRITERIA
from gnpool.lab.results import spread, verdict
from gnpool.lab.table import SEARCHES
from gnpool.store import Record, Store
from gnpool.tasks import Task

if TYPE_CHECKING:
    from gnpool.lab.recipes.table import Cell, Table

CURVE_OF = {"aggregation": "aggr", "readout": "readout"}  # column of fig_pq -> name of the layer in the networks


def table_results(table: Table, store: Store, preset: Preset, *searches: str) -> dict[str, Any]:
    """The table for results.json; cells whose scores are missing have ``"ours": null``.

    Each model uses the first of several ``searches`` (default: ``"all"``) that is stored. If that is not the first of
    all, the cells say so. If a network has two forms, the cells name the form that validation chose, and give the
    results of both.

    Example:
        >>> import tempfile
        >>> from gnpool.lab import find_table, get_preset, table_results
        >>> from gnpool.store import Store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = table_results(find_table("exp_graph_harmonic"), Store(folder), get_preset("quick"))
        >>> found["cells"][0]["ours"], found["cells"][0]["verdict"]  # nothing was run yet
        (None, 'not run')
    """
    searches = searches or SEARCHES[:1]
    cells, seconds, meta = [], 0.0, None
    used: set[str] = set()
    for cell in table.cells:
        source, row, column = cell.published or (table.id, cell.row, cell.column)
        paper, metric = paper_cells(source).get((row, column)), metric_name(cell.recipe.spec)
        entry: dict[str, Any] = {"row": cell.row, "column": cell.column, "ours": None, "paper": paper, "metric": metric}
        entry["gnp"] = has_gnp(cell.recipe)
        if cell.published is not None:
            entry["published"] = list(cell.published)  # its counterpart in the paper stands in another table
        higher = paper_tables().get(source, {}).get("lower_is_better") is False
        compared = functools.partial(verdict, paper=paper, metric=metric, gnp=entry["gnp"], higher=higher)
        found = trained(cell.recipe, store, preset, searches)
        scores = {form_of(one.recipe): one.score(cell.exam, store, preset) for one in found}
        tested = {form: record for form, record in scores.items() if record is not None}
        if found and all(form_of(chosen(found, criterion).recipe) in tested for criterion in CRITERIA):
            ours, best = _ours(found, tested, searches[0], compared), chosen(found)
            if len(candidates(cell.recipe, preset)) > 1:
                entry |= {"form": form_of(best.recipe), "forms": ours}
            if cell.recipe.crystallized and (told := made_anew(best.record)):
                entry["anew"] = told
            by_metric = tested[form_of(chosen(found, "metric").recipe)].scores["metric"]
            entry |= {name: value for name, value in ours[form_of(best.recipe)].items() if name != "verdict"}
            entry["by_metric"] = summary(by_metric)  # if the table's metric selects the models
            meta = meta or tested[form_of(best.recipe)].meta
            seconds += sum(record.meta["seconds"] for record in tested.values())
            used |= {one.search for one in found}
            if table.curves:
                entry["curves"] = _curves(cell, table.curves, best.record.tensors or {})
        entry["verdict"] = compared(entry["ours"])
        cells.append(entry)
    every = [one for recipe in table.recipes for one in trained(recipe, store, preset, searches)]
    seconds += sum(one.record.meta["seconds"] for one in every)
    return table.shown(
        cells,
        rows_are=table.about("rows_are"),
        columns_are=table.about("columns_are"),
        higher_is_better=table.about("lower_is_better") is False,
        meta={
            **{name: value for name, value in (meta or {}).items() if name != "seconds"},
            "preset": preset.name,
            "notes": preset.notes,
            "search": ", ".join(search for search in searches if search in used) or searches[0],
            "seed": preset.data_seed,
            "seeds": list(range(preset.seeds)),
            "seconds": round(seconds, 1),
        },
    )


def _ours(
    found: Sequence[StoredModels], tested: Mapping[str, Record], usual: str, compared: Callable[[dict[str, Any]], str]
) -> dict[str, dict[str, Any]]:
    """The results of the models by form of the network: setting, validation loss, and ``search`` if it is unusual."""
    told = {}
    for one in found:
        form = form_of(one.recipe)
        if form in tested:
            ours, loss = summary(tested[form].scores["loss"]), one.validation()
            told[form] = {
                "ours": ours,
                "setting": one.record.scores["chosen"]["loss"]["setting"],
                "validation": loss if math.isfinite(loss) else None,
                **({} if one.search == usual else {"search": one.search}),
                "verdict": compared(ours),
            }
    return told


def metric_name(task: Task) -> str:
    """The name of a task's metric in tables, such as MAPE (in percent) or MAE."""
    return getattr(task.metric, "__name__", str(task.metric)).upper()


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample deviation over the runs that did not fail, with all of them listed."""
    good = [run["median"] for run in runs if run["mean"] is not None]
    return {**spread([run["mean"] for run in runs]), "median": statistics.fmean(good) if good else None}


def has_gnp(recipe: Recipe) -> bool:
    """Whether a recipe trains GNP in any of its forms; other models are baselines."""
    return any(is_gnp(str(part)) for variant in recipe.variants for part in variant.values())


def _curves(cell: Cell, names: Sequence[str], tensors: dict[str, Any]) -> dict[str, list[list[float | None]]]:
    """The exponents over training, (epochs + 1) x seeds, of the layer that the column names."""
    part = "pool" if cell.recipe.spec.level == "set" else CURVE_OF[cell.column]
    found: dict[str, list[list[float | None]]] = {}
    for name in names:
        paths = [key.split(".") for key in tensors if key.startswith("curve/") and key.endswith(f".{name}")]
        keys = sorted(".".join(path) for path in paths if part in path[-2])
        if keys:  # the last of several layers
            found[name] = [[v if math.isfinite(v) else None for v in epoch] for epoch in tensors[keys[-1]].tolist()]
    return found
