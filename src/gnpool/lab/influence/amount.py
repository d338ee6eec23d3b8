"""The amount of work of influence maximisation, and what the study consists of."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from gnpool.display.models import GNP
from gnpool.influence.labels import PUBLISHED_RUNS, PUBLISHED_SETS
from gnpool.influence.train import PUBLISHED_EPOCHS
from gnpool.lab.running.job import digest
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

    @property
    def told(self) -> dict[str, str]:
        """What the meta data of a unit say about the amount."""
        return {"preset": self.preset, "notes": self.notes}

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
