"""GOOD-Motif: name the motif (one of three) on a base graph that is larger than in training, or of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gnpool.lab.arena.contenders import PUBLISHED_GNP, Contender, fixed_pairs, pair
from gnpool.lab.arena.contest import Amount, Arena, Column, Contest
from gnpool.models import DeepNet
from gnpool.tasks import CrossEntropy, accuracy

CLASSES, LAYERS = 3, 3
REWIRED = (("nodes", 0.3), ("edges", 0.3))
GNP = Contender("GNP", "gnpg", "gnpg", ("sum/mean",))
NAMED = (pair("sum", "mean"), pair("sum", "max"), pair("sum", "sum"))  # fixed pairs, chosen in advance
OURS = Contender(
    "GNP, rewired graphs", "gnpg", "gnpg", ("sum/max",), disturbed=REWIRED
)  # chosen by studies.arena_recipe
DISTURBED = (OURS, replace(NAMED[1], name="sum/max, rewired graphs", disturbed=REWIRED))
PAPER = (OURS, GNP, *NAMED[:2], DISTURBED[1], PUBLISHED_GNP, NAMED[2], pair("pna", "mean"))
LEARNED = (pair("pna", "mean"), pair("powermean", "powermean"), pair("softmax", "softmax"))
QUICK = (OURS, GNP, PUBLISHED_GNP, *fixed_pairs(), *LEARNED)
AMOUNTS = {
    "smoke": Amount("smoke", (GNP, NAMED[0], OURS), 2, epochs=2, hidden=8, train=64, held=20, test=20),
    "quick": Amount("quick", QUICK, 2, epochs=12, hidden=32, train=1500, held=300, test=500, rates=(1e-2, 3e-3)),
    "paper": Amount("paper", PAPER, 20, epochs=20, batch=128),
}


@dataclass(frozen=True, kw_only=True)
class MotifContest(Contest):
    """One of the two covariate shifts of GOOD-Motif."""

    def arena(self, amount: Amount, data_seed: int) -> Arena:
        return Arena(
            train=self.drawn("train", amount.train, data_seed),
            rules={
                "shifted": self.drawn("val", amount.held, data_seed),
                "inside": self.drawn("id_val", amount.held, data_seed),
            },
            tests={part: self.drawn(part, amount.test, data_seed) for part in ("test", "id_test")},
            loss=CrossEntropy(),
        )

    def network(self, contender: Contender, amount: Amount, facts: Mapping[str, Any]) -> torch.nn.Module:
        return DeepNet(1, **contender.slots(), layers=LAYERS, hidden=amount.hidden, out_channels=CLASSES)

    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        return 1.0 - accuracy(prediction, batch)

    def features(self, prediction: Tensor, batch: Any) -> Tensor:
        return accuracy(prediction, batch)[:, None]


def _contest(shift: str) -> MotifContest:
    return MotifContest(
        id=f"good_motif_{shift}",
        metric="PERCENT",
        columns=(
            Column("covariate", "test", "shifted"),
            Column("covariate, chosen inside", "test", "inside"),
            Column("inside", "id_test", "shifted"),
        ),
        amounts=AMOUNTS,
        erm="sum/mean",
        published={"covariate": "covariate"},
    )


CONTESTS = (_contest("size"), _contest("basis"))
