"""Carries out a recipe: trains its grid, chooses by validation, and keeps the chosen weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnpool.insight.crystallize import replaced
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.store import Record
from gnpool.training import Batches, Fit, Progress, Setting, evaluate_items, fit_many, seeded
from gnpool.training.machine import describe_machine
from gnpool.training.stopwatch import Stopwatch

CRITERIA = ("loss", "metric")  # what selects a model: the validation loss, as in the paper, or the metric of its tables
Models = dict[int, tuple[torch.nn.Module | None, str | None]]  # by seed: a model, or the reason why there is none


@dataclass(frozen=True)
class Candidate:
    """An architecture and a setting, with its fit and the position of that fit in the recipe."""

    variant: int
    setting: Setting
    fit: Fit

    def mean(self, criterion: str) -> float:
        """The mean over seeds of the best validation values; infinite if a run has none."""
        runs = self.fit.runs_of(self.setting)
        values = [run.best[criterion].value if criterion in run.best else math.inf for run in runs]
        return math.fsum(values) / len(values)


def train(
    recipe: Recipe,
    preset: Preset,
    *,
    search: str,
    device: torch.device,
    workers: int,
    checkpoint: Path,
    progress: Callable[[Progress], None],
    check: Callable[[], None],
) -> tuple[Any, dict[str, Tensor], dict[str, Any]]:
    """Train a recipe: raw scores, tensors and meta data for the store.

    With ``search="all"`` every setting is trained with every seed. With ``"point"`` every setting is trained with the
    first seed, and the best setting with every seed. ``check`` is called before every step, and may raise to stop.
    """
    clock = Stopwatch(checkpoint)
    settings, seeds = list(preset.settings(recipe.space)), list(range(preset.seeds))
    data = {split: recipe.batches(split, preset) for split in ("train", "val")}
    fit = functools.partial(_fit, recipe, preset, data, device, workers, checkpoint, progress, clock.around(check))
    if search == "point" and len(settings) * len(recipe.variants) > 1:
        tried = _candidates(recipe, lambda variant: fit(variant, settings, seeds[:1], "point"))
        best = {criterion: min(tried, key=lambda c: c.mean(criterion)) for criterion in CRITERIA}
        wanted: dict[int, list[Setting]] = {}  # by variant, each setting once: the criteria mostly agree
        for candidate in best.values():
            if candidate.setting not in wanted.setdefault(candidate.variant, []):
                wanted[candidate.variant].append(candidate.setting)
        again = {variant: fit(variant, those, seeds, "point-best") for variant, those in wanted.items()}
        chosen = {name: Candidate(one.variant, one.setting, again[one.variant]) for name, one in best.items()}
        tried += [Candidate(variant, one, again[variant]) for variant, those in wanted.items() for one in those]
    else:
        tried = _candidates(recipe, lambda variant: fit(variant, settings, seeds, "all"))
        chosen = {criterion: min(tried, key=lambda c: c.mean(criterion)) for criterion in CRITERIA}
    scores = {
        "runs": [run for candidate in tried for run in _runs(candidate)],
        "chosen": {
            criterion: {
                "variant": candidate.variant,
                "setting": candidate.setting.to_dict(),
                "validation": candidate.mean(criterion),
                "seeds": seeds,
                "failed": [run.failed if criterion not in run.best else None for run in _chosen_runs(candidate)],
            }
            for criterion, candidate in chosen.items()
        },
    }
    tensors: dict[str, Tensor] = {}
    for criterion, candidate in chosen.items():
        states = [candidate.fit.state_dict(run, criterion) for run in _chosen_runs(candidate)]
        tensors |= {f"{criterion}/{name}": torch.stack([state[name] for state in states]) for name in states[0]}
    numbers = [run.number for run in _chosen_runs(chosen["loss"])]
    for name in ("train", "loss", "metric", *chosen["loss"].fit.watched):
        tensors[f"curve/{name}"] = chosen["loss"].fit.curve(name)[:, numbers]
    return scores, tensors, {**describe_machine(device), "preset": preset.name, "seconds": clock.seconds}


def _fit(
    recipe: Recipe,
    preset: Preset,
    data: dict[str, Batches],
    device: torch.device,
    workers: int,
    checkpoint: Path,
    progress: Callable[[Progress], None],
    check: Callable[[], None],
    variant: int,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    phase: str,
) -> Fit:
    task = recipe.spec
    epochs, cpu = preset.epochs_of(task), device.type == "cpu"
    return fit_many(
        lambda: recipe.build(recipe.variants[variant]),
        data["train"],
        task.loss,
        settings,
        seeds=seeds,
        epochs=epochs,
        validation=data["val"],
        criteria={"metric": task.metric},
        schedule=preset.schedule(epochs),
        device=device,
        unit=preset.unit,
        workers=workers,
        vectorize=False if cpu and preset.unit == 1 else None,  # for one run, vmap takes twice as long
        checkpoint=checkpoint / f"variant{variant}-{phase}",
        progress=progress,
        check=check,
    )


def _candidates(recipe: Recipe, fit: Callable[[int], Fit]) -> list[Candidate]:
    found = []
    for variant in range(len(recipe.variants)):
        result = fit(variant)
        found += [Candidate(variant, setting, result) for setting in dict.fromkeys(run.setting for run in result.runs)]
    return found


def _chosen_runs(candidate: Candidate) -> list[Any]:
    return candidate.fit.runs_of(candidate.setting)


def _runs(candidate: Candidate) -> list[dict[str, Any]]:
    return [
        {
            "variant": candidate.variant,
            "setting": run.setting.to_dict(),
            "seed": run.seed,
            "best": {name: {"epoch": best.epoch, "value": best.value} for name, best in run.best.items()},
            "failed": run.failed,
        }
        for run in _chosen_runs(candidate)
    ]


def examine(
    recipe: Recipe, exam: Exam, preset: Preset, trained: Record, device: torch.device, check: Callable[[], None]
) -> dict[str, Any]:
    """Raw scores of the chosen models by selection criterion: mean and median over test items, for each seed.

    ``check`` is called before every batch, and may raise to stop.
    """
    task = recipe.spec
    criteria = CRITERIA[:1] if recipe.crystallized else CRITERIA
    models = {criterion: chosen_models(recipe, exam, trained, criterion) for criterion in criteria}
    items: dict[tuple[str, int], list[Tensor]] = {}
    for batch in exam.batches(task, preset):
        check()
        here = [batch.to(device)]
        for criterion, chosen in models.items():
            for seed, (model, _) in chosen.items():
                if model is not None:
                    values = evaluate_items(model, here, task.metric, device=device)
                    items.setdefault((criterion, seed), []).append(values)
    scores = {
        criterion: [_score(seed, items.get((criterion, seed)), failed) for seed, (_, failed) in chosen.items()]
        for criterion, chosen in models.items()
    }
    return {criterion: scores.get(criterion, scores["loss"]) for criterion in CRITERIA}


def chosen_models(recipe: Recipe, exam: Exam, trained: Record, criterion: str) -> Models:
    """By seed, the model that a criterion chose, or the reason why there is none."""
    crystals = trained.scores["crystals"] if recipe.crystallized else None  # of the models that the loss chose
    chosen = trained.scores["chosen"]["loss" if recipe.crystallized else criterion]
    found: Models = {}
    for k, (seed, failed) in enumerate(zip(chosen["seeds"], chosen["failed"], strict=True)):
        model = None
        if failed is None:
            build = functools.partial(recipe.build, recipe.variants[chosen["variant"]])
            if crystals is None:
                model = seeded(functools.partial(build, **exam.changes()), seed)
                weights = {name: value[k] for name, value in trained.part(f"{criterion}/").items()}
            else:
                model = seeded(functools.partial(_exact, build, crystals[k]), seed)
                weights = trained.part(f"loss/{seed}/")
            model.load_state_dict(weights)
        found[seed] = (model, failed)
    return found


def _exact(build: Callable[[], torch.nn.Module], crystal: dict[str, Any]) -> torch.nn.Module:
    return replaced(build(), crystal["poolings"], crystal["biases"], crystal.get("own", True))


def _score(seed: int, items: list[Tensor] | None, failed: str | None) -> dict[str, Any]:
    if items is None:
        return {"seed": seed, "mean": None, "median": None, "failed": failed}
    values = torch.cat(items)
    mean = values.mean().item()
    if not math.isfinite(mean):
        return {"seed": seed, "mean": None, "median": None, "failed": "the error is not finite"}
    return {"seed": seed, "mean": mean, "median": values.median().item(), "failed": None}
