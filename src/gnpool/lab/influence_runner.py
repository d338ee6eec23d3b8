"""Run the influence study: simulate what to learn from, train, choose seeds, and measure their influence."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gnpool.engine import Caller, Engine, side_by_side
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
from gnpool.lab.failures import Failure, clear_failures, raise_failures
from gnpool.lab.influence import BASELINES, MODELS, PROBABILITIES, Choice, InfluenceAmount, Training, read_graph
from gnpool.lab.runner import Event
from gnpool.lab.stopwatch import Stopwatch
from gnpool.models import MONSTOR
from gnpool.store import Record, Store
from gnpool.training import seeded
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
        jobs (int, optional): Trainings side by side. (default: 3 on a GPU, the number of threads of torch on a CPU)
        engine (Engine, optional): Who computes. (default: this process)
        on_event (callable, optional): Called with an :class:`Event`, from any thread but never twice at once.
    """

    def __init__(
        self,
        store: Store,
        amount: InfluenceAmount,
        device: torch.device,
        *,
        jobs: int | None = None,
        engine: Engine | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.store, self.amount, self.device, self.on_event = store, amount, device, on_event
        self.engine = engine or Engine(device)
        self.jobs = jobs or self.engine.jobs(GPU_JOBS if device.type == "cuda" else torch.get_num_threads())
        self.parts: dict[tuple[str, str], Part] = {}
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.shares: dict[str, float] = {}
        self.began = 0.0

    def run(self) -> None:
        """Do what is missing; what is stored already is not done again.

        Raises:
            FailedStudiesError: At the end, if a training or a choice failed for reasons of its own.
        """
        clear_failures(self.store)
        todo = [training for training in trainings(self.amount) if self._missing(training)]
        self.began, self.shares = time.monotonic(), {training.label: 0.0 for training in todo}
        untrained = [training for training in todo if training.key(self.amount) not in self.store]
        sources = list(dict.fromkeys(source for training in untrained for source in training.sources))
        before = torch.get_num_threads()
        try:
            self._prepare(sources)
            failed = side_by_side(self._study, todo, self.jobs, self.stop)
        finally:
            torch.set_num_threads(before)
        choices = [choice for choice in baseline_choices(self.amount) if choice.key(self.amount) not in self.store]
        late = side_by_side(self._baseline, choices, self.engine.jobs(1), self.stop)  # here each uses all cores
        found = [Failure.of(todo[n].label, todo[n].key(self.amount), error) for n, error in failed.items()]
        found += [Failure.of(choices[n].model, choices[n].key(self.amount), error) for n, error in late.items()]
        raise_failures(self.store, found, len(todo) + len(choices))

    def _missing(self, training: Training) -> bool:
        keys = [training.key(self.amount), *(choice.key(self.amount) for choice in choices_of(training))]
        return any(key not in self.store for key in keys)

    def _prepare(self, sources: Sequence[tuple[str, str]]) -> None:
        """Training graphs with their cascades. On a GPU these take less time than what the host does about them."""
        if self.device.type != "cuda" or self.engine.remote:  # each uses all cores
            for source in sources:
                self._simulate(source)
            return
        for error in side_by_side(self._simulate, sources, self.jobs, self.stop).values():
            raise error

    def _simulate(self, source: tuple[str, str]) -> bool:
        graph, probability = source
        network = read_graph(graph, "train", probability, self.amount.nodes)
        on_gpu = self.device.type == "cuda"
        labels = make_labels(
            network,
            sets=self.amount.sets,
            runs=self.amount.simulations,
            seed=DATA_SEED,
            device=self.device,
            folder=None if on_gpu else self.store.root / "checkpoints" / "cascades",  # seconds there, minutes here
            engine=self.engine,
            check=Caller(self.stop.is_set).check,
        )
        self.parts[source] = Part.split(f"{graph} {probability}", probability, network, labels)
        return True

    def _study(self, training: Training) -> bool:
        """Train and choose; False if another process is at it."""
        key = training.key(self.amount)
        with self.store.claim(key) as mine:
            if not mine:
                return False
            record = self.store.get(key)
            if record is None:
                parts = (self.engine.share(self.parts[source]) for source in training.sources)
                caller = Caller(
                    self.stop.is_set, lambda told: self._tell(training.label, *told), self.store.checkpoint(key)
                )
                found = self.engine.call(training_unit, training, self.amount, self.device, *parts, caller=caller)
                record = self._keep(key, *found)
            for choice in choices_of(training):
                if choice.key(self.amount) not in self.store:
                    self._choose(choice, *model_of(record, choice))
        self._tell(training.label, 1.0)
        return True

    def _baseline(self, choice: Choice) -> bool:
        with self.store.claim(choice.key(self.amount)) as mine:
            if mine and choice.key(self.amount) not in self.store:
                self._choose(choice)
        return mine

    def _choose(self, choice: Choice, *model: Any) -> None:
        graph = self.engine.share(read_graph(choice.target, "test", choice.probability, self.amount.nodes))
        work = (choice, self.amount, self.device, graph, *model)
        scores, meta = self.engine.call(choice_unit, *work, caller=Caller(self.stop.is_set))
        self._keep(choice.key(self.amount), scores, {}, meta)

    def _keep(self, key: dict[str, Any], scores: Any, tensors: dict[str, Tensor], meta: dict[str, Any]) -> Record:
        meta = {**meta, "preset": self.amount.preset, "notes": self.amount.notes}
        self.store.put(key, scores=scores, tensors=tensors, meta=meta)
        record = self.store.get(key)
        assert record is not None
        return record

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


def training_unit(
    caller: Caller, training: Training, amount: InfluenceAmount, device: torch.device, *parts: Part
) -> tuple[Any, dict[str, Tensor], dict[str, Any]]:
    """Scores, tensors and meta data of a training. ``tell`` is given its share and the error so far."""
    if device.type == "cpu":
        torch.set_num_threads(1)  # of this thread: the same bits whatever the machine has
    clock = Stopwatch(caller.checkpoint)
    found = fit_monstor(
        parts,
        MODELS[training.model],
        seed=training.run,
        epochs=amount.epochs,
        stacked=training.stacked,
        device=device,
        checkpoint=None if caller.checkpoint is None else caller.checkpoint / "training.pt",
        progress=lambda epoch, epochs, error: caller.tell((0.98 * epoch / epochs, error)),
        check=clock.around(caller.check),
    )
    scores, tensors = {}, dict[str, Tensor]()
    for probability, trained in found.items():
        names = ("stacked", "epoch", "error", "relative", "curve", "start")
        scores[probability] = {name: getattr(trained, name) for name in names}
        tensors |= {f"{probability}/{name}": value for name, value in trained.model.state_dict().items()}
    return scores, tensors, {**describe_machine(device), "seconds": clock.seconds}


def choice_unit(
    caller: Caller,
    choice: Choice,
    amount: InfluenceAmount,
    device: torch.device,
    graph: CascadeGraph,
    model: MONSTOR | None = None,
    stacked: int = 1,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Choose seeds and measure them: scores and meta data."""
    began = time.monotonic()
    if model is None:
        found = _baseline_seeds(choice, amount, graph)
    else:
        if device.type == "cpu":
            torch.set_num_threads(1)
        # UBLF where the series of the bound is that of the original study, CELF for LP
        bound = None if choice.probability == "LP" else influence_bound(graph)
        found = lazy_greedy(
            ModelGains(model, graph, stacked, device),
            graph.nodes,
            amount.seeds,
            bound=bound,
            first_batch=FIRST_BATCH.get(device.type, 50),
            progress=lambda done, of: caller.check(),
        )
    chosen = time.monotonic() - began
    scores = _measured(graph, found, amount.evaluation, device)
    return scores, {**describe_machine(device), "seconds": time.monotonic() - began, "seconds_of_choice": chosen}


def _baseline_seeds(choice: Choice, amount: InfluenceAmount, graph: CascadeGraph) -> Selection:
    if choice.model == "degree":
        return degree_seeds(graph, amount.seeds)
    if choice.model == "random":
        return random_seeds(graph, amount.seeds, choice.run)
    gains = MonteCarloGains(graph, amount.sample, choice.run)
    return lazy_greedy(gains, graph.nodes, amount.seeds, bound=influence_bound(graph), first_batch=500)


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
    model = seeded(lambda: MONSTOR(MODELS[choice.model]), 0)
    model.load_state_dict(record.part(f"{choice.probability}/"))
    return model.eval(), record.scores[choice.probability]["stacked"]


def summary_runs(choices: Sequence[Choice], store: Store, amount: InfluenceAmount) -> list[Record]:
    """The stored records of some choices."""
    found: list[Any] = [store.get(choice.key(amount)) for choice in choices]
    return [record for record in found if record is not None]
