"""A table whose cells are recipes and exams: models to train, data to test them on, and the numbers that result."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gnpool.display.models import is_gnp
from gnpool.lab.paper import paper_cells, paper_tables
from gnpool.lab.recipes.cost import GPU_OVERLAP, exam_seconds, runs_of, training_megabytes, training_seconds
from gnpool.lab.recipes.crystallized import made_anew
from gnpool.lab.recipes.forms import StoredModels, candidates, chosen, form_of, keyed, trained
from gnpool.lab.recipes.jobs import RecipeJob
from gnpool.lab.recipes.presets import Preset, preset_of
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.lab.recipes.training import CRITERIA
from gnpool.lab.results import meta_of, spread, verdict
from gnpool.lab.running.job import Key, key_text, merged
from gnpool.lab.table import SEARCHES, AnyTable, Estimate, Machine, Place, Scope
from gnpool.store import Record, Store
from gnpool.tasks import Task

CURVE_OF = {"aggregation": "aggr", "readout": "readout"}  # column of fig_pq -> name of the layer in the networks


@dataclass(frozen=True)
class Cell(Place):
    """One number of a table, with its deviation. ``published`` is the table, row and column of its counterpart in the
    paper, if they are not those of the cell itself.

    Example:
        >>> from gnpool.lab import find_table
        >>> cell = find_table("exp_graph_harmonic").cells[0]
        >>> cell.row, cell.column, cell.recipe.task
        ('sum', 'sum', 'harmonic')
    """

    recipe: Recipe
    exam: Exam
    published: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class Table(AnyTable):
    """A table or a figure; ``curves`` names the exponents that a figure shows over training, by cell.

    Example:
        >>> from gnpool.lab import find_table
        >>> table = find_table("exp_graph_harmonic")
        >>> len(table.cells), len(table.recipes)
        (21, 21)
    """

    family: ClassVar[str] = "recipes"
    options: ClassVar[frozenset[str]] = frozenset({"data_seed"})

    cells: tuple[Cell, ...]
    curves: tuple[str, ...] = ()

    @property
    def recipes(self) -> list[Recipe]:
        """The recipes to train, each once."""
        found: list[Recipe] = []
        for cell in self.cells:
            if cell.recipe not in found:
                found.append(cell.recipe)
        return found

    def data(self) -> list[str]:
        return list(dict.fromkeys(cell.exam.given for cell in self.cells if cell.exam.given is not None))

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> list[RecipeJob]:
        """Every recipe, in both forms if there are two, with all exams that any cell needs."""
        return self._jobs(scope, store)

    def _jobs(self, scope: Scope, store: Store | None) -> list[RecipeJob]:
        preset = preset_of(scope)
        found = [
            RecipeJob(one, (cell.exam,), preset, search) if scope.test else RecipeJob(one.base, (), preset, search)
            for cell in self.cells
            for one, search, _ in keyed(cell.recipe, store, preset, scope.searches[:1])
        ]
        if scope.train:
            return found
        return [] if store is None else [job for job in found if job.recipe.base.key(preset, job.search) in store]

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        return table_results(self, store, preset_of(scope), *scope.searches)

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        preset = preset_of(scope)
        for cell in self.cells:
            for one, search, key in keyed(cell.recipe, store, preset, scope.searches):
                yield from (one.base.key(preset, search), key, cell.exam.key(key, preset, one.spec))

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        preset, search, kind = preset_of(scope), scope.searches[0], machine.kind
        units = [] if store is None else itertools.chain(*map(store.records, ("training", "crystal", "score")))
        stored, jobs = {key_text(one.key): one.meta for one in units}, merged(self._jobs(scope, store))
        trainings = {key_text(job.key): job.recipe for job in jobs if not job.recipe.crystallized}
        tests = [(job, exam) for job in jobs for exam in job.exams]
        exams = {key_text(job.exam_key(exam)): exam_seconds(job.recipe, exam, preset, kind) for job, exam in tests}
        cost = {key_text(job.key): training_seconds(job.recipe, preset, search, kind) for job in jobs}
        timed = [name for name in trainings if name in stored and stored[name]["device"].startswith(kind)]
        took, expected = sum(stored[name]["seconds"] for name in timed), sum(cost[name] for name in timed)
        side = min(machine.jobs if kind == "cpu" or expected else GPU_OVERLAP, len(jobs))
        factor = (took / expected if expected else 1.0) / (60 * max(1, side))
        cost |= exams

        def done(cell: Cell) -> bool:
            forms = keyed(cell.recipe, store, preset, scope.searches[:1])
            return all(key_text(cell.exam.key(key, preset, one.spec)) in stored for one, _, key in forms)

        return Estimate(
            trainings=len(trainings),
            runs=sum(runs_of(recipe, preset, search) for recipe in trainings.values()),
            exams=len(exams),
            done=sum(name in stored for name in trainings),
            minutes=factor * sum(cost.values()),
            minutes_left=factor * sum(seconds for name, seconds in cost.items() if name not in stored),
            cells_done=sum(map(done, self.cells)),
        )

    def together(self, tables: Sequence[Table]) -> list[AnyTable]:
        return [Table("together", "", "", tuple(cell for table in tables for cell in table.cells))]

    def megabytes(self, scope: Scope) -> list[float]:
        preset = preset_of(scope)
        recipes = [recipe for recipe in self.recipes if not recipe.crystallized]
        return [training_megabytes(one, preset) for recipe in recipes for one in candidates(recipe, preset)]

    def model_cell(self, row: str, column: str | None = None) -> Cell:
        rows = [cell for cell in self.cells if cell.row == row]
        if not rows:
            known = ", ".join(dict.fromkeys(cell.row for cell in self.cells))
            raise ValueError(f"table {self.id!r} has no row {row!r}; its rows are {known}")
        for cell in rows:
            if column is None or cell.column == column:
                return cell
        known = ", ".join(dict.fromkeys(cell.column for cell in rows))
        raise ValueError(f"row {row!r} of table {self.id!r} has no column {column!r}; its columns are {known}")


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
        metric, gnp, paper = metric_name(cell.recipe.spec), has_gnp(cell.recipe), paper_cells(source).get((row, column))
        entry = {**table.entry(cell, metric, gnp), "paper": paper}
        if cell.published is not None:
            entry["published"] = list(cell.published)  # its counterpart in the paper stands in another table
        higher = paper_tables().get(source, {}).get("lower_is_better") is False
        compared = functools.partial(verdict, paper=paper, metric=metric, gnp=gnp, higher=higher)
        found = trained(cell.recipe, store, preset, searches)
        scores = {form_of(one.recipe): one.score(cell.exam, store, preset) for one in found}
        tested = {form: record for form, record in scores.items() if record is not None}
        if found and all(form_of(chosen(found, criterion).recipe) in tested for criterion in CRITERIA):
            ours, best = _ours(found, tested, searches[0], compared), chosen(found)
            form = form_of(best.recipe)
            if len(candidates(cell.recipe, preset)) > 1:
                entry |= {"form": form, "forms": ours}
            if cell.recipe.crystallized and (told := made_anew(best.record)):
                entry["anew"] = told
            entry |= {name: value for name, value in ours[form].items() if name != "verdict"}
            by_metric = tested[form_of(chosen(found, "metric").recipe)].scores["metric"]
            entry["by_metric"] = summary(by_metric)  # if the table's metric selects the models
            meta = meta or tested[form].meta
            seconds += sum(record.meta["seconds"] for record in tested.values())
            used |= {one.search for one in found}
            if table.curves:
                entry["curves"] = _curves(cell, table.curves, best.record.tensors or {})
        entry["verdict"] = compared(entry["ours"])
        cells.append(entry)
    every = [one for recipe in table.recipes for one in trained(recipe, store, preset, searches)]
    return table.shown(
        cells,
        rows_are=table.about("rows_are"),
        columns_are=table.about("columns_are"),
        higher_is_better=table.about("lower_is_better") is False,
        meta=meta_of(
            meta,
            seconds + sum(one.record.meta["seconds"] for one in every),
            preset=preset.name,
            notes=preset.notes,
            search=", ".join(search for search in searches if search in used) or searches[0],
            seed=preset.data_seed,
            seeds=list(range(preset.seeds)),
        ),
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
