"""Crystallised models, from what the store holds of them."""

from __future__ import annotations

import torch

from gnpool.insight.crystallize import replaced
from gnpool.lab.recipes import Recipe
from gnpool.store import Record


def crystal_models(recipe: Recipe, record: Record) -> dict[int, tuple[torch.nn.Module | None, str | None]]:
    """By seed, the model with its exact poolings, or why there is none."""
    assert record.tensors is not None
    chosen = record.scores["chosen"]["loss"]
    found: dict[int, tuple[torch.nn.Module | None, str | None]] = {}
    for seed, failed, crystal in zip(chosen["seeds"], chosen["failed"], record.scores["crystals"], strict=True):
        model = None
        if failed is None:
            learned = recipe.build(recipe.variants[chosen["variant"]])
            model = replaced(learned, crystal["poolings"], crystal["biases"])
            prefix = f"loss/{seed}/"
            model.load_state_dict(
                {n.removeprefix(prefix): v for n, v in record.tensors.items() if n.startswith(prefix)}
            )
        found[seed] = (model, failed)
    return found
