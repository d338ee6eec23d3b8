"""A table whose cells are recipes and exams: models to train, and data to test them on."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gnpool.lab.paper import paper_tables
from gnpool.lab.recipes.cost import cost_of, training_megabytes
from gnpool.lab.recipes.forms import as_stored, candidates, stored_search
from gnpool.lab.recipes.jobs import RecipeJob
from gnpool.lab.recipes.presets import Preset, preset_of
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.lab.recipes.results import table_results
from gnpool.lab.running.job import Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Place, Scope
from gnpool.store import Store


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

    def missing(self, scope: Scope, store: Store) -> set[str]:
        preset, (search, *_) = preset_of(scope), scope.searches
        exams = [
            (str(cell.exam.given), cell.exam.key(one.key(preset, search), preset, one.spec))
            for cell in self.cells
            if cell.exam.given is not None and scope.test
            for one in _stored(cell.recipe, store, preset, search)
            if scope.train or one.base.key(preset, search) in store
        ]
        return {name for name, key in exams if key not in store}

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> list[RecipeJob]:
        """Every recipe, in both forms if there are two, with all exams that any cell needs."""
        preset, (search, *_) = preset_of(scope), scope.searches
        found = [
            RecipeJob(as_stored(recipe, store, preset, search), (cell.exam,), preset, search)
            if scope.test
            else RecipeJob(recipe.base, (), preset, search)
            for cell in self.cells
            for recipe in candidates(cell.recipe, preset)
        ]
        return [job for job in found if scope.train or job.recipe.base.key(preset, search) in store]

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        return table_results(self, store, preset_of(scope), *scope.searches)

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        preset = preset_of(scope)
        for cell in self.cells:
            for recipe in candidates(cell.recipe, preset):
                search = stored_search(recipe, store, preset, scope.searches)
                key = as_stored(recipe, store, preset, search).key(preset, search)
                yield from (recipe.base.key(preset, search), key, cell.exam.key(key, preset, recipe.spec))

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        known = functools.partial(_stored, store=store, preset=preset_of(scope), search=scope.searches[0])
        wanted = [(cell.exam, known(cell.recipe)) for cell in self.cells]
        every = [one for recipe in self.recipes for one in known(recipe)]
        return cost_of(every, wanted, scope, store, machine)

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


def published_table(name: str, cells: Iterator[Cell]) -> Table:
    """A table of the paper, under its title and metric."""
    published = paper_tables()[name]
    metric = published["metric"] if "row" not in published["metric"] else "MAPE, for shortest MAE"
    return Table(name, published["title"], metric, tuple(cells))


def _stored(recipe: Recipe, store: Store | None, preset: Preset, search: str) -> list[Recipe]:
    """The candidates of a recipe, crystallized in the way that the store has."""
    return [as_stored(one, store, preset, search) for one in candidates(recipe, preset)]
