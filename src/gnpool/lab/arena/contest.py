"""A contest: one benchmark, one network and one training, in which poolings alone differ."""

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

TEST_BATCH = 250  # graphs


@dataclass(frozen=True)
class Amount:
    """What a preset means for a contest.

    Args:
        preset (str): Its name.
        contenders (tuple): Who takes part.
        seeds (int): Choices by validation, each among the runs of every start and rate.
        epochs (int): Of training.
        hidden (int): Channels of the network.
        batch (int): Graphs of a batch.
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
        """The preset and a hash of everything that a result depends on, contenders apart."""
        content = dataclasses.asdict(self) | {"contenders": None}
        return f"{self.preset}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]}"

    @property
    def runs_each(self) -> int:
        """Runs that every choice is made from, the same for all contenders."""
        return max(len(one.starts) for one in self.contenders) * len(self.rates)

    def settings(self, contender: Contender) -> list[Setting]:
        """Every rate from every start."""
        return [
            Setting(lr=rate, optimizer="adam", clip=10.0, weight_decay=self.decay, start=start)
            for start in contender.starts
            for rate in self.rates
        ]

    def copies(self, contender: Contender) -> int:
        """Initialisations of each choice: a contender with fewer starts has more of them."""
        return self.runs_each // (len(contender.starts) * len(self.rates))


@dataclass(frozen=True)
class Arena:
    """The graphs of a contest, and what depends on them.

    Args:
        train (list): For training.
        rules (dict): Validation graphs by the rule that they choose by.
        tests (dict): By part.
        loss (callable): What is minimised.
        facts (dict): What networks need to know, such as the number of features.
    """

    train: list[Data]
    rules: Mapping[str, list[Data]]
    tests: Mapping[str, list[Data]]
    loss: Loss
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of the table: the test of a part by models that a rule chose."""

    name: str
    part: str
    rule: str


@dataclass(frozen=True, kw_only=True)
class Contest(ABC):
    """What all contests have in common.

    Args:
        id (str): The benchmark, perhaps with a set of it behind a stroke.
        metric (str): What its numbers are.
        columns (tuple): Its columns; the first is the one that counts.
        amounts (dict): By preset.
        erm (str): The contender that is the benchmark's own network.
        published (dict): By column the column of the published table.
        data_sets (tuple): The sets of real graphs that it needs.
        whole_validation (bool): Whether validation sees all graphs in one batch, as a metric that is no mean needs it.
    """

    higher: ClassVar[bool] = True  # whether more is better

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
        """The graphs, and what depends on them."""

    @abstractmethod
    def network(self, contender: Contender, amount: Amount, facts: Mapping[str, Any]) -> torch.nn.Module:
        """The network with the poolings of a contender."""

    @abstractmethod
    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        """What validation makes as small as can be, one value per item."""

    @abstractmethod
    def features(self, prediction: Tensor, batch: Any) -> Tensor:
        """(graphs, k) numbers of each graph whose means :meth:`score` turns into the metric."""

    def score(self, means: Tensor) -> Tensor:
        """(*, k) means over graphs -> (*) the metric. By default the share of the first, in percent."""
        return 100.0 * means[..., 0]

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        """A trained network as it is tested."""
        return model

    @property
    def benchmark(self) -> str:
        """The table, and where its published numbers are."""
        return self.id.partition("/")[0]

    @property
    def rules(self) -> tuple[str, ...]:
        """Ways of choosing epoch and run, all of them by validation graphs."""
        return tuple(dict.fromkeys(column.rule for column in self.columns))

    def lessons(self, amount: Amount) -> int:
        """The number of training graphs, for an estimate of the time."""
        most = get_benchmark(self.benchmark).parts["train"].count
        return most if amount.train is None else min(amount.train, most)

    def parts(self, rule: str, amount: Amount) -> list[str]:
        """The tests of models that a rule chose."""
        wanted = dict.fromkeys(column.part for column in self.columns if column.rule == rule)
        return [part for part in wanted if amount.tests is None or part in amount.tests]

    def validation(self, graphs: list[Data]) -> Batches:
        """Graphs in their own order."""
        return Batches(graphs, len(graphs) if self.whole_validation else TEST_BATCH, seed=None, sorted_edges=True)

    def batches(self, graphs: list[Data]) -> Batches:
        """The same for tests."""
        return Batches(graphs, TEST_BATCH, seed=None, sorted_edges=True)

    def drawn(self, part: str, count: int | None, data_seed: int) -> list[Data]:
        """Graphs of the benchmark of the contest's name, at most the published number."""
        benchmark = get_benchmark(self.benchmark)
        most = benchmark.parts[part].count
        return benchmark.dataset(part, seed=data_seed, count=most if count is None else min(count, most))
