"""Carries out a recipe: trains its grid, chooses by validation, and keeps the chosen weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnpool.insight.crystallize import replaced
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.store import Record
from gnpool.training import Fit, Progress, Setting, evaluate_items, fit_many, seeded
from gnpool.training.machine import describe_machine
from gnpool.training.result import Outcome
from gnpool.training.stopwatch import Stopwatch

CRITERIA = ("loss", "metric")  # what selects a model: the validation loss, as in the paper, or the metric of its tables
Models = dict[int, tuple[torch.nn.Module | None, str | None]]  # by seed: a model, or the reason why there is none


@dataclass(frozen=True)
class Candidate:
    """An architecture and a setting, with its fit and the position of that fit in the recipe."""

    variant: int
    setting: Setting
    fit: Fit

    @property
    def runs(self) -> list[Outcome]:
        """Its runs, one for each seed."""
        return self.fit.runs_of(self.setting)

    def mean(self, criterion: str) -> float:
        """The mean over seeds of the best validation values; infinite if a run has none."""
        values = [run.best[criterion].value if criterion in run.best else math.inf for run in self.runs]
        return math.fsum(values) / len(values)

    def told(self) -> Iterator[dict[str, Any]]:
        """Its runs as JSON objects."""
        for run in self.runs:
            best = {name: {"epoch": best.epoch, "value": best.value} for name, best in run.best.items()}
            told = {"variant": self.variant, "setting": run.setting.to_dict(), "seed": run.seed}
            yield {**told, "best": best, "failed": run.failed}

    def choice(self, criterion: str) -> dict[str, Any]:
        """What the scores say of it if a criterion has chosen it."""
        return {
            "variant": self.variant,
            "setting": self.setting.to_dict(),
            "validation": self.mean(criterion),
            "seeds": [run.seed for run in self.runs],
            "failed": [run.failed if criterion not in run.best else None for run in self.runs],
        }


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
    clock, task, epochs = Stopwatch(checkpoint), recipe.spec, preset.epochs_of(recipe.spec)
    settings, seeds = preset.settings(recipe.space), range(preset.seeds)
    training, validation = recipe.batches("train", preset), recipe.batches("val", preset)
    slow = device.type == "cpu" and preset.unit == 1  # for one run, vmap takes twice as long

    def fit(variant: int, settings: Sequence[Setting], seeds: Sequence[int], phase: str) -> list[Candidate]:
        found = fit_many(
            lambda: recipe.build(recipe.variants[variant]),
            training,
            task.loss,
            settings,
            seeds=seeds,
            epochs=epochs,
            validation=validation,
            criteria={"metric": task.metric},
            schedule=preset.schedule(epochs),
            device=device,
            unit=preset.unit,
            workers=workers,
            vectorize=False if slow else None,
            checkpoint=checkpoint / f"variant{variant}-{phase}",
            progress=progress,
            check=clock.around(check),
        )
        return [Candidate(variant, setting, found) for setting in dict.fromkeys(run.setting for run in found.runs)]

    point = search == "point" and len(settings) * len(recipe.variants) > 1
    first, phase = (seeds[:1], "point") if point else (seeds, "all")
    tried = [one for variant in range(len(recipe.variants)) for one in fit(variant, settings, first, phase)]
    chosen = {criterion: min(tried, key=lambda one: one.mean(criterion)) for criterion in CRITERIA}
    if point:
        wanted: dict[int, list[Setting]] = {}  # by variant, each setting once: the criteria mostly agree
        for one in chosen.values():
            if one.setting not in wanted.setdefault(one.variant, []):
                wanted[one.variant].append(one.setting)
        again = [one for variant, those in wanted.items() for one in fit(variant, those, seeds, "point-best")]
        found = {(one.variant, one.setting): one for one in again}
        chosen = {criterion: found[one.variant, one.setting] for criterion, one in chosen.items()}
        tried += again
    scores = {
        "runs": [told for candidate in tried for told in candidate.told()],
        "chosen": {criterion: candidate.choice(criterion) for criterion, candidate in chosen.items()},
    }
    meta = {**describe_machine(device), "preset": preset.name, "seconds": clock.seconds}
    return scores, _tensors(chosen), meta


def _tensors(chosen: Mapping[str, Candidate]) -> dict[str, Tensor]:
    """The weights that each criterion chose, and the curves of the runs that the loss chose."""
    found: dict[str, Tensor] = {}
    for criterion, candidate in chosen.items():
        states = [candidate.fit.state_dict(run, criterion) for run in candidate.runs]
        found |= {f"{criterion}/{name}": torch.stack([state[name] for state in states]) for name in states[0]}
    best = chosen["loss"]
    for name in ("train", "loss", "metric", *best.fit.watched):
        found[f"curve/{name}"] = best.fit.curve(name)[:, [run.number for run in best.runs]]
    return found


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
