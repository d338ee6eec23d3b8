"""The two forms of a graph network: a model is trained in both, and validation chooses, as it chooses a setting.

The paper says that its networks are GIN, and not where their two layers stand. With ``form="message"`` they make the
messages, with ``form="gin"`` they stand behind the aggregation (:class:`~gnpool.models.GraphNet`). Published numbers
speak for the second (docs/record.md); some tasks are learned better in the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnpool.lab.recipes.crystallized import crystallized, validation_of
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import METHODS, Exam, Recipe
from gnpool.lab.running.job import Key
from gnpool.lab.table import SEARCHES
from gnpool.models.networks.parts import FORMS
from gnpool.store import Record, Store


def in_form(recipe: Recipe, form: str) -> Recipe:
    """The same with a named form of the network."""
    if recipe.crystallized:
        return crystallized(in_form(recipe.base, form))
    variants = tuple({**variant, "form": form} for variant in recipe.variants)
    return replace(recipe, model=f"{recipe.model}, {form}", variants=variants)


def form_of(recipe: Recipe) -> str:
    """The form of its network."""
    return str(recipe.variants[0].get("form", FORMS[0]))


def candidates(recipe: Recipe, preset: Preset) -> tuple[Recipe, ...]:
    """What is trained for a recipe: a graph network in both forms, where a preset has a grid to search at all.

    A recipe that names the form is left alone. So are node networks: their edges hold a loop for the node itself, which
    GIN's form would count twice.
    """
    free = all(variant["net"] == "graph" and "form" not in variant for variant in recipe.variants)
    if not (free and preset.whole_grid):
        return (recipe,)
    return (recipe, *(in_form(recipe, form) for form in FORMS[1:]))


@dataclass(frozen=True)
class StoredModels:
    """A candidate that a store has.

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
        """The mean over the seeds of what chose the models on validation data."""
        if self.recipe.crystallized:
            return validation_of(self.record)
        return float(self.record.scores["chosen"][criterion]["validation"])

    def learned(self, store: Store, preset: Preset) -> StoredModels:
        """What crystallized models were made from; of learned ones, these themselves."""
        key = self.recipe.base.key(preset, self.search)
        record = store.get(key)
        if record is None:
            raise ValueError(f"the models that {self.recipe.model} was made from are gone from {store.root}")
        return replace(self, recipe=self.recipe.base, key=key, record=record)

    def score(self, exam: Exam, store: Store, preset: Preset) -> Record | None:
        """What came out of an exam."""
        return store.get(exam.key(self.key, preset, self.recipe.spec))


def trained(recipe: Recipe, store: Store, preset: Preset, searches: Sequence[str] = SEARCHES[:1]) -> list[StoredModels]:
    """The candidates that a store has, each by the first of ``searches`` of which it has the models."""
    found = []
    for candidate in candidates(recipe, preset):
        search = stored_search(candidate, store, preset, searches)
        candidate = as_stored(candidate, store, preset, search)
        key = candidate.key(preset, search)
        record = store.get(key)
        if record is not None:
            found.append(StoredModels(candidate, key, search, record))
    return found


def as_stored(recipe: Recipe, store: Store | None, preset: Preset, search: str) -> Recipe:
    """The recipe by the newest way of crystallizing of which the store has the models; where it has none, as it is."""
    if store is not None and recipe.crystallized:
        ways = [replace(recipe, method=method) for method in METHODS]
        return next((one for one in ways if one.key(preset, search) in store), recipe)
    return recipe


def chosen(found: Sequence[StoredModels], criterion: str = "loss") -> StoredModels:
    """The one that validation prefers; of equal ones the first."""
    return min(found, key=lambda one: one.validation(criterion))


def stored_search(recipe: Recipe, store: Store, preset: Preset, searches: Sequence[str]) -> str:
    """The first of ``searches`` by which the store has a model, or else the first of all."""
    if len(searches) == 1:
        return searches[0]
    return next((search for search in searches if recipe.base.key(preset, search) in store), searches[0])
