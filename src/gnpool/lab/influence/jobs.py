"""The influence study as jobs: simulate cascades, train on them, choose seeds, and measure their influence."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnpool.engine import Caller, Engine
from gnpool.influence import CascadeGraph, Part, Selection, choose_seeds, collection, fit_monstor, make_labels, simulate
from gnpool.lab.influence.amount import (
    BASELINES,
    CHOSEN_WITH,
    LEARNED_WITH,
    MODELS,
    PROBABILITIES,
    STACKED,
    TARGETS,
    InfluenceAmount,
)
from gnpool.lab.running.job import Bench, Job, JobPart, Key
from gnpool.models import MONSTOR
from gnpool.store import Record, Store
from gnpool.training import seeded
from gnpool.training.machine import describe_machine
from gnpool.training.stopwatch import Stopwatch

DATA_SEED, EVALUATION_SEED = 0, 1
FIRST_BATCH = {"cuda": 500, "cpu": 50}  # nodes evaluated together in the first round of CELF
METHODS = {"simulated": "celf-mc"}  # row -> method that chooses its seeds, if it is not the usual one
MARKS = 10  # numbers of first seeds whose influence is measured


@dataclass(frozen=True)
class CascadesJob(Job):
    """A graph with the cascades to learn from; the lessons of one run share it."""

    one_core: ClassVar[bool] = False
    needed: ClassVar[bool] = True

    graph: str
    probability: str
    amount: InfluenceAmount

    @property
    def label(self) -> str:
        return f"{self.graph} {self.probability}"

    @property
    def key(self) -> Key:
        return {"table": "cascades", "graph": self.graph, "probability": self.probability}  # this key is never stored

    def side_by_side(self, jobs: int, engine: Engine) -> int:
        # On a GPU this takes less time than the host's part of the work; on a CPU each job uses all cores.
        return jobs if engine.device.type == "cuda" and not engine.remote else 1

    def work(self, bench: Bench) -> bool:
        self.part(bench)
        return True

    def part(self, bench: Bench) -> Part:
        """The graph with its cascades, which the first caller makes."""
        found: Part = bench.shared.held(self.label, lambda: self._simulated(bench))
        return found

    def _simulated(self, bench: Bench) -> Part:
        network = collection.read_graph(self.graph, "train", self.probability, self.amount.nodes)
        on_gpu = bench.device.type == "cuda"
        labels = make_labels(
            network,
            sets=self.amount.sets,
            runs=self.amount.simulations,
            seed=DATA_SEED,
            device=bench.device,
            folder=None if on_gpu else bench.store.root / "checkpoints" / "cascades",  # seconds there, minutes on a CPU
            engine=bench.engine,
            check=bench.check,
        )
        return Part.split(self.label, self.probability, network, labels)


@dataclass(frozen=True)
class Choice(Job):
    """Seeds on one graph and their influence. A lesson chooses with its models; as a job, it chooses without one."""

    one_core: ClassVar[bool] = False
    stage: ClassVar[int] = 2

    target: str
    probability: str
    model: str
    run: int
    amount: InfluenceAmount

    @property
    def label(self) -> str:
        return self.model

    @property
    def key(self) -> Key:
        names = (*CHOSEN_WITH, "sample") if self.model in BASELINES else dict.fromkeys((*LEARNED_WITH, *CHOSEN_WITH))
        where = {"target": self.target, "probability": self.probability, "model": self.model, "run": self.run}
        return {"table": "influence", **where, "preset": self.amount.digest(*names)}

    def side_by_side(self, jobs: int, engine: Engine) -> int:
        return engine.jobs(1)  # on a CPU each job uses all cores

    def work(self, bench: Bench, *model: Any) -> bool:
        """Choose seeds, by a model and the number of its applications or without, and measure their influence."""

        def compute(_: Path) -> Any:
            network = collection.read_graph(self.target, "test", self.probability, self.amount.nodes)
            work = (self, bench.device, bench.engine.share(network), *model)
            return bench.engine.call(choice_unit, *work, caller=bench.caller())

        return bench.record(self.key, compute) is not None


@dataclass(frozen=True)
class Lesson(Job):
    """A model for one target, and the seeds that it chooses there. It learns from the training graphs of the other two,
    with all probabilities together.
    """

    gpu_jobs: ClassVar[int] = 3  # trainings side by side: a single one leaves most of a GPU idle
    tells_lowest: ClassVar[bool] = False
    stage: ClassVar[int] = 1

    target: str
    model: str
    run: int
    amount: InfluenceAmount

    @property
    def label(self) -> str:
        return f"{self.target}: MONSTOR with {self.model}, run {self.run}"

    @property
    def key(self) -> Key:
        where = {"target": self.target, "model": self.model, "run": self.run}
        return {"table": "influence-training", **where, "preset": self.amount.digest(*LEARNED_WITH)}

    @property
    def sources(self) -> list[tuple[str, str]]:
        """Graphs and probabilities to learn from."""
        graphs = [name for name in sorted(TARGETS) if name != self.target]
        return [(graph, probability) for graph in graphs for probability in PROBABILITIES]

    @property
    def stacked(self) -> dict[str, int]:
        """How many times the model of each probability is applied."""
        more = 2 if self.target == "Celebrity" else 0
        return {name: count + (0 if name == "JI" else more) for name, count in STACKED.items()}

    @property
    def choices(self) -> list[Choice]:
        """The seeds that its models choose."""
        return [Choice(self.target, name, self.model, self.run, self.amount) for name in PROBABILITIES]

    def parts(self, store: Store, kind: str) -> list[JobPart]:
        return [JobPart(all(one.key in store for one in (self, *self.choices)), 1.0, "training")]

    def work(self, bench: Bench) -> bool:
        def train(checkpoint: Path) -> Any:
            cascades = (CascadesJob(*source, self.amount).part(bench) for source in self.sources)
            work = (self, bench.device, *map(bench.engine.share, cascades))
            return bench.engine.call(training_unit, *work, caller=bench.caller(checkpoint))

        record = bench.record(self.key, train)
        if record is None or not all(choice.work(bench, *model_of(record, choice)) for choice in self.choices):
            return False
        bench.finish()
        return True


def lessons(amount: InfluenceAmount) -> list[Lesson]:
    """Everything to train, in the order of work."""
    product = itertools.product(range(amount.runs), amount.targets, MODELS)
    return [Lesson(target, model, run, amount) for run, target, model in product]


def baseline_choices(amount: InfluenceAmount) -> list[Choice]:
    """Seeds that are chosen without a model; the choice by degree has no seed of its own, so it is made once."""
    product = itertools.product(amount.targets, PROBABILITIES, BASELINES, range(amount.runs))
    return [Choice(t, p, model, run, amount) for t, p, model, run in product if run == 0 or model != "degree"]


def influence_jobs(amount: InfluenceAmount, store: Store) -> list[Job]:
    """The missing jobs, ordered by run and then by target, so that an interrupted study has as much as possible to
    compare.
    """
    todo = [lesson for lesson in lessons(amount) if not all(part.held for part in lesson.parts(store, ""))]
    sources = (source for lesson in todo if lesson.key not in store for source in lesson.sources)
    late = [choice for choice in baseline_choices(amount) if choice.key not in store]
    return [*(CascadesJob(*source, amount) for source in dict.fromkeys(sources)), *todo, *late]


def model_of(record: Record, choice: Choice) -> tuple[MONSTOR, int]:
    """The model that a training selected for a probability, and how many times it is applied."""
    model = seeded(lambda: MONSTOR(MODELS[choice.model]), 0)
    model.load_state_dict(record.part(f"{choice.probability}/"))
    return model.eval(), record.scores[choice.probability]["stacked"]


def training_unit(
    caller: Caller, lesson: Lesson, device: torch.device, *parts: Part
) -> tuple[Any, dict[str, Tensor], dict[str, Any]]:
    """Train a lesson: scores, tensors and meta data. ``tell`` gets the share and the error so far, in percent."""
    if device.type == "cpu":
        torch.set_num_threads(1)  # set for this thread, so that results are the same to the bit on every machine
    clock = Stopwatch(caller.checkpoint)
    found = fit_monstor(
        parts,
        MODELS[lesson.model],
        seed=lesson.run,
        epochs=lesson.amount.epochs,
        stacked=lesson.stacked,
        device=device,
        checkpoint=caller.checkpoint,
        progress=lambda epoch, epochs, error: caller.tell(
            (0.98 * epoch / epochs, error if error is None else 100 * error)
        ),
        check=clock.around(caller.check),
    )
    scores, tensors = {}, dict[str, Tensor]()
    for probability, trained in found.items():
        names = ("stacked", "epoch", "error", "relative", "curve", "start")
        scores[probability] = {name: getattr(trained, name) for name in names}
        tensors |= {f"{probability}/{name}": value for name, value in trained.model.state_dict().items()}
    return scores, tensors, {**describe_machine(device), "seconds": clock.seconds, **lesson.amount.told}


def choice_unit(
    caller: Caller,
    choice: Choice,
    device: torch.device,
    graph: CascadeGraph,
    model: MONSTOR | None = None,
    stacked: int = 1,
) -> tuple[dict[str, Any], dict[str, Tensor], Key]:
    """Choose seeds and measure their influence: scores, no tensors, and meta data."""
    amount, began = choice.amount, time.monotonic()
    if model is not None and device.type == "cpu":
        torch.set_num_threads(1)
    found = choose_seeds(
        graph,
        amount.seeds,
        model=None if model is None else (model, stacked),
        method=METHODS.get(choice.model, choice.model),
        sample=amount.sample,
        seed=choice.run,
        # UBLF if the series of its bound is that of the original study; CELF for LP
        bounded=model is None or choice.probability != "LP",
        first_batch=500 if model is None else FIRST_BATCH.get(device.type, 50),
        device=device,
        progress=None if model is None else lambda done, of: caller.check(),
    )
    chosen = time.monotonic() - began
    scores = _measured(graph, found, amount.evaluation, device)
    meta = {**describe_machine(device), "seconds": time.monotonic() - began, "seconds_of_choice": chosen}
    return scores, {}, {**meta, **amount.told}


def _measured(graph: CascadeGraph, found: Selection, simulations: int, device: torch.device) -> dict[str, Any]:
    """The influence of the first tenth, two tenths, ... of the seeds, in the same cascades for all models."""
    sizes = sorted({max(1, round(len(found.seeds) * (i + 1) / MARKS)) for i in range(MARKS)})
    sets = [found.seeds[:size] for size in sizes]
    spread = simulate(graph, sets, simulations, seed=EVALUATION_SEED, paired=True, device=device)
    curve = zip(sizes, spread.influence.tolist(), spread.standard_error.tolist(), strict=True)
    return {
        "influence": float(spread.influence[-1]),
        "standard_error": float(spread.standard_error[-1]),
        "simulations": simulations,
        "estimate": found.influence if found.gains else None,
        "evaluations": found.evaluations,
        "violations": found.violations,
        "seeds": found.seeds,
        "curve": [{"seeds": k, "influence": mean, "standard_error": error} for k, mean, error in curve],
    }
