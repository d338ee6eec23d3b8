"""Algorithms on graphs: training on up to 16 nodes, tests on up to 10,000, and no hints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnpool.lab.arena.contenders import Contender
from gnpool.lab.arena.contest import Amount, Arena, Column, Contest
from gnpool.models import RecurrentNet
from gnpool.tasks import squared_error
from gnpool.tasks.arena import pointer_accuracy, pointer_nll
from gnpool.training.program import Loss

MOST_ROUNDS = 400  # limit for tests, because the states of a network may never settle
LARGE, FEW = 10_000, 2  # tests on graphs of at least LARGE nodes use FEW graphs
SHOWN = {"er": "ER", "ws": "WS", "delaunay": "Delaunay"}


def _one(name: str, aggr: str, starts: tuple[str | None, ...] = (None,), **options: Any) -> Contender:
    return Contender(name, aggr, "mean", starts, tuple(options.items()))


GNP = _one("GNP", "gnpg", ("max", "sum"))
POINTERS = (
    GNP,
    _one("max", "max"),
    _one("sum", "sum"),
    _one("mean", "mean"),
    _one("GNP, as published", "gnp", coordinates="published"),
    _one("pna", "pna"),
)
QUICK = (*POINTERS, _one("min", "min"), _one("powermean", "powermean"), _one("softmax", "softmax"))
READOUTS = (
    Contender("GNP", "gnpg", "gnpg", ("max/max", "max/mean")),
    Contender("max/mean", "max", "mean"),
    Contender("max/max", "max", "max"),
    Contender("sum/max", "sum", "max"),
)


@dataclass(frozen=True, kw_only=True)
class AlgorithmContest(Contest):
    """A contest on one algorithm.

    Args:
        output (str): Whether the network outputs a pointer for each node or a number for the graph.
        weighted (bool): Whether edges have weights.
    """

    slow: ClassVar[float] = 4.0

    output: str = "pointer"
    weighted: bool = False

    def arena(self, amount: Amount, data_seed: int) -> Arena:
        parts = [part for rule in self.rules for part in self.parts(rule, amount)]
        return Arena(
            train=self.drawn("train", amount.train, data_seed),
            rules={"inside": self.drawn("val", amount.held, data_seed)},
            tests={part: self.drawn(part, _graphs(part, amount), data_seed) for part in parts},
            loss=self._loss(),
        )

    def _loss(self) -> Loss:
        return pointer_nll if self.output == "pointer" else squared_error

    def network(self, contender: Contender, amount: Amount, facts: Mapping[str, Any]) -> torch.nn.Module:
        options = contender.slots()
        if self.output == "pointer":
            options = {name: value for name, value in options.items() if not name.startswith("readout")}
        return RecurrentNet(
            2, **options, output=self.output, edge_weights=self.weighted, hidden=amount.hidden, most_rounds=MOST_ROUNDS
        )

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        assert isinstance(model, RecurrentNet)
        model.rounds = "stable"
        return model

    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        return self._loss()(prediction, batch)

    def features(self, prediction: Tensor, batch: Any) -> Tensor:
        if self.output != "pointer":
            return (prediction.flatten().round() == batch.y.flatten())[:, None].float()
        right = pointer_accuracy(prediction, batch)
        destination = torch.as_tensor(batch.edge_index)[1].as_subclass(Tensor)
        graph = batch.batch.index_select(0, destination)
        total = torch.zeros(batch.batch_size, dtype=torch.float64, device=right.device)
        total = total.index_add(0, graph, torch.where(batch.y > 0, right, 0.0).double())
        return (total / batch.ptr.diff())[:, None]


def _graphs(part: str, amount: Amount) -> int | None:
    nodes = int(part.rpartition("_")[2])
    return min(FEW, amount.test or FEW) if nodes >= LARGE else amount.test


def _columns(*places: tuple[str, int]) -> tuple[Column, ...]:
    return tuple(Column(f"{SHOWN[kind]} {nodes}", f"{kind}_{nodes}", "inside") for kind, nodes in places)


SIZES = (16, 80, 160, 800, 1600)
COLUMNS = _columns(
    ("er", 1600),
    ("ws", 1600),
    ("delaunay", 1600),
    *(("er", nodes) for nodes in SIZES[:-1]),
    *((kind, 10_000) for kind in SHOWN),
)
FIRST = ("er_1600", "ws_1600", "delaunay_1600", "er_16", "er_160")


def _amounts(contenders: tuple[Contender, ...], quick: tuple[Contender, ...]) -> dict[str, Amount]:
    tests = ("er_16", "er_80")
    return {
        "smoke": Amount(
            "smoke", contenders[:2], seeds=2, epochs=1, hidden=8, train=40, held=10, test=5, tests=tests
        ),
        "quick": Amount(
            "quick", quick, seeds=2, epochs=10, hidden=32, train=1000, held=200, test=20, rates=(3e-3,), tests=FIRST
        ),
        "paper": Amount("paper", contenders, seeds=20, epochs=15, batch=128, test=100),
    }  # fmt: skip


def _contest(name: str, **rest: Any) -> AlgorithmContest:
    contenders = READOUTS if rest.get("output") == "graph" else POINTERS
    quick = READOUTS if rest.get("output") == "graph" else QUICK
    erm = "max/mean" if rest.get("output") == "graph" else "max"
    return AlgorithmContest(
        id=name,
        metric="PERCENT",
        columns=COLUMNS,
        amounts=_amounts(contenders, quick),
        erm=erm,
        **rest,
    )


SHARED = ("ER 16", "ER 80", "ER 160", "ER 800", "ER 1600", "Delaunay 1600")
CONTESTS = (
    _contest("salsa_bfs", published={name: name for name in SHARED}),
    _contest("salsa_dijkstra", weighted=True),
    _contest("salsa_eccentricity", output="graph"),
)
