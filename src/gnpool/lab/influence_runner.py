"""Run the influence study: simulate what to learn from, train, choose seeds, and measure their influence."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gnpool.influence import (
    CascadeGraph,
    ModelGains,
    MonteCarloGains,
    Part,
    Selection,
    degree_seeds,
    fit_monstor,
    influence_bound,
    lazy_greedy,
    make_labels,
    random_seeds,
    simulate,
)
from gnpool.lab.influence import BASELINES, MODELS, PROBABILITIES, Choice, InfluenceAmount, Training, read_graph
from gnpool.lab.runner import Event
from gnpool.lab.side_by_side import side_by_side
from gnpool.lab.studies import POLL_SECONDS, StoppedError
from gnpool.models import MONSTOR
from gnpool.store import Record, Store
from gnpool.training.machine import describe_machine

GPU_JOBS = 3  # trainings side by side: one alone leaves most of a GPU idle
DATA_SEED, EVALUATION_SEED = 0, 1
FIRST_BATCH = {"cuda": 500, "cpu": 50}  # nodes evaluated together in the first round of CELF
MARKS = 10  # sizes at which the influence of the first seeds is measured


class InfluenceRunner:
    """Fills a store with what the table needs.

    Work goes run by run, and in each run target by target, so that wherever it ends as much as possible is comparable.

    Args:
        store (Store): Where results are kept, and found again.
        amount (InfluenceAmount): How much of the study to do.
        device (torch.device): Where to simulate, train and choose.
        jobs (int, optional): Trainings side by side. (default: 3 on a GPU, 1 on a CPU, where each uses all cores)
        on_event (callable, optional): Called with an :class:`Event`, from any thread but never twice at once.
    """

    def __init__(
        self,
        store: Store,
        amount: InfluenceAmount,
        device: torch.device,
        *,
        jobs: int | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.store, self.amount, self.device, self.on_event = store, amount, device, on_event
        self.jobs = jobs if jobs is not None and device.type == "cuda" else GPU_JOBS if device.type == "cuda" else 1
        self.parts: dict[tuple[str, str], Part] = {}
        self.stop, self.lock, self.reading = threading.Event(), threading.Lock(), threading.Lock()
        self.shares: dict[str, float] = {}
        self.began = 0.0

    def run(self) -> None:
        """Do what is missing; what is stored already is not done again."""
        while todo := [training for training in trainings(self.amount) if self._missing(training)]:
            self.began = time.monotonic()
            self.shares = {training.label: 0.0 for training in todo}
            if not any(side_by_side(self._study, todo, self.jobs, self.stop)):  # another process is at what is left
                time.sleep(POLL_SECONDS)
        for choice in baseline_choices(self.amount):  # last, since they need no GPU
            self._baseline(choice)

    def _missing(self, training: Training) -> bool:
        keys = [training.key(self.amount), *(choice.key(self.amount) for choice in choices_of(training))]
        return any(key not in self.store for key in keys)

    def _study(self, training: Training) -> bool:
        """Train and choose; False if another process is at it."""
        with self.store.claim(training.key(self.amount)) as mine:
            if not mine:
                return False
            record = self.store.get(training.key(self.amount)) or self._train(training)
            for choice in choices_of(training):
                if choice.key(self.amount) not in self.store:
                    self._check()
                    self._choose(choice, *model_of(record, choice))
        self._tell(training.label, 1.0)
        return True

    def _train(self, training: Training) -> Record:
        key, began = training.key(self.amount), time.monotonic()
        parts = [self._part(*source) for source in training.sources]
        ready = time.monotonic()

        def progress(epoch: int, epochs: int, error: float) -> None:
            self._tell(training.label, 0.98 * epoch / epochs, error)

        found = fit_monstor(
            parts,
            MODELS[training.model],
            seed=training.run,
            epochs=self.amount.epochs,
            stacked=training.stacked,
            device=self.device,
            checkpoint=self.store.checkpoint(key) / "training.pt",
            progress=progress,
            check=self._check,
        )
        scores, tensors = {}, dict[str, Tensor]()
        for probability, trained in found.items():
            names = ("stacked", "epoch", "error", "relative", "curve", "start")
            scores[probability] = {name: getattr(trained, name) for name in names}
            tensors |= {f"{probability}/{name}": value for name, value in trained.model.state_dict().items()}
        meta = {**describe_machine(self.device), "preset": self.amount.preset, "notes": self.amount.notes}
        meta |= {"seconds": time.monotonic() - ready, "seconds_of_data": ready - began}
        self.store.put(key, scores=scores, tensors=tensors, meta=meta)
        record = self.store.get(key)
        assert record is not None
        return record

    def _part(self, graph: str, probability: str) -> Part:
        """A training graph with its cascades, simulated once."""
        with self.reading:
            if (graph, probability) not in self.parts:
                network = read_graph(graph, "train", probability, self.amount.nodes)
                on_gpu = self.device.type == "cuda"
                folder = None if on_gpu else self.store.root / "checkpoints" / "cascades"  # seconds there, minutes here
                labels = make_labels(
                    network,
                    sets=self.amount.sets,
                    runs=self.amount.simulations,
                    seed=DATA_SEED,
                    device=self.device,
                    folder=folder,
                    check=self._check,
                )
                self.parts[graph, probability] = Part.split(f"{graph} {probability}", probability, network, labels)
            return self.parts[graph, probability]

    def _choose(self, choice: Choice, model: MONSTOR, stacked: int) -> None:
        began = time.monotonic()
        graph = self._test_graph(choice)
        # UBLF where the series of the bound is that of the original study, CELF for LP
        bound = None if choice.probability == "LP" else influence_bound(graph)
        found = lazy_greedy(
            ModelGains(model, graph, stacked, self.device),
            graph.nodes,
            self.amount.seeds,
            bound=bound,
            first_batch=FIRST_BATCH.get(self.device.type, 50),
            progress=lambda done, of: self._check(),
        )
        self._measure(choice, graph, found, began)

    def _baseline(self, choice: Choice) -> None:
        if choice.key(self.amount) in self.store:
            return
        began, graph, k = time.monotonic(), self._test_graph(choice), self.amount.seeds
        if choice.model == "degree":
            found = degree_seeds(graph, k)
        elif choice.model == "random":
            found = random_seeds(graph, k, choice.run)
        else:
            gains = MonteCarloGains(graph, self.amount.sample, choice.run)
            found = lazy_greedy(gains, graph.nodes, k, bound=influence_bound(graph), first_batch=500)
        self._measure(choice, graph, found, began)

    def _test_graph(self, choice: Choice) -> CascadeGraph:
        return read_graph(choice.target, "test", choice.probability, self.amount.nodes)

    def _measure(self, choice: Choice, graph: CascadeGraph, found: Selection, began: float) -> None:
        """The influence of the first tenth, two tenths, ... of the seeds, in the same cascades for all models."""
        chosen = time.monotonic() - began
        sizes = sorted({max(1, round(len(found.seeds) * (i + 1) / MARKS)) for i in range(MARKS)})
        spread = simulate(
            graph,
            [found.seeds[:size] for size in sizes],
            self.amount.evaluation,
            seed=EVALUATION_SEED,
            paired=True,
            device=self.device,
        )
        curve = zip(sizes, spread.influence.tolist(), spread.standard_error.tolist(), strict=True)
        scores = {
            "influence": float(spread.influence[-1]),
            "standard_error": float(spread.standard_error[-1]),
            "simulations": self.amount.evaluation,
            "estimate": found.influence if found.gains else None,
            "evaluations": found.evaluations,
            "violations": found.violations,
            "seeds": found.seeds,
            "curve": [{"seeds": k, "influence": mean, "standard_error": error} for k, mean, error in curve],
        }
        meta = {**describe_machine(self.device), "preset": self.amount.preset, "notes": self.amount.notes}
        meta |= {"seconds": time.monotonic() - began, "seconds_of_choice": chosen}
        self.store.put(choice.key(self.amount), scores=scores, meta=meta)

    def _check(self) -> None:
        if self.stop.is_set():
            raise StoppedError

    def _tell(self, label: str, share: float, error: float | None = None) -> None:
        with self.lock:
            self.shares[label] = share
            overall = sum(self.shares.values()) / len(self.shares)
            left = (time.monotonic() - self.began) * (1 - overall) / overall if overall > 0 else None
            done = sum(value == 1.0 for value in self.shares.values())
            if self.on_event is not None:
                finished = "training" if share == 1.0 else None
                shown = None if error is None else 100 * error
                self.on_event(Event(label, share, shown, finished, done, len(self.shares), overall, left))


def trainings(amount: InfluenceAmount) -> list[Training]:
    """Everything that is trained, in the order of work."""
    product = itertools.product(range(amount.runs), amount.targets, MODELS)
    return [Training(target, model, run) for run, target, model in product]


def choices_of(training: Training) -> list[Choice]:
    """The seeds that a trained model chooses."""
    return [Choice(training.target, name, training.model, training.run) for name in PROBABILITIES]


def baseline_choices(amount: InfluenceAmount) -> list[Choice]:
    """Seeds that are chosen without a model; of degree there is one choice only."""
    product = itertools.product(amount.targets, PROBABILITIES, BASELINES, range(amount.runs))
    return [Choice(t, p, model, run) for t, p, model, run in product if run == 0 or model != "degree"]


def model_of(record: Record, choice: Choice) -> tuple[MONSTOR, int]:
    """The model that a training has selected for a probability, and how often it is applied."""
    model, prefix = MONSTOR(MODELS[choice.model]), f"{choice.probability}/"
    assert record.tensors is not None
    weights = {n.removeprefix(prefix): v for n, v in record.tensors.items() if n.startswith(prefix)}
    model.load_state_dict(weights)
    return model.eval(), record.scores[choice.probability]["stacked"]


def summary_runs(choices: Sequence[Choice], store: Store, amount: InfluenceAmount) -> list[Record]:
    """The stored records of some choices."""
    found: list[Any] = [store.get(choice.key(amount)) for choice in choices]
    return [record for record in found if record is not None]
