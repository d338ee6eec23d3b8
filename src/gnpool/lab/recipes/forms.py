"""The two forms of a graph network: each model is trained in both, and validation chooses one, as it does a setting.

The paper says that its networks are GIN, but not where their two layers stand. With ``form="message"`` they compute
the messages; with ``form="gin"`` they follow the aggregation (:class:`~gnpool.models.GraphNet`). The published numbers
suggest the second form (docs/record.md); some tasks are learned better in the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gnpool.lab.recipes.crystallized import crystallized, validation_of
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import METHODS, Exam, Recipe
from gnpool.lab.running.job import Key
from gnpool.lab.table import SEARCHES
from gnpool.models.networks.parts import FORMS
from gnpool.store import Record, Store


def in_form(recipe: Recipe, form: str) -> Recipe:
    """The same recipe with a named form of the network."""
    if recipe.crystallized:
        return crystallized(in_form(recipe.base, form))
    variants = tuple({**variant, "form": form} for variant in recipe.variants)
    return replace(recipe, model=f"{recipe.model}, {form}", variants=variants)


def form_of(recipe: Recipe) -> str:
    """The form of a recipe's network."""
    return str(recipe.variants[0].get("form", FORMS[0]))


def candidates(recipe: Recipe, preset: Preset) -> tuple[Recipe, ...]:
    """The recipes to train for a recipe: a graph network in both forms, if the preset searches a grid at all.

    A recipe that names its form stays as it is. So does a node network, because its edges include a loop for the node
    itself, which GIN's form would count twice.
    """
    free = all(variant["net"] == "graph" and "form" not in variant for variant in recipe.variants)
    if not (free and preset.whole_grid):
        return (recipe,)
    return (recipe, *(in_form(recipe, form) for form in FORMS[1:]))


@dataclass(frozen=True)
class StoredModels:
    """A candidate whose models are in a store.

    Args:
        recipe (Recipe): The candidate.
        key (dict): Its name in the store.
        search (str): How its setting was found.
        record (Record): The models.
    """

    recipe: Recipe
    key: Key
    search: str
    record: Record

    def validation(self, criterion: str = "loss") -> float:
        """The validation value that chose the models, as a mean over the seeds."""
        if self.recipe.crystallized:
            return validation_of(self.record)
        return float(self.record.scores["chosen"][criterion]["validation"])

    def learned(self, store: Store, preset: Preset) -> StoredModels:
        """The learned models: those behind crystallized models, or the models themselves."""
        key = self.recipe.base.key(preset, self.search)
        record = store.get(key)
        if record is None:
            raise ValueError(f"the models that {self.recipe.model} was made from are gone from {store.root}")
        return replace(self, recipe=self.recipe.base, key=key, record=record)

    def score(self, exam: Exam, store: Store, preset: Preset) -> Record | None:
        """The result of an exam."""
        return store.get(exam.key(self.key, preset, self.recipe.spec))


def keyed(
    recipe: Recipe, store: Store | None, preset: Preset, searches: Sequence[str]
) -> Iterator[tuple[Recipe, str, Key]]:
    """The candidates of a recipe, each with the first of ``searches`` for which it is stored, and its key.

    Without any stored search, it is the first of ``searches``.
    """
    for one in candidates(recipe, preset):
        known = (search for search in searches if store is not None and one.base.key(preset, search) in store)
        search = searches[0] if len(searches) == 1 else next(known, searches[0])
        found = as_stored(one, store, preset, search)
        yield found, search, found.key(preset, search)


def trained(recipe: Recipe, store: Store, preset: Preset, searches: Sequence[str] = SEARCHES[:1]) -> list[StoredModels]:
    """The candidates in a store, each under the first of ``searches`` for which its models are stored."""
    every = ((one, key, search, store.get(key)) for one, search, key in keyed(recipe, store, preset, searches))
    return [StoredModels(one, key, search, record) for one, key, search, record in every if record is not None]


def as_stored(recipe: Recipe, store: Store | None, preset: Preset, search: str) -> Recipe:
    """The recipe with the newest way of crystallizing that is stored; without any, the recipe itself."""
    if store is not None and recipe.crystallized:
        ways = [replace(recipe, method=method) for method in METHODS]
        return next((one for one in ways if one.key(preset, search) in store), recipe)
    return recipe


def chosen(found: Sequence[StoredModels], criterion: str = "loss") -> StoredModels:
    """The candidate with the lowest validation value; the first if several are equal."""
    return min(found, key=lambda one: one.validation(criterion))
