"""The norm's kernels pool non-negative rows with PyG's values and, behind a ReLU, PyG's gradients."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn.aggr import SumAggregation

from gnpool.models import make_pooling
from gnpool.models.poolings.fused import has_fused_form
from gnpool.models.poolings.segments import Segments
from gnpool.models.poolings.slot import pool, pool_neighbors
from tests.models.cases import FIXED, graphs


def rows(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(13, 6, dtype=torch.float64, generator=generator)
    x[3:5] = x[2]  # ties
    x[:, 5] = -1.0  # behind the ReLU a channel of zeros
    return x.requires_grad_()


def both(function):
    """Values and gradients of ``function(relu(x), non_negative)`` for the fused way and PyG's."""
    results = []
    for non_negative in (True, False):
        x = rows()
        y = function(x.relu(), non_negative)
        (y * torch.arange(1, 1 + y.numel()).view_as(y)).sum().backward()
        results.append((y.detach(), x.grad))
    return results


@pytest.mark.parametrize("name", FIXED)
def test_segments(name):
    inputs, aggregation = graphs(dummy=(0,)), make_pooling(name, 6)
    fused, plain = both(
        lambda x, non_negative: pool(aggregation, x, Segments(x, inputs["batch"], inputs["ptr"]), non_negative)
    )
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sort", [False, True], ids=["tensor", "EdgeIndex"])
@pytest.mark.parametrize("name", FIXED)
def test_neighbors(name, sort):
    edge_index, aggregation = graphs()["edge_index"], make_pooling(name, 6)
    if sort:
        edge_index = EdgeIndex(edge_index, sparse_size=(13, 13), sort_order="col")
    fused, plain = both(lambda x, non_negative: pool_neighbors(aggregation, x, edge_index, non_negative))
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=1e-12)


def test_only_what_pyg_made_and_nobody_watches():
    class Mine(SumAggregation):
        pass

    watched = SumAggregation()
    watched.register_forward_hook(lambda *args: None)
    assert has_fused_form(SumAggregation())
    assert not has_fused_form(Mine())
    assert not has_fused_form(watched)
    assert not has_fused_form(torch.nn.Identity())
