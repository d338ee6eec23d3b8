"""PNA's multitask benchmark: one network predicts three labels of each node and three of each graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnpool.lab.arena.contenders import PUBLISHED_GNP, Contender, fixed_pairs, pair
from gnpool.lab.arena.contest import Amount, Arena, Column, Contest
from gnpool.models import RecurrentNet, make_pooling, pooled_channels

TASKS = 3  # node tasks, and as many graph tasks
GNP = Contender("GNP", "gnpg", "gnpg", ("sum/mean", "mean/mean"))
PAPER = (GNP, pair("pna", "set2set"), pair("sum", "set2set"), pair("max", "set2set"), pair("mean", "mean"))
QUICK = (*PAPER[:-1], PUBLISHED_GNP, *fixed_pairs(("sum", "mean", "max")))


class MultitaskNet(torch.nn.Module):
    """A recurrent network with a head for nodes and one for graphs; one tensor holds all outputs, those of nodes first.

    Args:
        contender (Contender): The poolings.
        hidden (int): Hidden channels.
    """

    def __init__(self, contender: Contender, hidden: int) -> None:
        super().__init__()
        options = dict(contender.options)
        self.body = RecurrentNet(
            2, contender.aggr, output="node", hidden=hidden, out_channels=hidden, aggr_options=options or None
        )
        self.readout = make_pooling(contender.readout, hidden, **options)
        width = pooled_channels(self.readout, hidden)
        self.of_nodes = torch.nn.Sequential(
            torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, TASKS)
        )
        self.of_graphs = torch.nn.Sequential(
            torch.nn.Linear(width, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, TASKS)
        )

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, ptr: Tensor, batch_size: int, max_nodes: int
    ) -> Tensor:
        """Outputs (N + G, 3): a row for each node, followed by a row for each graph."""
        states = self.body(x, edge_index, None, batch, ptr, batch_size, max_nodes).relu()
        pooled = self.readout(states, batch, dim_size=batch_size)
        return torch.cat([self.of_nodes(states), self.of_graphs(pooled)])


def of_each_graph(prediction: Tensor, batch: Any) -> Tensor:
    """(G, 6) squared errors of each graph; those of node tasks are means over its nodes."""
    nodes, count = len(batch.batch), batch.batch_size
    of_nodes = (prediction[:nodes] - batch.y_nodes.to(prediction.dtype)).square()
    of_graphs = (prediction[nodes:] - batch.y_graph.to(prediction.dtype)).square()
    total = torch.zeros(count, TASKS, dtype=prediction.dtype, device=prediction.device)
    total = total.index_add(0, batch.batch, of_nodes)
    sizes = batch.ptr.diff().clamp(min=1)[:, None]
    return torch.cat([total / sizes, of_graphs], dim=1)


def mean_error(prediction: Tensor, batch: Any) -> Tensor:
    """(G,) means of the six squared errors."""
    return of_each_graph(prediction, batch).mean(1)


@dataclass(frozen=True, kw_only=True)
class MultitaskContest(Contest):
    """The multitask benchmark, tested on graphs of the training sizes and on larger ones."""

    higher: ClassVar[bool] = False

    def arena(self, amount: Amount, data_seed: int) -> Arena:
        parts = [part for rule in self.rules for part in self.parts(rule, amount)]
        return Arena(
            train=self.drawn("train", amount.train, data_seed),
            rules={"inside": self.drawn("val", amount.held, data_seed)},
            tests={part: self.drawn(part, amount.test, data_seed) for part in parts},
            loss=mean_error,
        )

    def network(self, contender: Contender, amount: Amount, facts: Mapping[str, Any]) -> torch.nn.Module:
        return MultitaskNet(contender, amount.hidden)

    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        return mean_error(prediction, batch)

    def features(self, prediction: Tensor, batch: Any) -> Tensor:
        return of_each_graph(prediction, batch)

    def score(self, means: Tensor) -> Tensor:
        """The mean over tasks of log10 of the mean squared error."""
        return means.log10().mean(-1)


CONTEST = MultitaskContest(
    id="pna_multitask",
    metric="LOG10 MSE",
    columns=tuple(
        Column(name, part, "inside")
        for name, part in (
            ("average", "test"),
            ("95 to 99 nodes", "test_95"),
            ("45 to 49 nodes", "test_45"),
            ("20 to 24 nodes", "test_20"),
        )
    ),
    amounts={
        "smoke": Amount("smoke", PAPER[:2], seeds=2, epochs=1, hidden=4, train=40, held=10, test=10),
        "quick": Amount("quick", QUICK, seeds=2, epochs=10, hidden=16, train=1000, held=200, test=100),
        "paper": Amount("paper", PAPER, seeds=20, epochs=40, hidden=16, batch=128),
    },
    erm="pna/set2set",
    published={"average": "average"},
)
CONTESTS = (CONTEST,)
