"""A contest: one benchmark with one network and one training, in which only the poolings differ."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.lab.arena.contenders import Contender
from gnpool.tasks.arena import get_benchmark
from gnpool.training import Batches, Setting
from gnpool.training.program import Loss

TEST_BATCH = 250  # graphs in a test batch


@dataclass(frozen=True)
class Amount:
    """What a preset means for a contest: who takes part, and how much is trained.

    Args:
        preset (str): Name of the preset.
        contenders (tuple): The contenders.
        seeds (int): Number of models that validation chooses, each among runs of every start and rate.
        epochs (int): Epochs of training.
        hidden (int): Hidden channels of the network.
        batch (int): Graphs in a batch.
        rates (tuple): Learning rates to try.
        decay (float): L2 penalty of Adam.
        train, held, test (int, optional): Graphs for training, for each validation and for each test. (default: the
            published numbers)
        tests (tuple, optional): The parts to test on. (default: all of the contest)
    """

    preset: str
    contenders: tuple[Contender, ...]
    seeds: int
    epochs: int
    hidden: int = 64
    batch: int = 32
    rates: tuple[float, ...] = (3e-3,)
    decay: float = 0.0
    train: int | None = None
    held: int | None = None
    test: int | None = None
    tests: tuple[str, ...] | None = None

    @property
    def digest(self) -> str:
        """The preset and a hash of everything that a result depends on, except the contenders."""
        content = dataclasses.asdict(self) | {"contenders": None}
        return f"{self.preset}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]}"

    @property
    def runs_each(self) -> int:
        """Number of runs that each choice is made from; it is the same for all contenders."""
        return max(len(one.starts) for one in self.contenders) * len(self.rates)

    def settings(self, contender: Contender) -> list[Setting]:
        """Every learning rate, from every start."""
        return [
            Setting(lr=rate, optimizer="adam", clip=10.0, weight_decay=self.decay, start=start)
            for start in contender.starts
            for rate in self.rates
        ]

    def copies(self, contender: Contender) -> int:
        """Initialisations for each choice; a contender with fewer starts gets more of them."""
        return self.runs_each // (len(contender.starts) * len(self.rates))


@dataclass(frozen=True)
class Arena:
    """The graphs of a contest, and what is derived from them.

    Args:
        train (list): Training graphs.
        rules (dict): Validation graphs, by the rule that uses them to choose.
        tests (dict): Test graphs, by part.
        loss (callable): The training loss.
        facts (dict): What networks need to know, such as the number of features.
    """

    train: list[Data]
    rules: Mapping[str, list[Data]]
    tests: Mapping[str, list[Data]]
    loss: Loss
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of the table: a test part, and the rule that chose the models tested on it."""

    name: str
    part: str
    rule: str


@dataclass(frozen=True, kw_only=True)
class Contest(ABC):
    """What all contests have in common.

    Args:
        id (str): The benchmark; if it has several sets, the name of the set follows a slash.
        metric (str): The metric of its numbers.
        columns (tuple): Its columns; the first is the main one.
        amounts (dict): The amount of each preset.
        erm (str): The contender that is the benchmark's own network.
        published (dict): For each column, the matching column of the published table.
        data_sets (tuple): The sets of real graphs that the contest needs.
        whole_validation (bool): Whether validation sees all graphs in one batch, as a metric that is no mean needs it.
    """

    higher: ClassVar[bool] = True  # whether more is better
    slow: ClassVar[float] = 1.0  # how much longer a step takes than in a network of three layers

    id: str
    metric: str
    columns: tuple[Column, ...]
    amounts: Mapping[str, Amount]
    erm: str
    published: Mapping[str, str] = field(default_factory=dict)
    data_sets: tuple[str, ...] = ()
    whole_validation: bool = False

    @abstractmethod
    def arena(self, amount: Amount, data_seed: int) -> Arena:
        """The graphs of the contest, and what is derived from them."""

    @abstractmethod
    def network(self, contender: Contender, amount: Amount, facts: Mapping[str, Any]) -> torch.nn.Module:
        """The network with a contender's poolings."""

    @abstractmethod
    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        """The validation error, one value per item; lower is better."""

    @abstractmethod
    def features(self, prediction: Tensor, batch: Any) -> Tensor:
        """(graphs, k) numbers of each graph; :meth:`score` turns their means into the metric."""

    def score(self, means: Tensor) -> Tensor:
        """The metric (*) from (*, k) means over graphs; by default the first mean in percent."""
        return 100.0 * means[..., 0]

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        """The form of a trained network in which it is tested."""
        return model

    @property
    def benchmark(self) -> str:
        """The published table, and its source."""
        return self.id.partition("/")[0]

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules by which validation graphs choose the epoch and the run."""
        return tuple(dict.fromkeys(column.rule for column in self.columns))

    def lessons(self, amount: Amount) -> int:
        """The number of training graphs, used to estimate the time."""
        most = get_benchmark(self.benchmark).parts["train"].count
        return most if amount.train is None else min(amount.train, most)

    def parts(self, rule: str, amount: Amount) -> list[str]:
        """The test parts on which models chosen by a rule are tested."""
        wanted = dict.fromkeys(column.part for column in self.columns if column.rule == rule)
        return [part for part in wanted if amount.tests is None or part in amount.tests]

    def validation(self, graphs: list[Data]) -> Batches:
        """Batches of training or validation graphs, in their given order."""
        return Batches(graphs, len(graphs) if self.whole_validation else TEST_BATCH, seed=None, sorted_edges=True)

    def batches(self, graphs: list[Data]) -> Batches:
        """Batches of test graphs, in their given order."""
        return Batches(graphs, TEST_BATCH, seed=None, sorted_edges=True)

    def drawn(self, part: str, count: int | None, data_seed: int) -> list[Data]:
        """Graphs of the benchmark that the contest is named after, at most as many as published."""
        benchmark = get_benchmark(self.benchmark)
        most = benchmark.parts[part].count
        return benchmark.dataset(part, seed=data_seed, count=most if count is None else min(count, most))
