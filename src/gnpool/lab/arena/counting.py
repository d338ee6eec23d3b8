"""COLORS and TRIANGLES: counting in graphs that are larger than the training graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnpool.lab.arena.contenders import PUBLISHED_GNP, Contender, fixed_pairs, pair
from gnpool.lab.arena.contest import Amount, Arena, Column, Contest
from gnpool.models import DeepNet
from gnpool.tasks import squared_error

GNP = Contender("GNP", "gnpg", "gnpg", ("sum/sum", "mean/sum"))
LEARNED = (pair("pna", "sum"), pair("powermean", "powermean"), pair("softmax", "softmax"))
QUICK = (GNP, PUBLISHED_GNP, *fixed_pairs(), *LEARNED)
OF_COLORS = (GNP, pair("mean", "sum"), pair("sum", "sum"), pair("mean", "mean"), PUBLISHED_GNP, pair("pna", "sum"))
OF_TRIANGLES = (GNP, pair("sum", "max"), pair("sum", "sum"), pair("sum", "mean"), PUBLISHED_GNP, pair("pna", "sum"))


@dataclass(frozen=True, kw_only=True)
class CountingContest(Contest):
    """One of the two counting contests.

    Args:
        layers (int): Layers of the network.
    """

    layers: int

    def arena(self, amount: Amount, data_seed: int) -> Arena:
        parts = dict.fromkeys(column.part for column in self.columns)
        return Arena(
            train=self.drawn("train", amount.train, data_seed),
            rules={"inside": self.drawn("val", amount.held, data_seed)},
            tests={part: self.drawn(part, amount.test, data_seed) for part in parts},
            loss=squared_error,
        )

    def network(self, contender: Contender, amount: Amount, facts: Mapping[str, Any]) -> torch.nn.Module:
        channels = 4 if self.id == "colors" else 14
        return DeepNet(channels, **contender.slots(), layers=self.layers, hidden=amount.hidden, norm=None)

    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        return squared_error(prediction, batch)

    def features(self, prediction: Tensor, batch: Any) -> Tensor:
        return (prediction.flatten().round() == batch.y.flatten())[:, None].float()


CONTESTS = (
    CountingContest(
        id="colors",
        metric="PERCENT",
        layers=2,
        columns=(
            Column("LargeC", "large_c", "inside"),
            Column("Large", "large", "inside"),
            Column("original", "test", "inside"),
        ),
        amounts={
            "smoke": Amount("smoke", OF_COLORS[:2], seeds=2, epochs=2, hidden=8, train=40, held=20, test=20),
            "quick": Amount("quick", QUICK, seeds=2, epochs=60, hidden=32, held=500, test=500, rates=(5e-3,)),
            "paper": Amount("paper", OF_COLORS, seeds=20, epochs=200, decay=1e-4, rates=(3e-3,)),
        },
        erm="mean/sum",
        published={"LargeC": "LargeC"},
    ),
    CountingContest(
        id="triangles",
        metric="PERCENT",
        layers=3,
        columns=(Column("Large", "large", "inside"), Column("original", "test", "inside")),
        amounts={
            "smoke": Amount("smoke", OF_TRIANGLES[:2], seeds=2, epochs=2, hidden=8, train=40, held=20, test=20),
            "quick": Amount(
                "quick", QUICK, seeds=2, epochs=10, hidden=32, train=2000, held=500, test=500, rates=(5e-3,)
            ),
            "paper": Amount("paper", OF_TRIANGLES, seeds=20, epochs=10, batch=128, decay=1e-4),
        },
        erm="sum/max",
        published={"Large": "Large", "original": "original"},
    ),
)
