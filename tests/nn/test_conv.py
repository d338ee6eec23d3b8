"""GNPConv: equal to GINConv around the same aggregation, fused where it can be and not where it must not."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap
from torch_geometric import EdgeIndex
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import GINConv, HeteroConv, MessagePassing

from gnpool.nn import GNPAggregation, GNPConv
from tests.nn.expected import P_MAX, gnp, in_both_coordinates, names_of, scatter_exponents, set_exponents

# Nodes 3 and 5 have no incoming edge, 5 none at all; 0 -> 1 stands twice, 4 -> 4 is a loop.
EDGES = torch.tensor([[0, 1, 2, 0, 3, 0, 4, 4, 1], [1, 0, 0, 2, 2, 1, 1, 4, 4]])
SYMMETRIC = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 4], [1, 2, 0, 2, 0, 1, 4, 3]])
N, E = 6, EDGES.size(1)


def network(channels: int = 4) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(channels, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


class WeightedGIN(GINConv):
    """GINConv with a weight per edge, as PyG would write it."""

    propagate = MessagePassing.propagate  # as in GNPConv

    def forward(self, x: Any, edge_index: Any, edge_weight: Tensor | None = None, size: Any = None) -> Tensor:
        x = (x, x) if isinstance(x, Tensor) else x
        # propagate_type: (x: OptPairTensor, edge_weight: OptTensor)
        out = self.propagate(edge_index, x=x, edge_weight=edge_weight, size=size)
        return self.nn(out if x[1] is None else out + (1 + self.eps) * x[1])

    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j


def pair(channels: int = 4, eps: float = 0.25, **options: Any) -> tuple[GNPConv, GINConv]:
    """The layer and PyG's, in float64, with the same weights."""
    fused = GNPConv(network(channels), GNPAggregation(channels, **options), eps, train_eps=True).double()
    plain = WeightedGIN(network(channels), eps, True, aggr=GNPAggregation(channels, **options)).double()
    scatter_exponents(fused.aggr_module)
    plain.load_state_dict(fused.state_dict())
    return fused, plain


def features(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def assert_equal(
    fused: GNPConv,
    plain: GINConv,
    x: Tensor | tuple[Tensor, Tensor | None],
    edges: tuple[Tensor, Tensor],
    edge_weight: Tensor | None = None,
    **given: Any,
) -> None:
    """Value and all gradients; ``edges`` holds the edges of each layer."""
    results = []
    for conv, edge_index in ((fused, edges[0]), (plain, edges[1])):
        tensors = [x] if isinstance(x, Tensor) else list(x)
        inputs = [None if t is None else t.clone().requires_grad_() for t in tensors]
        weight = None if edge_weight is None else edge_weight.clone().requires_grad_()
        out = conv(inputs[0] if isinstance(x, Tensor) else tuple(inputs), edge_index, edge_weight=weight, **given)
        wanted = {f"x[{k}]": t for k, t in enumerate(inputs) if t is not None} | dict(conv.named_parameters())
        if weight is not None:
            wanted["edge_weight"] = weight
        scale = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        gradients = torch.autograd.grad((out * scale).sum(), list(wanted.values()))
        results.append({"out": out, **dict(zip(wanted, gradients, strict=True))})
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        torch.testing.assert_close(
            value, results[1][name], rtol=1e-8, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the paths that were taken, in order."""
    taken: list[str] = []
    fused, unfused = GNPAggregation.pool_neighbors, GNPAggregation.forward

    def pool_neighbors(self: GNPAggregation, *args: Any, **kwargs: Any) -> Tensor:
        taken.append("fused")
        return fused(self, *args, **kwargs)

    def forward(self: GNPAggregation, *args: Any, **kwargs: Any) -> Tensor:
        taken.append("unfused")
        return unfused(self, *args, **kwargs)

    monkeypatch.setattr(GNPAggregation, "pool_neighbors", pool_neighbors)
    monkeypatch.setattr(GNPAggregation, "forward", forward)
    return taken


# Equal to GINConv


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": True},
        {"branches": "both", "per_channel": True},
        {"branches": "positive", "nonneg": "abs"},
        {"branches": "negative", "nonneg": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
@in_both_coordinates
def test_equals_gin(coordinates: str, options: dict[str, Any], weighted: bool, calls: list[str]) -> None:
    fused, plain = pair(coordinates=coordinates, **options)
    weight = features(E) if weighted else None
    assert_equal(fused, plain, features(N, 4), (EDGES, EDGES), weight)
    assert calls == ["fused", "unfused"]


@in_both_coordinates
def test_equals_the_plain_gin_of_pyg(coordinates: str) -> None:
    conv = GNPConv(network(), GNPAggregation(4, coordinates=coordinates))
    plain = GINConv(network(), aggr=GNPAggregation(4, coordinates=coordinates))
    plain.load_state_dict(conv.state_dict())
    x = torch.randn(N, 4)
    torch.testing.assert_close(conv(x, EDGES), plain(x, EDGES), rtol=1e-5, atol=1e-6)


@in_both_coordinates
def test_equals_the_hand_computation(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = GNPConv(torch.nn.Identity(), aggr, eps=0.5)
    scatter_exponents(aggr)
    x, weight = torch.randn(N, 4), torch.randn(E)
    pooled = gnp(aggr, weight[:, None] * x[EDGES[0]], EDGES[1], N)
    torch.testing.assert_close(conv(x, EDGES, weight), 1.5 * x + pooled, rtol=1e-5, atol=1e-5)
    assert torch.equal(conv(x, EDGES, weight)[[3, 5]], 1.5 * x[[3, 5]])  # isolated: nothing to pool


def test_negative_weights_are_cut_after_the_product() -> None:
    aggr = GNPAggregation(2, coordinates="published", mix=False, eps=0.0)
    conv = GNPConv(torch.nn.Identity(), aggr, eps=-1.0)  # the pooled neighbours alone
    x = torch.tensor([[2.0, 2.0], [-3.0, -3.0], [5.0, 5.0], [0.0, 0.0]])
    edges = torch.tensor([[0, 1, 2], [3, 3, 3]])
    weight = torch.tensor([-1.0, -2.0, 0.1])  # products -2, 6, 0.5
    aggr.p_pos, aggr.p_neg = 2.0, 2.0
    expected = torch.tensor([36.25**0.5, (1 / 36 + 4) ** -0.5])
    torch.testing.assert_close(conv(x, edges, weight)[3], expected, rtol=2e-6, atol=0)


@pytest.mark.parametrize(("zeros", "members"), [("keep", 3), ("remove", 2)])
def test_negative_weights_count_as_zeros_in_growth_coordinates(zeros: str, members: int) -> None:
    aggr = GNPAggregation(1, mix=False, eps=0.0, zeros=zeros, start="rms")
    conv = GNPConv(torch.nn.Identity(), aggr, eps=-1.0)  # the pooled neighbours alone
    x = torch.tensor([[2.0], [-3.0], [5.0], [0.0]])
    edges, weight = torch.tensor([[0, 1, 2], [3, 3, 3]]), torch.tensor([-1.0, -2.0, 0.1])  # products -2, 6, 0.5
    expected = torch.tensor([(36.25 / members) ** 0.5])
    torch.testing.assert_close(conv(x, edges, weight)[3], expected, rtol=2e-6, atol=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("sort_order", [None, "row", "col"])
@in_both_coordinates
def test_edge_index(coordinates: str, sort_order: str | None, sized: bool, weighted: bool, calls: list[str]) -> None:
    order = torch.arange(E) if sort_order is None else EDGES[0 if sort_order == "row" else 1].argsort(stable=True)
    edges = EdgeIndex(EDGES[:, order], sort_order=sort_order, sparse_size=(N, N) if sized else None)
    edges.validate()
    fused, plain = pair(coordinates=coordinates)
    for _ in range(2):  # the second time from the cache
        assert_equal(fused, plain, features(N, 4), (edges, edges.as_tensor()), features(E) if weighted else None)
    assert edges.sparse_size() == ((N, N) if sized else (None, None))
    assert calls == ["fused", "unfused"] * 2


@pytest.mark.parametrize("sort_order", ["row", "col"])
@in_both_coordinates
def test_undirected_edge_index(coordinates: str, sort_order: str, calls: list[str]) -> None:
    edges = SYMMETRIC if sort_order == "row" else SYMMETRIC.flip(0)
    undirected = EdgeIndex(edges, sort_order=sort_order, is_undirected=True, sparse_size=(N, N))
    undirected.validate()
    fused, plain = pair(coordinates=coordinates)
    for weight in (None, features(edges.size(1))):
        assert_equal(fused, plain, features(N, 4), (undirected, edges), weight)
    assert calls == ["fused", "unfused"] * 2


@in_both_coordinates
def test_edge_index_stays_usable_for_other_layers(coordinates: str) -> None:
    edges = EdgeIndex(EDGES[:, EDGES[0].argsort(stable=True)], sort_order="row")
    fused, plain = pair(coordinates=coordinates)
    x = features(N, 4)  # node 5 is in no edge: the size cannot be read off the edges
    fused(x, edges)
    torch.testing.assert_close(plain(x, edges), fused(x, edges), rtol=1e-8, atol=1e-10)


BIPARTITE = torch.tensor([[0, 5, 3, 3, 1], [2, 0, 0, 2, 2]])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["tensor", "unsorted", "row", "col"])
@in_both_coordinates
def test_bipartite(coordinates: str, kind: str, weighted: bool, calls: list[str]) -> None:
    fused, plain = pair(coordinates=coordinates)
    edges: Tensor = BIPARTITE
    if kind != "tensor":
        edges = EdgeIndex(BIPARTITE, sparse_size=(N, 4))
        if kind != "unsorted":
            edges = edges.sort_by(kind).values
    weight = features(BIPARTITE.size(1)) if weighted else None
    plain_edges = edges.as_tensor() if isinstance(edges, EdgeIndex) else edges
    assert_equal(fused, plain, (features(N, 4), features(4, 4)), (edges, plain_edges), weight)
    assert calls == ["fused", "unfused"]


@pytest.mark.parametrize("size", [None, (N, 4), (N, None)])
@in_both_coordinates
def test_bipartite_without_target(coordinates: str, size: tuple[int, int | None] | None, calls: list[str]) -> None:
    fused, plain = pair(coordinates=coordinates)
    del fused.eps, plain.eps  # not used, so it would have no gradient
    fused.eps = plain.eps = 0.0
    assert_equal(fused, plain, (features(N, 4), None), (BIPARTITE, BIPARTITE), size=size)
    assert fused((features(N, 4), None), BIPARTITE, size=size).size(0) == (4 if size == (N, 4) else N)
    assert calls[:2] == ["fused", "unfused"]


@in_both_coordinates
def test_bipartite_without_target_takes_the_size_of_the_edge_index(coordinates: str) -> None:
    fused, plain = pair(coordinates=coordinates)
    edges = EdgeIndex(BIPARTITE, sparse_size=(N, 4))
    x = (features(N, 4), None)
    assert fused(x, edges).size(0) == 4
    torch.testing.assert_close(fused(x, edges), plain(x, edges), rtol=1e-8, atol=1e-10)


@in_both_coordinates
def test_no_edges(coordinates: str) -> None:
    fused, plain = pair(coordinates=coordinates)
    edges = torch.zeros(2, 0, dtype=torch.long)
    assert_equal(fused, plain, features(N, 4), (edges, edges))
    x = features(N, 4)
    torch.testing.assert_close(fused(x, edges), fused.nn((1 + fused.eps) * x), rtol=1e-12, atol=0)


@in_both_coordinates
def test_hetero_conv(coordinates: str) -> None:
    convs = {("a", "to", "b"): pair(coordinates=coordinates)[0], ("b", "to", "a"): pair(coordinates=coordinates)[0]}
    x = {"a": features(N, 4), "b": features(4, 4)}
    edges = {("a", "to", "b"): BIPARTITE, ("b", "to", "a"): BIPARTITE.flip(0)}
    weights = {kind: features(BIPARTITE.size(1)) for kind in edges}
    out = HeteroConv(convs)(x, edges, edge_weight_dict=weights)
    for kind, conv in convs.items():
        direct = conv((x[kind[0]], x[kind[2]]), edges[kind], weights[kind])
        torch.testing.assert_close(out[kind[2]], direct)


# Where the messages must be seen


def weighted_adjacency(layout: str, values: Tensor) -> tuple[Tensor, Tensor]:
    """adj_t without double edges, and its edges in the order of ``values``."""
    edges = EDGES.unique(dim=1)
    adj_t = torch.sparse_coo_tensor(edges.flip(0), values[: edges.size(1)], (N, N), check_invariants=True).coalesce()
    return (adj_t.to_sparse_csr() if layout == "csr" else adj_t), edges


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["csr", "coo"])
@in_both_coordinates
def test_sparse_adjacency(coordinates: str, layout: str, calls: list[str]) -> None:
    fused, plain = pair(coordinates=coordinates)
    adj_t, edges = weighted_adjacency(layout, torch.ones(E, dtype=torch.float64))
    assert_equal(fused, plain, features(N, 4), (adj_t, edges))
    assert calls == ["unfused", "unfused"]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["csr", "coo"])
@in_both_coordinates
def test_values_of_a_sparse_adjacency_are_edge_weights(coordinates: str, layout: str) -> None:
    fused, _ = pair(coordinates=coordinates)
    weight = torch.rand(E, dtype=torch.float64)
    adj_t, edges = weighted_adjacency(layout, weight)
    x = features(N, 4)
    torch.testing.assert_close(fused(x, adj_t), fused(x, edges, weight[: edges.size(1)]), rtol=1e-8, atol=1e-10)


@in_both_coordinates
def test_flow_from_target_to_source(coordinates: str, calls: list[str]) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = GNPConv(torch.nn.Identity(), aggr, flow="target_to_source")
    x, weight = torch.randn(N, 4), torch.randn(E)
    pooled = gnp(aggr, weight[:, None] * x[EDGES[1]], EDGES[0], N)
    torch.testing.assert_close(conv(x, EDGES, weight), x + pooled, rtol=1e-5, atol=1e-5)
    assert calls == ["unfused"]


@in_both_coordinates
def test_three_dimensional_features(coordinates: str, calls: list[str]) -> None:
    fused, _ = pair(coordinates=coordinates)
    x, weight = features(2, N, 4), features(E)
    out = fused(x, EDGES, weight)
    assert calls == ["unfused"]
    for k in range(2):
        torch.testing.assert_close(out[k], fused(x[k], EDGES, weight), rtol=1e-8, atol=1e-10)


@in_both_coordinates
def test_explain_mode(coordinates: str, calls: list[str]) -> None:
    fused, plain = pair(coordinates=coordinates)
    x, weight, logits = features(N, 4), features(E), features(E)
    free = fused(x, EDGES, weight)
    results = []
    for conv in (fused, plain):
        mask = logits.clone().requires_grad_()
        conv.explain = True
        conv._edge_mask = mask
        out = conv(x, EDGES, weight)
        results.append((out, torch.autograd.grad(out.square().sum(), mask)[0]))
        conv._edge_mask, conv.explain = None, None
    assert calls == ["fused", "unfused", "unfused"]
    torch.testing.assert_close(results[0], results[1], rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(results[0][0], fused(x, EDGES, weight * logits.sigmoid()), rtol=1e-8, atol=1e-10)
    assert not torch.allclose(results[0][0], free)
    torch.testing.assert_close(fused(x, EDGES, weight), free)  # explain mode is over
    assert calls[-2:] == ["fused", "fused"]


def test_explain_mode_after_a_gin_of_pyg() -> None:
    code = """
import torch
from torch_geometric.nn import GINConv
from gnpool import GNPAggregation, GNPConv

x, edges, weight = torch.rand(3, 2), torch.tensor([[0, 1], [1, 2]]), torch.rand(2)
GINConv(torch.nn.Identity(), aggr=GNPAggregation(2))(x, edges)
conv = GNPConv(torch.nn.Identity(), GNPAggregation(2))
conv.explain, conv._edge_mask = True, torch.zeros(2)
out = conv(x, edges, weight)
conv.explain = False
torch.testing.assert_close(out, conv(x, edges, weight / 2))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # PyG as it begins
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "options",
    [{"coordinates": "published", "branches": "positive", "start": "sum"}, {"start": "sum"}],
    ids=["published", "growth"],
)
def test_gnn_explainer(options: dict[str, Any], calls: list[str]) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GNPConv(torch.nn.Linear(2, 1), GNPAggregation(2, **options))

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    model = Model()
    with torch.no_grad():
        model.conv.nn.weight.fill_(1.0)
        model.conv.aggr_module.mix.weight.copy_(torch.eye(2))
    x = torch.tensor([[9.0, 9.0], [0.0, 0.0], [1.0, 1.0]])  # node 2 hears of node 0, which matters, and of node 1
    edges = torch.tensor([[0, 1, 0], [2, 2, 1]])
    explainer = Explainer(
        model,
        GNNExplainer(epochs=40, lr=0.1),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "node", "return_type": "raw"},
    )
    mask = explainer(x, edges, index=2).edge_mask
    assert set(calls) == {"fused", "unfused"}  # the prediction, then the training of the masks
    assert ((mask >= 0) & (mask <= 1)).all()
    assert mask[0] > 0.5  # node 0 carries the prediction
    assert mask[0] > mask[1]
    assert mask[2] == 0  # not an edge of node 2
    calls.clear()
    model(x, edges)
    assert calls == ["fused"]


CONV_HOOKS = [
    "register_propagate_forward_pre_hook",
    "register_propagate_forward_hook",
    "register_message_forward_pre_hook",
    "register_message_forward_hook",
    "register_aggregate_forward_pre_hook",
    "register_aggregate_forward_hook",
]
AGGREGATION_HOOKS = [
    "register_forward_pre_hook",
    "register_forward_hook",
    "register_full_backward_pre_hook",
    "register_full_backward_hook",
]


@pytest.mark.parametrize("name", CONV_HOOKS + AGGREGATION_HOOKS)
@in_both_coordinates
def test_hooks_run_and_change_nothing(coordinates: str, name: str, calls: list[str]) -> None:
    fused, _ = pair(coordinates=coordinates)
    x, weight = features(N, 4).requires_grad_(), features(E)
    expected = fused(x, EDGES, weight)
    seen = []
    owner = fused if name in CONV_HOOKS else fused.aggr_module
    handle = getattr(owner, name)(lambda *args: seen.append(args))
    out = fused(x, EDGES, weight)
    out.sum().backward()
    assert len(seen) == 1
    torch.testing.assert_close(out, expected, rtol=1e-8, atol=1e-10)
    handle.remove()
    fused(x, EDGES, weight)
    assert len(seen) == 1
    assert calls == ["fused", "unfused", "fused"]


@in_both_coordinates
def test_hook_that_changes_the_messages(coordinates: str) -> None:
    fused, _ = pair(coordinates=coordinates)
    x = features(N, 4)
    expected = fused(x, EDGES, torch.full((E,), 3.0, dtype=torch.float64))
    fused.register_message_forward_hook(lambda _module, _inputs, out: 3.0 * out)
    torch.testing.assert_close(fused(x, EDGES), expected, rtol=1e-8, atol=1e-10)


class Doubled(GNPConv):
    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        return 2.0 * super().message(x_j, edge_weight)


@in_both_coordinates
def test_message_of_a_subclass_is_used(coordinates: str, calls: list[str]) -> None:
    conv = Doubled(torch.nn.Identity(), GNPAggregation(4, coordinates=coordinates))
    plain = GNPConv(torch.nn.Identity(), conv.aggr_module)
    x = torch.randn(N, 4)
    torch.testing.assert_close(conv(x, EDGES), plain(x, EDGES, torch.full((E,), 2.0)), rtol=1e-5, atol=1e-5)
    assert calls == ["unfused", "fused"]


# As a module


def test_repr() -> None:
    conv = GNPConv(torch.nn.Linear(4, 2), GNPAggregation(4, bias=True))
    assert repr(conv) == (
        "GNPConv(nn=Linear(in_features=4, out_features=2, bias=True), aggr=GNPAggregation(4, bias=True))"
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda _: GNPConv(network(), "mean"), TypeError, "GNPConv: 'aggr' must be a GNPAggregation, got str"),
        (
            lambda conv: conv(torch.rand(N, 3), EDGES),
            ValueError,
            "GNPAggregation(4): the last dimension of 'x' must hold 4 channels, got 3 in shape (6, 3)",
        ),
        (
            lambda conv: conv(torch.rand(4, 4), EDGES),
            IndexError,
            "'edge_index[1]' must lie in [0, 4), got 4 at position 7",
        ),
        (
            lambda conv: conv(torch.rand(N, 4), EDGES, torch.rand(3)),
            ValueError,
            "'edge_weight' must have one value for each of the 9 edges, got shape (3,)",
        ),
        (
            lambda conv: conv(torch.rand(N, 4), EDGES, size=(N, 1)),
            ValueError,
            "Encountered tensor with size 6 in dimension -2, but expected size 1.",
        ),
        (
            lambda conv: conv(torch.rand(N, 4), EDGES, size=(7, N)),
            ValueError,
            "Encountered tensor with size 6 in dimension -2, but expected size 7.",
        ),
        (
            lambda conv: conv((torch.rand(N, 4), None), EDGES, size=(N, 2)),
            IndexError,
            "'edge_index[1]' must lie in [0, 2), got 2 at position 3",
        ),
        (
            lambda conv: conv(torch.rand(N, 4), EDGES.T),
            ValueError,
            "Expected 'edge_index' to have size '2' in the first dimension (got '9')",
        ),
        (
            lambda conv: conv(torch.rand(N, 4), EDGES.float()),
            ValueError,
            "Expected 'edge_index' to be of integer type (got 'torch.float32')",
        ),
        (
            lambda conv: conv(torch.rand(N, 4), EdgeIndex(EDGES, sparse_size=(5, 5))),
            ValueError,
            "Encountered tensor with size 6 in dimension -2, but expected size 5.",
        ),
    ],
)
def test_errors(call: Callable[[GNPConv], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(GNPConv(network(), GNPAggregation(4)))


@in_both_coordinates
def test_reset(coordinates: str) -> None:
    conv = GNPConv(network(), GNPAggregation(4, coordinates=coordinates, start="max"), eps=0.5, train_eps=True)
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.add_(1.0)
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        conv.reset_parameters()
        states.append(copy.deepcopy(conv.state_dict()))
    assert getattr(conv.aggr_module, names_of(conv.aggr_module)[0]).item() == P_MAX[coordinates]
    assert conv.eps.item() == 0.5
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda conv: pickle.loads(pickle.dumps(conv)), id="pickle"),  # noqa: S301 - our own bytes
    ],
)
@in_both_coordinates
def test_copies(coordinates: str, copied: Callable[[GNPConv], GNPConv]) -> None:
    fused, _ = pair(coordinates=coordinates)
    x = features(N, 4)
    assert torch.equal(copied(fused)(x, EDGES), fused(x, EDGES))


@pytest.mark.parametrize("weighted", [False, True])
@in_both_coordinates
def test_gradcheck(coordinates: str, weighted: bool) -> None:
    fused, _ = pair(coordinates=coordinates, channels=2)
    fused.nn = torch.nn.Identity()
    names, values = zip(*fused.named_parameters(), strict=True)
    x = features(3, 2).requires_grad_()
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 1, 1]])
    weight = features(4).requires_grad_() if weighted else None

    def run(x: Tensor, weight: Tensor | None, *values: Tensor) -> Tensor:
        return functional_call(fused, dict(zip(names, values, strict=True)), (x, edges, weight))

    assert torch.autograd.gradcheck(run, (x, weight, *values))
    assert torch.autograd.gradgradcheck(run, (x, weight, *values), fast_mode=True)


@in_both_coordinates
def test_vmap_over_stacked_layers_equals_the_loop(coordinates: str) -> None:
    layers = [pair(coordinates=coordinates)[0] for _ in range(3)]
    for k, layer in enumerate(layers):
        set_exponents(layer.aggr_module, 2.0 + k, 0.2 * k)
    parameters, buffers = stack_module_state(layers)
    x, weight = features(N, 4), features(E)

    def loss(state: dict[str, Tensor]) -> Tensor:
        return functional_call(layers[0], (state, buffers), (x, EDGES, weight)).square().sum()

    gradients = vmap(grad(loss))(parameters)
    for k, layer in enumerate(layers):
        layer(x, EDGES, weight).square().sum().backward()
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(gradients[name][k], parameter.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@in_both_coordinates
def test_compile_fullgraph(coordinates: str, weighted: bool, calls: list[str]) -> None:
    torch._dynamo.reset()
    fused, _ = pair(coordinates=coordinates)
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")  # inductor would need a C++ compiler
    x, weight = features(N, 4).requires_grad_(), features(E).requires_grad_() if weighted else None
    inputs = [x, *fused.parameters(), *([weight] if weighted else [])]
    out, expected = compiled(x, EDGES, weight), fused(x, EDGES, weight)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-12)
    got, wanted = (torch.autograd.grad(y.square().sum(), inputs) for y in (out, expected))
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    assert set(calls) == {"fused"}


@in_both_coordinates
def test_export_save_load(coordinates: str, tmp_path: Path) -> None:
    fused, _ = pair(coordinates=coordinates)
    x, weight = features(N, 4), features(E)
    torch.export.save(torch.export.export(fused, (x, EDGES, weight)), tmp_path / "conv.pt2")
    loaded = torch.export.load(tmp_path / "conv.pt2").module()
    torch.testing.assert_close(loaded(x, EDGES, weight), fused(x, EDGES, weight), rtol=1e-9, atol=1e-12)


@in_both_coordinates
def test_trains_like_gin(coordinates: str) -> None:
    fused, plain = pair(coordinates=coordinates)
    x, target = features(N, 4), features(N, 3)
    losses = []
    for conv in (fused, plain):
        optimizer = torch.optim.Adam(conv.parameters(), lr=1e-2)
        path = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = (conv(x, EDGES) - target).square().mean()
            loss.backward()
            optimizer.step()
            path.append(loss.detach())
        losses.append(torch.stack(path))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0)
    assert losses[0][-1] < losses[0][0]
