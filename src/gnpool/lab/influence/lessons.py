"""Influence maximisation as data: the graphs, the models, and the amount of work."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

from gnpool.display.models import GNP
from gnpool.influence.labels import PUBLISHED_RUNS, PUBLISHED_SETS
from gnpool.influence.train import PUBLISHED_EPOCHS
from gnpool.lab.running.job import Key, digest
from gnpool.lab.table import Scope

TARGETS = ("Extended", "Celebrity", "WannaCry")  # in the order of work
PROBABILITIES = ("BT", "JI", "LP")
MODELS = {"max": "max", "sum": "sum", GNP: "gnp"}  # row -> aggregation
BASELINES = ("simulated", "degree", "random")  # rows without training
STACKED = {"BT": 3, "JI": 2, "LP": 5}  # stacked models; two more for BT and LP of Celebrity
SEEDS, RUNS = 100, 3  # seeds to choose; training runs in the paper
EVALUATION = 100_000  # simulations to measure the chosen seeds


@dataclass(frozen=True)
class InfluenceAmount:
    """A share of the study.

    Args:
        preset (str): The preset it belongs to.
        targets (tuple): Graphs to choose seeds on; a model trains on the other two.
        runs (int): Trainings with different seeds.
        sets (int): Seed sets to learn from, for each of the two kinds and each graph.
        simulations (int): Cascades simulated from each seed set.
        epochs (int): Epochs of training.
        seeds (int): Number of seeds to choose.
        evaluation (int): Cascades that measure the chosen seeds.
        sample (int): Cascades that the row "simulated" chooses by.
        nodes (int, optional): Keep only this many nodes of each graph, those with the most edges.
    """

    preset: str
    targets: tuple[str, ...] = TARGETS
    runs: int = RUNS
    sets: int = PUBLISHED_SETS
    simulations: int = PUBLISHED_RUNS
    epochs: int = PUBLISHED_EPOCHS
    seeds: int = SEEDS
    evaluation: int = EVALUATION
    sample: int = 1000
    nodes: int | None = None

    @property
    def notes(self) -> str:
        """What was reduced, as a note on the results."""
        parts = [] if self.targets == TARGETS else [f"on {' and '.join(self.targets)} only"]
        whole = InfluenceAmount("paper")
        for name, words in (
            ("runs", "runs"),
            ("sets", "seed sets of each kind to learn from"),
            ("simulations", "simulations of each"),
            ("epochs", "epochs"),
            ("seeds", "seeds"),
            ("evaluation", "simulations of the chosen seeds"),
        ):
            if getattr(self, name) != getattr(whole, name):
                parts.append(f"{getattr(self, name):,} instead of {getattr(whole, name):,} {words}")
        if self.nodes is not None:
            parts.append(f"{self.nodes} nodes of every graph: the numbers mean nothing")
        return f"{self.preset}: {', '.join(parts)}" if parts else ""

    def digest(self, *names: str) -> str:
        """The preset and a hash of those of its values that a result depends on."""
        return f"{self.preset}-{digest({name: getattr(self, name) for name in names})}"


LEARNED_WITH = ("sets", "simulations", "epochs", "nodes")
CHOSEN_WITH = ("seeds", "evaluation", "nodes")
AMOUNTS = {
    "smoke": InfluenceAmount(
        "smoke", ("Celebrity",), 1, sets=8, simulations=64, epochs=1, seeds=3, evaluation=640, sample=64, nodes=100
    ),
    "quick": InfluenceAmount("quick", ("Extended",), 1, sets=10, simulations=1000, epochs=10, evaluation=10_000),
    # The published 2,000 sets would take twenty times as long; these give about 9,000 steps of cascades to learn from.
    "paper": InfluenceAmount("paper", sets=100),
}


def amount_of(scope: Scope) -> InfluenceAmount:
    """The amount of a preset; the number of runs can be overridden."""
    amount = scope.of(AMOUNTS)
    if scope.seeds is not None and scope.seeds < 1:
        raise ValueError(f"'seeds' must be at least 1, got {scope.seeds}")
    return amount if scope.seeds is None else dataclasses.replace(amount, runs=scope.seeds)


@dataclass(frozen=True)
class Lesson:
    """A model for one target. It learns from the training graphs of the other two, with all probabilities together."""

    target: str
    model: str
    run: int

    @property
    def label(self) -> str:
        """The label that people see."""
        return f"{self.target}: MONSTOR with {self.model}, run {self.run}"

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

    def key(self, amount: InfluenceAmount) -> Key:
        """The name in the store."""
        preset = amount.digest(*LEARNED_WITH)
        return {"table": "influence-training", **dataclasses.asdict(self), "preset": preset}


@dataclass(frozen=True)
class Choice:
    """Seeds on one graph, chosen by a model or a baseline, and their influence."""

    target: str
    probability: str
    model: str
    run: int

    def key(self, amount: InfluenceAmount) -> Key:
        """The name in the store."""
        names = (*CHOSEN_WITH, "sample") if self.model in BASELINES else (*LEARNED_WITH, *CHOSEN_WITH)
        return {"table": "influence", **dataclasses.asdict(self), "preset": amount.digest(*dict.fromkeys(names))}


def lessons(amount: InfluenceAmount) -> list[Lesson]:
    """Everything to train, in the order of work."""
    product = itertools.product(range(amount.runs), amount.targets, MODELS)
    return [Lesson(target, model, run) for run, target, model in product]


def choices_of(lesson: Lesson) -> list[Choice]:
    """The seeds that a trained model chooses."""
    return [Choice(lesson.target, name, lesson.model, lesson.run) for name in PROBABILITIES]


def baseline_choices(amount: InfluenceAmount) -> list[Choice]:
    """Seeds that are chosen without a model; the choice by degree has no seed of its own, so it is made once."""
    product = itertools.product(amount.targets, PROBABILITIES, BASELINES, range(amount.runs))
    return [Choice(t, p, model, run) for t, p, model, run in product if run == 0 or model != "degree"]
