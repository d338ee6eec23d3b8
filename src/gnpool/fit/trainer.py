"""Short and whole trainings of the networks of a study, with their progress."""

from __future__ import annotations

import copy
import functools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gnpool.display.models import GNP
from gnpool.engine import Engine, ProcessEngine, side_by_side
from gnpool.fit.batches import FlatBatches
from gnpool.fit.networks import Frame, build, network_spec
from gnpool.fit.prepared import Prepared
from gnpool.training import Fit, Setting, fit_many, seeded
from gnpool.training.checkpoint import fingerprint_of
from gnpool.training.portfolio import default_starts, falling

FIRST_LOOK = 0.2  # share of the epochs; these short trainings choose the network and the finalists
SCOUT_GRAPHS = 2000  # a first look uses at most this many training graphs
LEARNING_RATES = (1e-2, 2e-3)
SEEDS = 3
LARGE_BATCH = 8192  # nodes; with smaller batches Python takes most of the time, and a second thread would only wait
LONG = 4000  # with this many epochs times batches in all trainings, starting other processes pays
Poolings = tuple[str, ...] | None  # None means GNP
# takes the current step in words, and the share of the whole work that is done
OnProgress = Callable[[str, float], None]


def label_of(poolings: Poolings) -> str:
    """The name of a competitor."""
    return GNP if poolings is None else "/".join(poolings)


@dataclass(frozen=True)
class Attempt:
    """One training of a network with these poolings; ``short`` is a first look."""

    frame: Frame
    poolings: Poolings
    short: bool
    text: str  # the progress message


@dataclass(frozen=True)
class Trained:
    """The result of a training, and the description of its network."""

    fit: Fit
    spec: dict[str, Any]

    @property
    def loss(self) -> float:
        """The lowest validation loss; infinite if every run diverged."""
        best = self.fit.best().best.get("loss")
        return math.inf if best is None else best.value


class Meter:
    """Counts the epochs that are done, for a progress bar.

    Args:
        on_progress (callable): Called with the current step in words, and the share of the whole work that is done.
        total (float): Epochs of the whole work, about.
    """

    def __init__(self, on_progress: OnProgress, total: float) -> None:
        self.on_progress, self.total = on_progress, total
        self.done: list[float] = []  # epochs done by each training
        self.lock = threading.Lock()

    def part(self, text: str, units: int) -> Callable[[int, float], None]:
        """A function that one training calls with a unit and the epochs that the unit has done."""
        with self.lock:
            mine = len(self.done)
            self.done.append(0.0)
        seen: dict[int, float] = {}

        def tell(unit: int, epochs: float) -> None:
            with self.lock:
                seen[unit] = epochs
                self.done[mine] = sum(seen.values()) / units
                self.on_progress(text, min(1.0, sum(self.done) / self.total))

        return tell


class Trainer:
    """Trains the networks of a study.

    Args:
        prepared (Prepared): The data to train on.
        engine (Engine): Runs the trainings, side by side if it has several processes.
        checkpoint (Path, optional): Folder for the state of the trainings.
        meter (Meter): Counts the epochs.
    """

    def __init__(self, prepared: Prepared, engine: Engine, checkpoint: Path | None, meter: Meter) -> None:
        self.prepared, self.engine, self.checkpoint, self.meter = prepared, engine, checkpoint, meter
        options, few = prepared.options, prepared.few
        rates = LEARNING_RATES[:1] if few else LEARNING_RATES
        self.settings = Setting.grid(lr=list(rates), clip=10.0, optimizer="adam", weight_decay=options.weight_decay)
        self.seeds = range(options.seed, options.seed + (options.seeds or (1 if few else SEEDS)))
        self.sample = copy.copy(prepared.data["train"])  # the first ones are a random sample
        self.sample.count = min(self.sample.count, SCOUT_GRAPHS)

    def all(self, trainings: Sequence[Attempt]) -> list[Trained]:
        """Run trainings one after another, or side by side if there are several processes."""
        jobs, found = self.engine.jobs(1), dict[int, Trained]()
        if jobs == 1:
            return [self.train(one) for one in trainings]

        def train(number: int) -> bool:
            found[number] = self.train(trainings[number])
            return True

        for error in side_by_side(train, range(len(trainings)), jobs, self.engine.stop).values():
            raise error
        return [found[number] for number in range(len(trainings))]

    def train(self, training: Attempt) -> Trained:
        """Run one training. A first look has one setting and seed; a whole one has all settings, seeds and starts."""
        prepared = self.prepared
        spec = network_spec(prepared, training.frame, training.poolings)
        settings: Sequence[Setting] = self.settings
        seeds: Sequence[int] = self.seeds
        if training.short:
            settings, seeds = settings[:1], seeds[:1]
        elif training.poolings is None:  # a portfolio, since other starts help more than other weights
            starts = default_starts(seeded(functools.partial(build, spec), 0))
            settings = [replace(one, start=start) for start in starts for one in settings]
            seeds = seeds if prepared.options.seeds else seeds[:1]
        data = self.sample if training.short else prepared.data["train"]
        epochs = short_of(prepared.epochs) if training.short else prepared.epochs
        return Trained(self._fit(spec, data, settings, seeds, epochs, training.text), spec)

    def _fit(
        self,
        spec: dict[str, Any],
        data: FlatBatches,
        settings: Sequence[Setting],
        seeds: Sequence[int],
        epochs: int,
        text: str,
    ) -> Fit:
        prepared, runs = self.prepared, len(settings) * len(seeds)
        on_cpu = torch.device(prepared.options.device).type == "cpu"
        nodes = data.batch_size * float(data.nodes.double().mean())
        units = 2 if on_cpu and runs > 1 and nodes > LARGE_BATCH else 1
        tell = self.meter.part(text, units)
        plan = {"spec": spec, "settings": [s.to_dict() for s in settings], "seeds": list(seeds), "graphs": data.count}
        name = fingerprint_of({**plan, "epochs": epochs, "problem": repr(prepared.problem)})
        found = fit_many(
            functools.partial(build, spec),
            data,
            prepared.problem.loss,
            settings,
            seeds=seeds,
            epochs=epochs,
            validation=prepared.data["validation"],
            schedule=functools.partial(falling, epochs),
            device=self.engine.device,
            unit=math.ceil(runs / units),
            vectorize=False if on_cpu and runs == 1 else None,
            checkpoint=None if self.checkpoint is None else self.checkpoint / name,
            progress=lambda event: tell(event.unit, event.epoch),
            engine=self.engine,
        )
        for unit in range(units):
            tell(unit, epochs)
        return found


def short_of(epochs: int) -> int:
    """The epochs of a first look."""
    return max(1, round(FIRST_LOOK * epochs))


@contextmanager
def on_all_cores(engine: Engine, prepared: Prepared, epochs: float) -> Iterator[Engine]:
    """An engine with a process for each core if that pays, that is, if there is much to train on data cheap to copy.

    ``epochs`` is the number of epochs of all trainings together.
    """
    cores = _cores()
    steps = epochs * len(prepared.data["train"])
    if engine.remote or engine.device.type != "cpu" or cores < 2 or prepared.few or steps < LONG:
        yield engine
        return
    with ProcessEngine(cores) as found:
        yield found


def _cores() -> int:
    """The number of cores that this process may use and that torch would use."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(here, torch.get_num_threads())
