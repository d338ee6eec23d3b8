"""Losses and metrics of classifiers: values by definition, edge cases, items that do not count, replicas."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

from gnpool.tasks import CrossEntropy, accuracy, balanced_accuracy, mcc, roc_auc
from tests.models.cases import no_fallback

WHOLE = (balanced_accuracy, mcc, roc_auc)


def scores_of(classes: list[int], count: int) -> Tensor:
    return torch.eye(count, dtype=torch.float64)[classes]


def one(values: Tensor) -> float:
    assert (values == values[0]).all() or values.isnan().all()
    return values[0].item()


@pytest.mark.parametrize("shares", [None, (0.2, 0.5, 0.3)])
def test_cross_entropy_is_that_of_torch(shares: tuple[float, ...] | None) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(20, 3, dtype=torch.float64, generator=generator)
    y = torch.randint(3, (20,), generator=generator)
    weight = None if shares is None else 1 / torch.tensor(shares, dtype=torch.float64)
    wanted = functional.cross_entropy(scores, y, weight=weight)
    torch.testing.assert_close(CrossEntropy(shares)(scores, Data(y=y)).mean(), wanted)
    padded = Data(y=torch.cat([y, y[:3]]), weight=torch.tensor([1.0] * 20 + [0.0] * 3))
    values = CrossEntropy(shares)(torch.cat([scores, scores[:3] / 0]), padded)
    torch.testing.assert_close(values[:20].mean(), wanted)
    assert values[20:].tolist() == [0.0] * 3


MATTHEWS = {  # label -> prediction pairs, and the coefficient
    "perfect": ([0, 0, 1, 1, 1], [0, 0, 1, 1, 1], 1.0),
    "reversed": ([0, 0, 1, 1], [1, 1, 0, 0], -1.0),
    "by its definition": ([0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 0], (3 * 2 - 1 * 1) / math.sqrt(4 * 4 * 3 * 3)),
    "one class predicted": ([0, 1, 1], [1, 1, 1], 0.0),
    "one class there": ([1, 1, 1], [1, 0, 1], 0.0),
    "three classes": ([0, 1, 2, 2], [0, 1, 2, 1], (3 * 4 - (1 * 1 + 1 * 2 + 2 * 1)) / math.sqrt((16 - 6) * (16 - 6))),
}


@pytest.mark.parametrize(("y", "predicted", "wanted"), MATTHEWS.values(), ids=MATTHEWS)
def test_mcc(y: list[int], predicted: list[int], wanted: float) -> None:
    value = mcc(scores_of(predicted, max(y + predicted) + 1), Data(y=torch.tensor(y)))
    assert one(value) == pytest.approx(wanted, abs=1e-12)


BALANCED = {
    "equal classes": ([0, 0, 1, 1], [0, 1, 1, 1], 0.75),
    "unequal classes": ([0, 0, 0, 0, 1], [0, 0, 0, 1, 0], 0.375),
    "a class that does not occur": ([0, 0, 2, 2], [0, 0, 2, 1], 0.75),
}


@pytest.mark.parametrize(("y", "predicted", "wanted"), BALANCED.values(), ids=BALANCED)
def test_balanced_accuracy(y: list[int], predicted: list[int], wanted: float) -> None:
    scores = scores_of(predicted, 3)
    assert one(balanced_accuracy(scores, Data(y=torch.tensor(y)))) == pytest.approx(wanted)
    right = [float(a == b) for a, b in zip(y, predicted, strict=True)]
    assert accuracy(scores, Data(y=torch.tensor(y))).tolist() == right


def test_roc_auc_is_the_share_of_pairs_in_order() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(8, (40,), generator=generator).double()  # many ties
    y = torch.randint(2, (40,), generator=generator)
    pairs = [
        1.0 if scores[a] > scores[b] else 0.5 if scores[a] == scores[b] else 0.0
        for a, b in itertools.product(range(40), repeat=2)
        if y[a] == 1 and y[b] == 0
    ]
    wanted = sum(pairs) / len(pairs)
    two = torch.stack([torch.zeros(40).double(), scores], dim=1)
    for form in (scores, scores[:, None], two):
        assert one(roc_auc(form, Data(y=y))) == pytest.approx(wanted, abs=1e-12)
    assert math.isnan(one(roc_auc(scores, Data(y=torch.ones(40)))))
    with pytest.raises(ValueError, match="there must be two classes, got 3"):
        roc_auc(torch.zeros(2, 3), Data(y=torch.zeros(2)))


@pytest.mark.parametrize("metric", [*WHOLE, accuracy])
def test_items_that_do_not_count(metric: Any) -> None:
    scores = torch.tensor([[0.3, 0.1], [0.2, 0.4], [0.6, 0.5], [0.1, 0.9], [0.0, 1.0], [5.0, 0.0]]).double()
    y, weight = torch.tensor([0, 0, 1, 1, 0, 1]), torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    values = metric(scores, Data(y=y, weight=weight))
    assert torch.equal(values[:4], metric(scores[:4], Data(y=y[:4])))
    assert values[4:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("function", [*WHOLE, accuracy, CrossEntropy((0.4, 0.6))])
def test_replicas(function: Any) -> None:
    scores = torch.randn(3, 12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    batch = Data(y=torch.tensor([0, 1] * 6))
    with no_fallback():
        together = torch.vmap(lambda one: function(one, batch))(scores)
    torch.testing.assert_close(together, torch.stack([function(one, batch) for one in scores]))


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"a share above 0, got \(0.5, 0.0\)"):
        CrossEntropy((0.5, 0.0))
    with pytest.raises(ValueError, match=r"'shares' must have 3 values.*got 2"):
        CrossEntropy((0.5, 0.5))(torch.zeros(1, 3), Data(y=torch.zeros(1)))
    with pytest.raises(ValueError, match="one row for each of the 2 items"):
        accuracy(torch.zeros(3, 2), Data(y=torch.zeros(2)))
