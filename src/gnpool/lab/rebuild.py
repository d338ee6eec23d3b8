"""Crystallised models, from what the store holds of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from gnpool.insight.crystallize import replaced
from gnpool.lab.recipes import Recipe
from gnpool.store import Record
from gnpool.training import seeded


def crystal_models(recipe: Recipe, record: Record) -> dict[int, tuple[torch.nn.Module | None, str | None]]:
    """By seed, the model with its exact poolings, or why there is none."""
    chosen = record.scores["chosen"]["loss"]
    found: dict[int, tuple[torch.nn.Module | None, str | None]] = {}
    for seed, failed, crystal in zip(chosen["seeds"], chosen["failed"], record.scores["crystals"], strict=True):
        model = None
        if failed is None:
            model = seeded(partial(_exact, recipe, chosen["variant"], crystal), seed)
            model.load_state_dict(record.part(f"loss/{seed}/"))
        found[seed] = (model, failed)
    return found


def _exact(recipe: Recipe, variant: int, crystal: dict[str, Any]) -> torch.nn.Module:
    return replaced(recipe.build(recipe.variants[variant]), crystal["poolings"], crystal["biases"])
