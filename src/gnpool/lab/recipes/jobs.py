"""The job of one recipe: trains it, runs its exams, stores both, and reports progress."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from gnpool.engine import Caller
from gnpool.engine.schedule import POLL_SECONDS
from gnpool.lab.recipes.cost import exam_seconds, training_seconds
from gnpool.lab.recipes.crystallized import crystallize_chosen
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.lab.recipes.training import examine, train
from gnpool.lab.running.data import Wanted
from gnpool.lab.running.job import Bench, Job, JobPart, Key
from gnpool.store import Record, Store
from gnpool.training import Progress
from gnpool.training.machine import describe_machine


@dataclass(frozen=True)
class RecipeJob(Job):
    """A training and its exams.

    Args:
        recipe (Recipe): What to train, or to crystallize.
        exams (tuple): Tests for the chosen models.
        preset (Preset): How much of the study to do.
        search (str): How to search the settings, see :func:`~gnpool.lab.recipes.training.train`.
    """

    separable: ClassVar[bool] = True

    recipe: Recipe
    exams: tuple[Exam, ...]
    preset: Preset
    search: str

    @property
    def label(self) -> str:
        what = [self.recipe.task, self.recipe.data and f"({self.recipe.data})"]
        return " ".join(filter(None, what)) + f": {self.recipe.model}"

    @property
    def key(self) -> Key:
        return self.recipe.key(self.preset, self.search)

    @property
    def root(self) -> str:
        return _text(self.recipe.base)

    @property
    def name(self) -> str:
        return _text(self.recipe)

    def joined(self, other: RecipeJob) -> Self:
        return replace(self, exams=tuple(dict.fromkeys([*self.exams, *other.exams])))

    def exam_key(self, exam: Exam) -> Key:
        """The name of an exam in the store."""
        return exam.key(self.key, self.preset, self.recipe.spec)

    def parts(self, store: Store, kind: str) -> Sequence[JobPart]:
        trained = store.get(self.key) is not None  # this checks every byte, because damaged units have to be done again
        seconds = training_seconds(self.recipe, self.preset, self.search, kind)
        exams = ((self.exam_key(exam), exam_seconds(self.recipe, exam, self.preset, kind)) for exam in self.exams)
        tests = (JobPart(trained and key in store, seconds, "exam") for key, seconds in exams)
        return (JobPart(trained, seconds, "training"), *tests)

    def data(self, store: Store) -> set[str]:
        return {exam.given for exam in self.exams if exam.given is not None and self.exam_key(exam) not in store}

    def wants(self, store: Store) -> Iterator[tuple[Wanted, int | None]]:
        if self.recipe.base.key(self.preset, self.search) not in store:
            yield self.recipe.wanted("train", self.preset), self.preset.epochs_of(self.recipe.spec)
            yield self.recipe.wanted("val", self.preset), None

    def work(self, bench: Bench) -> bool:
        bench.check()
        learned = self._trained(bench, self.recipe.base) if self.recipe.crystallized else None
        if self.recipe.crystallized and learned is None:
            return False
        trained = self._trained(bench, self.recipe, learned)
        if trained is None:
            return False
        bench.finish()
        for place, exam in enumerate(self.exams, start=1):
            while bench.record(self.exam_key(exam), functools.partial(self._hold, bench, exam, trained)) is None:
                bench.check()
                time.sleep(POLL_SECONDS)
            bench.finish(place)
            bench.check()
        return True

    def _trained(self, bench: Bench, recipe: Recipe, learned: Record | None = None) -> Record | None:
        """Trained models, or those that are crystallized from ``learned`` ones; None if another process is at it."""

        def compute(checkpoint: Path) -> Any:
            work = (recipe, learned, self.preset, bench.device, self.search, bench.threads)
            return bench.engine.call(training_unit, *work, caller=bench.caller(checkpoint))

        return bench.record(recipe.key(self.preset, self.search), compute)

    def _hold(self, bench: Bench, exam: Exam, trained: Record, _: Path) -> Any:
        work = (self.recipe, exam, trained, self.preset, bench.device)
        return bench.engine.call(exam_unit, *work, caller=bench.caller())


def _text(recipe: Recipe) -> str:
    return json.dumps(recipe.__dict__, default=dict, sort_keys=True)


def training_unit(
    caller: Caller,
    recipe: Recipe,
    learned: Record | None,
    preset: Preset,
    device: torch.device,
    search: str,
    threads: int,
) -> Any:
    """Scores, tensors and meta data of a training, or of crystallizing the ``learned`` models."""
    if device.type == "cpu":
        torch.set_num_threads(1)  # set for this thread, so that results are the same to the bit on every machine
    assert caller.checkpoint is not None
    common: dict[str, Any] = {"device": device, "checkpoint": caller.checkpoint, "check": caller.check}
    if learned is not None:
        return crystallize_chosen(recipe, preset, learned, progress=lambda share: caller.tell((share,)), **common)
    epochs = preset.epochs_of(recipe.spec)
    seen: dict[int, int] = {}  # epochs done in the current fit, by work unit
    lowest = math.inf

    def progress(step: Progress) -> None:
        nonlocal lowest
        caller.check()
        seen[step.unit] = step.epoch
        lowest = min(lowest, step.best["metric"])
        share = sum(seen.values()) / (epochs * step.units)
        caller.tell((share, lowest if math.isfinite(lowest) else None))

    return train(recipe, preset, search=search, workers=threads, progress=progress, **common)


def exam_unit(caller: Caller, recipe: Recipe, exam: Exam, trained: Record, preset: Preset, device: torch.device) -> Any:
    """Run an exam: scores, tensors and meta data."""
    if device.type == "cpu":
        torch.set_num_threads(1)
    began = time.monotonic()
    scores = examine(recipe, exam, preset, trained, device, caller.check)
    return scores, {}, {**describe_machine(device), "seconds": time.monotonic() - began}
