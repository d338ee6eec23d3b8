"""The work behind one recipe: train it, hold its exams, store both, and tell how far it is."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gnpool.engine import Caller, Engine
from gnpool.engine.schedule import POLL_SECONDS
from gnpool.lab.crystallised import crystallise
from gnpool.lab.presets import Preset
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.training import examine, train, train_or_load
from gnpool.store import Record, Store
from gnpool.training import Progress
from gnpool.training.machine import describe_machine


@dataclass(frozen=True)
class Report:
    """How far a study is: the share of its training, or what it has finished."""

    study: int
    fraction: float = 1.0
    error: float | None = None  # lowest validation value of the metric so far
    finished: int | None = None  # 0: the training; k: exam number k - 1


@dataclass(frozen=True)
class Bench:
    """Where work units are computed.

    Args:
        preset (Preset): How much of the study to do.
        device (torch.device): Where to train.
        search (str): ``"all"`` or ``"point"``.
        threads (int): Work units of one training side by side.
        stopped (callable): Whether to stop.
        tell (callable): Called with a :class:`Report` now and then.
        engine (Engine): Who computes them. (default: this thread)
    """

    preset: Preset
    device: torch.device
    search: str
    threads: int
    stopped: Callable[[], bool]
    tell: Callable[[Report], None]
    engine: Engine = field(default_factory=Engine)

    def train(self, number: int, recipe: Recipe, learned: Record | None, checkpoint: Path) -> Any:
        """Scores, tensors and meta data of a training, or of the ``learned`` models crystallised."""
        caller = Caller(self.stopped, self.tell, checkpoint)
        work = (number, recipe, learned, self.preset, self.device, self.search, self.threads)
        return self.engine.call(training_unit, *work, caller=caller)

    def hold(self, recipe: Recipe, exam: Exam, trained: Record) -> Any:
        """Scores, tensors and meta data of an exam."""
        caller = Caller(self.stopped, self.tell)
        return self.engine.call(exam_unit, recipe, exam, trained, self.preset, self.device, caller=caller)

    def check(self) -> None:
        """Leave, if that was asked for."""
        Caller(self.stopped).check()


def training_unit(
    caller: Caller,
    number: int,
    recipe: Recipe,
    learned: Record | None,
    preset: Preset,
    device: torch.device,
    search: str,
    threads: int,
) -> Any:
    """The unit of :meth:`Bench.train`."""
    if device.type == "cpu":
        torch.set_num_threads(1)  # of this thread: the same bits whatever the machine has
    assert caller.checkpoint is not None
    if learned is not None:
        return crystallise(
            recipe,
            preset,
            learned,
            device=device,
            checkpoint=caller.checkpoint,
            progress=lambda fraction: caller.tell(Report(number, fraction)),
            check=caller.check,
        )
    epochs = preset.epochs_of(recipe.spec)
    seen: dict[int, int] = {}  # epochs done by work unit of the fit at hand
    lowest = math.inf

    def progress(step: Progress) -> None:
        nonlocal lowest
        caller.check()
        seen[step.unit] = step.epoch
        lowest = min(lowest, step.best["metric"])
        fraction = sum(seen.values()) / (epochs * step.units)
        caller.tell(Report(number, fraction, lowest if math.isfinite(lowest) else None))

    return train(
        recipe,
        preset,
        search=search,
        device=device,
        workers=threads,
        checkpoint=caller.checkpoint,
        progress=progress,
        check=caller.check,
    )


def exam_unit(caller: Caller, recipe: Recipe, exam: Exam, trained: Record, preset: Preset, device: torch.device) -> Any:
    """The unit of :meth:`Bench.hold`."""
    if device.type == "cpu":
        torch.set_num_threads(1)
    began = time.monotonic()
    scores = examine(recipe, exam, preset, trained, device, caller.check)
    return scores, {}, {**describe_machine(device), "seconds": time.monotonic() - began}


@dataclass(frozen=True)
class Worker:
    """Carries out studies, and keeps what they give.

    Args:
        store (Store): Where results are kept, and found again.
        bench (Bench): Where they are computed.
    """

    store: Store
    bench: Bench

    def study(self, number: int, recipe: Recipe, exams: list[Exam]) -> bool:
        """Train a recipe and hold its exams; False if another process is at it."""
        bench = self.bench
        bench.check()
        if recipe.crystallised and self._trained(number, recipe.base) is None:
            return False
        key = recipe.key(bench.preset, bench.search)
        trained = self._trained(number, recipe)
        if trained is None:
            return False
        bench.tell(Report(number, finished=0))
        for place, exam in enumerate(exams, start=1):
            hold = functools.partial(self._hold, recipe, exam, trained)
            while train_or_load(self.store, exam.key(key, bench.preset, recipe.spec), hold) is None:
                bench.check()
                time.sleep(POLL_SECONDS)
            bench.tell(Report(number, finished=place))
            bench.check()
        return True

    def _trained(self, number: int, recipe: Recipe) -> Record | None:
        key = recipe.key(self.bench.preset, self.bench.search)
        return train_or_load(self.store, key, functools.partial(self._train, number, recipe))

    def _train(self, number: int, recipe: Recipe, checkpoint: Path) -> Any:
        learned = None
        if recipe.crystallised:
            learned = self.store.get(recipe.base.key(self.bench.preset, self.bench.search))
            if learned is None:
                raise RuntimeError(f"the models of {recipe.base.model} are gone from the store")  # it was just there
        return self.bench.train(number, recipe, learned, checkpoint)

    def _hold(self, recipe: Recipe, exam: Exam, trained: Record, _: Path) -> Any:
        return self.bench.hold(recipe, exam, trained)
