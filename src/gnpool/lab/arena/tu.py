"""Size shift on TU sets: networks learn on the smaller half of real graphs; the largest tenth tests them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.data import from_list
from gnpool.data.tudataset import tudataset
from gnpool.lab.arena.contenders import PUBLISHED_GNP, Contender, fixed_pairs, pair
from gnpool.lab.arena.contest import Amount, Arena, Column, Contest
from gnpool.models import DeepNet
from gnpool.tasks import mcc
from gnpool.tasks.arena import size_shift

CLASSES, LAYERS, HEAD = 2, 3, 128
GNP = Contender("GNP", "gnpg", "gnpg", ("sum/sum", "mean/mean"))
NAMED = (pair("sum", "sum"), pair("mean", "mean"), pair("sum", "max"))  # fixed pairs, chosen in advance
PAPER = (GNP, *NAMED, pair("sum", "mean"), PUBLISHED_GNP, pair("pna", "mean"))
LEARNED = (pair("pna", "mean"), pair("powermean", "powermean"), pair("softmax", "softmax"))
QUICK = (GNP, PUBLISHED_GNP, *fixed_pairs(), *LEARNED)
SMOKE = Amount("smoke", (GNP, NAMED[0]), seeds=2, epochs=2, hidden=4, batch=64, train=40, held=10, test=10)
SETS = {"PROTEINS": 511, "NCI1": 1942, "DD": 533, "NCI109": 1872}  # data set -> number of training graphs
AMOUNTS = {
    "smoke": SMOKE,
    "quick": Amount("quick", QUICK, seeds=2, epochs=20, hidden=16, batch=64, rates=(5e-3,)),
    "paper": Amount("paper", PAPER, seeds=50, epochs=100, hidden=32, batch=128, rates=(5e-3,)),
}
OF_DD = {**AMOUNTS, "paper": replace(AMOUNTS["paper"], seeds=20, epochs=60)}  # the graphs of DD are six times as large


@dataclass(frozen=True)
class Weighted:
    """Cross entropy with a weight for each of the two classes, divided by the mean weight of the batch.

    :class:`~gnpool.tasks.CrossEntropy` computes the same from a tensor of weights, which a CUDA graph cannot create.
    """

    of_zero: float
    of_one: float

    def __call__(self, scores: Tensor, batch: Any) -> Tensor:
        """(graphs,) losses."""
        y = batch.y.flatten()
        value = torch.nn.functional.cross_entropy(scores, y, reduction="none")
        given = getattr(batch, "weight", None)
        counts = torch.ones_like(value) if given is None else (given.flatten() > 0).to(value.dtype)
        weight = counts * torch.where(y == 1, self.of_one, self.of_zero)
        return value * weight * counts.sum() / weight.sum()


@dataclass(frozen=True, kw_only=True)
class SizeContest(Contest):
    """A contest on one TU set.

    Args:
        inner (bool): Whether to split only the small graphs by size once more; their largest tenth then replaces the
            test. This score chooses poolings.
    """

    inner: bool = False

    def arena(self, amount: Amount, data_seed: int) -> Arena:
        graphs = tudataset(self.data_sets[0])
        split = size_shift(from_list(graphs), data_seed)
        if self.inner:
            small = sorted([*split.train.names.tolist(), *split.val.names.tolist()])
            graphs = [graphs[k] for k in small]
            split = size_shift(from_list(graphs), data_seed)

        def part(names: list[int], count: int | None) -> list[Data]:
            return [graphs[k] for k in names][:count]

        train = part(split.train.names.tolist(), amount.train)
        counts = torch.cat([graph.y for graph in train]).bincount(minlength=CLASSES)
        return Arena(
            train=train,
            rules={"inside": part(split.val.names.tolist(), amount.held)},
            tests={"test": part(split.test.names.tolist(), amount.test)},
            loss=Weighted(*(counts.sum() / counts).tolist()),
            facts={"channels": graphs[0].num_features},
        )

    def lessons(self, amount: Amount) -> int:
        return SETS[self.data_sets[0]] // (2 if self.inner else 1)

    def network(self, contender: Contender, amount: Amount, facts: Mapping[str, Any]) -> torch.nn.Module:
        return DeepNet(
            facts["channels"],
            **contender.slots(),
            layers=LAYERS,
            hidden=amount.hidden,
            out_channels=CLASSES,
            expand=1,
            jumping="cat",
            train_eps=True,
            head=HEAD,
        )

    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        return 1.0 - mcc(prediction, batch)

    def features(self, prediction: Tensor, batch: Any) -> Tensor:
        """A one-hot entry of each graph in the table of true and predicted classes."""
        place = CLASSES * batch.y.flatten().long() + prediction.argmax(-1)
        return torch.nn.functional.one_hot(place, CLASSES**2)

    def score(self, means: Tensor) -> Tensor:
        confusion = means.unflatten(-1, (CLASSES, CLASSES))
        right = confusion.diagonal(dim1=-2, dim2=-1).sum(-1)
        predicted, true = confusion.sum(-2), confusion.sum(-1)
        square = (1.0 - predicted.square().sum(-1)) * (1.0 - true.square().sum(-1))
        defined = square > 1e-12
        value = (right - (predicted * true).sum(-1)) / torch.where(defined, square, 1.0).sqrt()
        return torch.where(means.isnan().any(-1), torch.nan, torch.where(defined, value, 0.0))


def _contest(name: str, inner: bool = False) -> SizeContest:
    return SizeContest(
        id=f"tu_size/{name}{' inner' if inner else ''}",
        metric="MCC",
        columns=(Column(name, "test", "inside"),),
        amounts=OF_DD if name == "DD" else AMOUNTS,
        erm="sum/mean",
        published={name: name},
        data_sets=(name,),
        whole_validation=True,
        inner=inner,
    )


CONTESTS = tuple(_contest(name) for name in SETS)
INNER = tuple(_contest(name, inner=True) for name in SETS)
