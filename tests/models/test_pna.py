"""PNA that keeps its channels has the right values, also for empty segments, and takes segments in both forms."""

from __future__ import annotations

import math

import torch

from gnpool.models import PNAAggregation, make_pooling


def test_values() -> None:
    aggr = PNAAggregation(1, scale=2.0)
    x = torch.tensor([[1.0], [3.0], [8.0]])
    with torch.no_grad():
        aggr.lin.bias.fill_(0.5)
    got = []
    for place in range(12):
        with torch.no_grad():
            aggr.lin.weight.copy_(torch.eye(12)[place : place + 1])
        got.append((aggr(x, torch.tensor([0, 0, 2]), dim_size=3) - 0.5).detach())
    found = torch.cat(got, dim=1)
    logarithm = math.log(3)
    four = torch.tensor([2.0, 3.0, 1.0, math.sqrt(1 + 1e-5)])
    torch.testing.assert_close(found[0], torch.cat([four, four * logarithm / 2, four * 2 / logarithm]))
    assert found[1].tolist() == [0.0] * 12  # an empty segment gives the bias
    logarithm = math.log(2)
    four = torch.tensor([8.0, 8.0, 8.0, math.sqrt(1e-5)])
    torch.testing.assert_close(found[2], torch.cat([four, four * logarithm / 2, four * 2 / logarithm]))


def test_ptr_and_one_segment() -> None:
    torch.manual_seed(0)
    aggr, x = make_pooling("pna", 3, scale=1.0), torch.rand(5, 3)
    by_index = aggr(x, torch.tensor([0, 0, 1, 1, 1]))
    torch.testing.assert_close(aggr(x, ptr=torch.tensor([0, 2, 5])), by_index)
    torch.testing.assert_close(aggr(x[:2]), by_index[:1])


def test_replicas() -> None:
    torch.manual_seed(0)
    aggr, index = PNAAggregation(2), torch.tensor([0, 1, 1, 2])
    x = torch.rand(3, 4, 2)
    together = torch.vmap(lambda one: aggr(one, index, dim_size=3))(x)
    torch.testing.assert_close(together, torch.stack([aggr(one, index, dim_size=3) for one in x]))


def test_powermean_and_softmax_learn_one_number() -> None:
    for name in ("powermean", "softmax"):
        assert [p.numel() for p in make_pooling(name, 4).parameters()] == [1]
