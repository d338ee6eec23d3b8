"""Models that a store holds, as modules."""

from __future__ import annotations

from pathlib import Path

import torch

from gnpool.insight import Reading, read
from gnpool.insight.crystallize import READ_GRAPHS
from gnpool.lab.recipes.forms import StoredModels, chosen, trained
from gnpool.lab.recipes.presets import Preset, get_preset
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.lab.recipes.table import Cell
from gnpool.lab.recipes.training import chosen_models
from gnpool.lab.registry import find_table
from gnpool.lab.table import SEARCHES
from gnpool.store import Store


def stored(
    store: Store, recipe: Recipe, preset: Preset, search: str | None = None, criterion: str = "loss"
) -> StoredModels:
    """What the store has of a recipe, in the form of the network that validation prefers: what the record shows.

    ``search`` is how its setting was found. (default: the first of :obj:`SEARCHES` by which the store has it)
    """
    found = trained(recipe, store, preset, SEARCHES if search is None else (search,))
    if not found:
        by = "" if search is None else f", search {search}"
        raise ValueError(
            f"{store.root} has no {recipe.model} for {recipe.task} (preset {preset.name}{by}); "
            f"'gnpool reproduce' trains it"
        )
    return chosen(found, criterion)


def stored_models(
    store: Store, recipe: Recipe, preset: Preset, search: str | None = None, criterion: str = "loss"
) -> dict[int, torch.nn.Module]:
    """By seed, the chosen models of a recipe, learned or crystallized; a run that failed is left out."""
    return models_of(stored(store, recipe, preset, search, criterion), criterion)


def models_of(one: StoredModels, criterion: str = "loss") -> dict[int, torch.nn.Module]:
    """By seed, the models that a criterion chose; a run that failed is left out."""
    found = chosen_models(one.recipe, Exam(), one.record, criterion)
    return {seed: model.eval() for seed, (model, _) in found.items() if model is not None}


def stored_model(
    store: Store | str | Path,
    table: str,
    row: str,
    column: str | None = None,
    seed: int = 0,
    *,
    preset: str = "paper",
    search: str | None = None,
    data_seed: int = 0,
) -> torch.nn.Module:
    """The model of one cell and seed, such as ``stored_model("results/paper", "exp_graph_harmonic", "GNP*")``.

    Args:
        store (Store or str or Path): The store, or its folder.
        table (str): The table in which the model stands.
        row (str): Its row.
        column (str, optional): Where there are several. (default: the first column of the row)
        seed (int, optional): Seed of the run. (default: ``0``)
        preset (str, optional): How it was trained. (default: ``"paper"``)
        search (str, optional): How its setting was chosen. (default: by the whole grid, or point by point if that is
            all there is)
        data_seed (int, optional): Of the data that it was trained on. (default: ``0``)
    """
    store = store if isinstance(store, Store) else Store(store, create=False)
    models = stored_models(store, find_cell(table, row, column).recipe, get_preset(preset, data_seed), search)
    if seed not in models:
        raise ValueError(f"'seed' must be one of {', '.join(map(str, models))}, got {seed}")
    return models[seed]


def read_stored(
    store: Store, recipe: Recipe, seed: int, preset: Preset, search: str | None = None
) -> tuple[Reading, dict[str, dict[str, list[float]]]]:
    """The reading of a learned model on validation data, and the way of its exponents through training, by layer.

    Of crystallized models it is that of the learned ones that they were made from.
    """
    one = stored(store, recipe, preset, search).learned(store, preset)
    models = models_of(one)
    if seed not in models:
        raise ValueError(f"'seed' must be one of {', '.join(map(str, models))}, got {seed}")
    validation = recipe.batches("val", preset)
    reading = read(models[seed], validation.cut(torch.arange(min(READ_GRAPHS, validation.count))))
    curves: dict[str, dict[str, list[float]]] = {}
    for name, values in sorted((one.record.tensors or {}).items()):
        layer, _, exponent = name.removeprefix("curve/").rpartition(".")
        if name.startswith("curve/") and exponent[:2] in ("p_", "q_"):
            curves.setdefault(layer, {})[exponent] = values[:, list(models).index(seed)].tolist()
    return reading, curves


def find_cell(table: str, row: str, column: str | None = None) -> Cell:
    """A cell by the names of its row and column; without a column the first of the row."""
    found: Cell = find_table(table).model_cell(row, column)
    return found
