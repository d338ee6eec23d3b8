"""Carries out the second half of a recipe: the chosen GNP models get exact poolings in place of learned ones."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnpool.insight import Crystal, crystallize
from gnpool.insight.crystallize import FRESH, SETTINGS
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import STAR, Exam, Recipe
from gnpool.lab.recipes.training import CRITERIA, chosen_models
from gnpool.store import Record
from gnpool.tasks import Task
from gnpool.training.machine import describe_machine
from gnpool.training.stopwatch import Stopwatch

SMOKE: dict[str, Any] = {"epochs": 1, "trials": 1}  # options of crystallize for the smoke preset
# For node tasks: their steps take ten times as long, and no refit is exact after a few steps; so fewer, longer refits.
NODE: dict[str, Any] = {"trials": 12, "settings": SETTINGS[1:], "graphs": None}
EARLIER_EXACT = 1e-3  # share of the given model's loss that earlier methods counted as exact
NODE_EPOCHS = 1 / 3  # share of the epochs that the learned models had


def crystallized(recipe: Recipe) -> Recipe:
    """The recipe of the same models with exact poolings in place of learned ones: the row ``GNP*`` beside ``GNP``."""
    return dataclasses.replace(recipe, model=recipe.model + STAR, crystallized=True)


def node_epochs(preset: Preset, task: Task) -> int:
    """Epochs for a refit on a node task."""
    return max(20, round(NODE_EPOCHS * preset.epochs_of(task)))


def crystallize_chosen(
    recipe: Recipe,
    preset: Preset,
    learned: Record,
    *,
    device: torch.device,
    checkpoint: Path,
    progress: Callable[[float], None],
    check: Callable[[], None],
) -> tuple[Any, dict[str, Tensor], dict[str, Any]]:
    """Crystallize each seed's model that the validation loss chose: scores, tensors and meta data for the store.

    It uses the training and validation data of the recipe. Node tasks run on ``device``, all others on the CPU, because
    their refits are so short that a GPU would spend its time starting. Refits keep their state in ``checkpoint`` and
    resume from it. ``check`` is called before every step, and may raise to stop.
    """
    node = recipe.spec.level == "node"
    device = device if node else torch.device("cpu")
    longer = {**NODE, "epochs": node_epochs(preset, recipe.spec)}
    options = {**(longer if node else {}), **(SMOKE if preset.name == "smoke" else {})}
    options |= {"device": device, "final_validation": False}  # the other models have not learned from it either
    clock, loss = Stopwatch(checkpoint), recipe.spec.loss
    check = clock.around(check)
    train, validation = recipe.batches("train", preset), recipe.batches("val", preset)
    chosen, crystals = learned.scores["chosen"]["loss"], []
    tensors: dict[str, Tensor] = {}
    models = chosen_models(recipe.base, Exam(), learned, "loss")
    for place, (seed, (model, failed)) in enumerate(models.items()):
        if model is None:
            crystals.append({"seed": seed, "poolings": {}, "biases": True, "reason": failed})
            continue
        tell = functools.partial(_tell, progress, place, len(models))
        folder = checkpoint / f"seed{seed}"
        found = crystallize(model, train, validation, loss, checkpoint=folder, progress=tell, check=check, **options)
        crystals.append(_describe(seed, found))
        tensors |= {f"loss/{seed}/{name}": value for name, value in found.model.state_dict().items()}
    scores = {"chosen": dict.fromkeys(CRITERIA, chosen), "crystals": crystals}
    return scores, tensors, {**describe_machine(device), "preset": preset.name, "seconds": clock.seconds}


def validation_of(crystallized: Record) -> float:
    """The mean validation loss of the chosen models over the seeds; infinite if a seed has no model.

    A loss that :func:`~gnpool.insight.crystallize` counts as exact counts as 0, because below it rounding decides.
    """
    losses = []
    for crystal in crystallized.scores["crystals"]:
        tried = [trial for trial in crystal.get("tried", ()) if trial["stage"] != "screened"]  # as given, then refits
        loss = next((trial["loss"] for trial in tried if trial["text"] == crystal["text"]), None)
        if loss is None:
            return math.inf
        exact = crystal.get("rounding", EARLIER_EXACT * abs(tried[0]["loss"] or 0.0))
        losses.append(0.0 if loss <= exact else loss)
    return math.fsum(losses) / len(losses)


def made_anew(crystallized: Record) -> str:
    """A description of the models if most were trained anew with one pooling in every layer; otherwise an empty text.

    Such a model takes the choice of the pooling from the learned one, but none of its weights.
    """
    crystals = crystallized.scores["crystals"]
    fresh = [crystal for crystal in crystals if str(crystal.get("text", "")).endswith(FRESH)]
    names = {name for crystal in fresh for layer in crystal["poolings"].values() for name in layer.values()}
    if 2 * len(fresh) <= len(crystals) or len(names) != 1:
        return ""
    return f"{names.pop()}, trained anew in {len(fresh)} of {len(crystals)} seeds"


def _tell(progress: Callable[[float], None], place: int, models: int, number: int, total: int, _: str) -> None:
    progress((place + number / total) / models)


def _describe(seed: int, found: Crystal) -> dict[str, Any]:
    """The choice, its reason, and everything that was tried."""
    return {
        "seed": seed,
        "poolings": found.choice.poolings,
        "biases": found.choice.biases,
        "own": found.choice.own,
        "reason": found.reason,
        "text": found.choice.describe(weights=True),
        "rounding": found.rounding,
        "steps": found.steps,
        "judged": found.judged,
        "verdict": found.verdict,
        "law": None if found.law is None else str(found.law),
        "trusted_size": found.trusted_size,
        "tried": [
            {
                "text": trial.describe(weights=True),
                "stage": trial.stage,
                "loss": trial.loss if math.isfinite(trial.loss) else None,
                "failed": trial.failed,
            }
            for trial in found.tried
        ],
        "reading": [dataclasses.asdict(branch) for branch in found.reading.branches],
    }
