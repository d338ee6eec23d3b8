"""Loads models from a store as modules."""

from __future__ import annotations

from pathlib import Path

import torch

from gnpool.insight import Reading, read
from gnpool.insight.crystallize import READ_GRAPHS
from gnpool.lab.recipes.forms import StoredModels, chosen, trained
from gnpool.lab.recipes.presets import Preset, get_preset
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.lab.recipes.training import chosen_models
from gnpool.lab.registry import find_table
from gnpool.lab.table import SEARCHES
from gnpool.store import Store


def stored(store: Store, recipe: Recipe, preset: Preset, search: str | None = None) -> StoredModels:
    """The stored models of a recipe, in the form that validation prefers, as the record shows them.

    ``search`` says how the setting was found. (default: the first of :obj:`SEARCHES` that is stored)
    """
    found = trained(recipe, store, preset, SEARCHES if search is None else (search,))
    if not found:
        by = "" if search is None else f", search {search}"
        raise ValueError(
            f"{store.root} has no {recipe.model} for {recipe.task} (preset {preset.name}{by}); "
            f"train it with 'gnpool reproduce'"
        )
    return chosen(found)


def models_of(one: StoredModels) -> dict[int, torch.nn.Module]:
    """The models that the loss chose, by seed, without runs that failed."""
    found = chosen_models(one.recipe, Exam(), one.record, "loss")
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
    """Load the model of one cell and seed, such as ``stored_model("results/paper", "exp_graph_harmonic", "GNP*")``.

    Args:
        store (Store or str or Path): The store, or its folder.
        table (str): The table in which the model stands.
        row (str): Its row.
        column (str, optional): Its column. (default: the first column of the row)
        seed (int, optional): Seed of the run. (default: ``0``)
        preset (str, optional): The preset that trained it. (default: ``"paper"``)
        search (str, optional): How its setting was chosen. (default: by the whole grid, or point by point if only that
            is stored)
        data_seed (int, optional): Seed of its training data. (default: ``0``)
    """
    store = store if isinstance(store, Store) else Store(store, create=False)
    recipe: Recipe = find_table(table).model_cell(row, column).recipe
    models = models_of(stored(store, recipe, get_preset(preset, data_seed), search))
    if seed not in models:
        raise ValueError(f"'seed' must be one of {', '.join(map(str, models))}, got {seed}")
    return models[seed]


def read_stored(
    store: Store, recipe: Recipe, seed: int, preset: Preset, search: str | None = None
) -> tuple[Reading, dict[str, dict[str, list[float]]]]:
    """The reading of a learned model on validation data, and the curves of its exponents over training, by layer.

    A crystallized model returns those of the learned model that it was made from.
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
