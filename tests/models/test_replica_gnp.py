"""GNP in a stack has GNP's formula, by torch's operations and by the kernels of a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from gnpool.models.stacked.gnp import gnp, set_range
from gnpool.models.stacked.replicas import Graphs, Neighbors, Pattern
from gnpool.nn import GNPAggregation
from tests.models.stacks import neighbors


@pytest.fixture(autouse=True, params=["reference", "triton"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GNPOOL_BACKEND", request.param)
    return str(request.param)


def gnp_layer(p: tuple[float, float], q: tuple[float, float], nonneg: str = "relu") -> GNPAggregation:
    aggr = GNPAggregation(6, coordinates="published", mix=False, nonneg=nonneg).double()
    aggr.p_pos, aggr.p_neg = p
    aggr.q_pos, aggr.q_neg = q
    return aggr


@pytest.mark.parametrize("nonneg", ["relu", "abs"])
@pytest.mark.parametrize("p", [(1.01, 1.01), (1.7, 1.7), (3.0, 8.0), (20.0, 12.0), (50.0, 50.0)])
def test_gnp_by_way_of_the_nodes_is_gnp(p: tuple[float, float], nonneg: str) -> None:
    x, edges = neighbors()
    aggr = gnp_layer(p, (0.3, -0.6), nonneg)
    g = torch.randn(15, 6, dtype=torch.float64)
    results = []
    for pool in (
        lambda v: gnp(aggr, v[None], edges)[0],
        lambda v: aggr(v[edges.col], edges.row, dim_size=15),
    ):
        v = x.clone().requires_grad_()
        y = pool(v)
        results.append([y, *torch.autograd.grad((y * g).sum(), [v, *aggr.parameters()])])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("of_weights", [True, False])
def test_gnp_with_weights_and_their_gradients(of_weights: bool) -> None:
    x, edges = neighbors()
    aggr = gnp_layer((2.5, 3.5), (0.5, 0.1))
    aggr.eps = 0.0  # the tolerance stands in front of the weight here, and behind it there
    weight = torch.rand(edges.col.numel(), dtype=torch.float64) + 0.05
    g = torch.randn(15, 6, dtype=torch.float64)
    results = []
    for pool in (
        lambda v, w: gnp(aggr, v[None], edges, w)[0],
        lambda v, w: aggr(w[:, None] * v[edges.col], edges.row, dim_size=15),
    ):
        v, w = x.clone().requires_grad_(), weight.clone().requires_grad_(of_weights)
        y = pool(v, w)
        wanted = [v, *aggr.parameters(), *([w] if of_weights else [])]
        results.append([y, *torch.autograd.grad((y * g).sum(), wanted)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("p", [(1.01, 1.01), (1.7, 2.5), (4.0, 4.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_small_exponents_do_with_float32(p: tuple[float, float], weighted: bool) -> None:
    x, edges = neighbors()
    aggr = gnp_layer(p, (0.3, -0.6)).float()
    weight = torch.rand(edges.col.numel()) * (torch.rand(edges.col.numel()) > 0.2) if weighted else None
    g = torch.randn(15, 6)
    results = []
    for largest_p in (50.0, max(p)):
        set_range(aggr, largest_p)
        v = x.float().requires_grad_()
        w = None if weight is None else weight.clone().requires_grad_()
        y = gnp(aggr, v[None], edges, w)[0]
        wanted = [v, *aggr.parameters(), *([] if w is None else [w])]
        results.append([y, *torch.autograd.grad((y * g).sum(), wanted)])
    assert aggr.narrow
    torch.testing.assert_close(*results, rtol=2e-4, atol=1e-5)


def test_an_edge_of_weight_zero_takes_no_part_and_counts() -> None:
    x, edges = neighbors()
    x, aggr = x.abs() + 0.1, gnp_layer((2.0, 2.0), (1.0, 1.0))
    weight = torch.ones(edges.col.numel(), dtype=torch.float64)
    lost = edges.row == 3
    lost &= edges.col != 3
    weight[lost] = 0.0
    out = gnp(aggr, x[None], edges, weight)[0, 3]
    torch.testing.assert_close(out, (x[3] + aggr.eps) / (edges.row == 3).sum())


def random_stack(parts: int, nodes: int) -> tuple[Neighbors, Pattern]:
    """Neighbours and graphs of parts with graphs of several sizes, one of them without a node, and padding."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, nodes, (parts, 4))
    sizes[0, 2] = 0
    graphs = Graphs(sizes, torch.get_default_device())
    pairs = torch.rand(graphs.rows, graphs.rows).triu() < 0.1
    graph = torch.full((graphs.rows,), -1).index_copy(0, graphs.members, graphs.owner)
    joined = (pairs | pairs.T | torch.eye(graphs.rows, dtype=torch.bool)) & (graph[:, None] == graph) & (graph >= 0)
    row, col = joined.nonzero().unbind(1)
    return Neighbors(row, col, graphs), graphs.pattern


def values_and_gradients(aggr: GNPAggregation, x: Tensor, pattern: Pattern, weight: Tensor | None) -> list[Tensor]:
    v = x.clone().requires_grad_()
    w = None if weight is None else weight.clone().requires_grad_()
    y = gnp(aggr, v, pattern, w)
    torch.manual_seed(1)
    wanted = [v, *aggr.parameters(), *([] if w is None else [w])]
    return [y, *torch.autograd.grad((y * torch.randn_like(y)).sum(), wanted)]


@pytest.mark.parametrize("eps", [1e-6, 0.0])
@pytest.mark.parametrize("of", ["neighbours", "weighted neighbours", "graphs"])
@pytest.mark.parametrize(("parts", "nodes", "channels"), [(3, 6, 2), (2, 40, 5), (1, 6, 131)])
def test_every_network_of_a_stack_has_exponents_of_its_own(
    parts: int, nodes: int, channels: int, of: str, eps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges, members = random_stack(parts, nodes)
    pattern = members if of == "graphs" else edges
    x = torch.randn(parts, edges.graphs.width, channels, dtype=torch.float64)
    x[:, :, 0] = 0.0  # nothing to pool in a positive channel, nor in the first negative one
    x[:, :, channels // 2 + channels % 2] = 0.0
    weight = torch.rand(edges.col.numel(), dtype=torch.float64) if of == "weighted neighbours" else None
    aggr = GNPAggregation(channels, coordinates="published", mix=False, eps=eps).double()
    for name in ("raw_p_pos", "raw_p_neg", "raw_q_pos", "raw_q_neg"):
        setattr(aggr, name, torch.nn.Parameter(torch.randn(parts, dtype=torch.float64)))
    found = values_and_gradients(aggr, x, pattern, weight)
    assert all(bool(value.isfinite().all()) for value in found)
    monkeypatch.setenv("GNPOOL_BACKEND", "reference")
    torch.testing.assert_close(found, values_and_gradients(aggr, x, pattern, weight))


@pytest.mark.parametrize("t", [25.0, 49.0, 60.0])
def test_at_the_cap_a_gradient_passes_that_lowers_p(t: float) -> None:
    x, edges = neighbors()
    aggr = gnp_layer((2.0, 2.0), (0.0, 0.0))
    for sign in (1.0, -1.0):
        with torch.no_grad():
            aggr.raw_p_pos.fill_(t)
            aggr.raw_p_neg.fill_(t)
        y = gnp(aggr, x[None].abs() + 0.5, edges)
        slopes = torch.autograd.grad(sign * y.sum(), [aggr.raw_p_pos, aggr.raw_p_neg])
        falls = [-sign, sign]  # norms fall as p grows; of the negative branch they rise
        for slope, fall in zip(slopes, falls, strict=True):
            passes = t < 49 or fall > 0
            assert (slope.item() != 0.0) == passes
            assert slope.item() * fall >= 0


def test_rows_that_need_no_gradient_get_none() -> None:
    x, edges = neighbors()
    aggr = gnp_layer((2.0, 2.0), (0.0, 0.0))
    (slope,) = torch.autograd.grad(gnp(aggr, x[None], edges).sum(), [aggr.raw_p_pos])
    v = x.clone().requires_grad_()
    torch.testing.assert_close(slope, torch.autograd.grad(gnp(aggr, v[None], edges).sum(), [aggr.raw_p_pos, v])[0])


@pytest.mark.parametrize("nonneg", ["relu", "abs"])
def test_nan_is_not_lost(nonneg: str) -> None:
    x, edges = neighbors()
    aggr = gnp_layer((2.0, 2.0), (0.0, 0.0), nonneg)
    x[3] = torch.nan
    v = x.requires_grad_()
    y = gnp(aggr, v[None], edges)
    reached = edges.row[edges.col == 3]
    assert bool(y[0, reached].isnan().all())
    slopes = torch.autograd.grad(y.sum(), [v, aggr.raw_p_pos, aggr.raw_p_neg])
    assert bool(slopes[0][3].isnan().all())
    assert all(bool(slope.isnan()) for slope in slopes[1:])


def test_half_precision() -> None:
    x, edges = neighbors()
    aggr = gnp_layer((2.0, 2.0), (0.5, 0.0))
    expected = gnp(aggr, x[None].abs() + 0.1, edges)
    half = gnp(aggr.bfloat16(), (x[None].abs() + 0.1).bfloat16(), edges)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), expected, rtol=0.03, atol=0.01)


@pytest.mark.parametrize("branches", ["one", "split"])
def test_growth_layers_are_refused(branches: str) -> None:
    x, edges = neighbors()
    with pytest.raises(ValueError, match=r"GNPAggregation\(6.*\): .*coordinates='published'"):
        gnp(GNPAggregation(6, branches=branches).double(), x[None], edges)
