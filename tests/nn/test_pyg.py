"""GNPAggregation wherever PyTorch Geometric takes an aggregation, each against a computation by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GATConv,
    GINConv,
    GraphConv,
    HeteroConv,
    MaxAggregation,
    MeanAggregation,
    MinAggregation,
    MultiAggregation,
    PNAConv,
    SAGEConv,
    SumAggregation,
)
from torch_geometric.nn.aggr import DegreeScalerAggregation
from torch_geometric.nn.models import GCN, SchNet
from torch_geometric.nn.resolver import aggregation_resolver

from gnpool import norm_pool
from gnpool.nn import GNPAggregation
from tests.nn.expected import P_MAX, gnp, in_both_coordinates, names_of, scatter_exponents, set_exponents

# Node 3 has no incoming edge; the edge 0 -> 1 stands twice, 4 -> 4 is a loop.
EDGES = torch.tensor([[0, 1, 2, 0, 3, 0, 4, 4, 1], [1, 0, 0, 2, 2, 1, 1, 4, 4]])
N = 5


def aggregation(channels: int, **options: object) -> GNPAggregation:
    return scatter_exponents(GNPAggregation(channels, **options))


def close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def messages(aggr: GNPAggregation, x: Tensor, edges: Tensor = EDGES, size: int = N) -> Tensor:
    """The neighbours of every node, pooled by hand."""
    return gnp(aggr, x[edges[0]], edges[1], size)


# Convolutions


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"branches": "both", "per_channel": True}], ids=str)
@in_both_coordinates
def test_gin(coordinates: str, options: dict[str, object]) -> None:
    aggr = aggregation(4, coordinates=coordinates, **options)
    network = torch.nn.Linear(4, 3)
    x = torch.randn(N, 4)
    conv = GINConv(network, eps=0.25, aggr=aggr)
    scatter_exponents(aggr)  # the convolution has reset it
    close(conv(x, EDGES), network(1.25 * x + messages(aggr, x)))


@in_both_coordinates
def test_a_convolution_resets_the_aggregation_it_is_given(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates, start="max")
    name = names_of(aggr)[0]
    setattr(aggr, name, 3.0)
    GINConv(torch.nn.Identity(), aggr=aggr)
    assert getattr(aggr, name).item() == P_MAX[coordinates]  # PyG's rule; hence `start`, which survives it


@pytest.mark.parametrize("sort_order", [None, "row", "col"])
@in_both_coordinates
def test_edge_index_with_metadata(coordinates: str, sort_order: str | None) -> None:
    edges = EdgeIndex(EDGES, sparse_size=(N, N))
    if sort_order is not None:
        edges = edges.sort_by(sort_order).values
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = GINConv(torch.nn.Identity(), aggr=aggr)
    x = torch.randn(N, 4)
    close(conv(x, edges), x + messages(aggr, x))


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["csr", "coo"])
@in_both_coordinates
def test_sparse_adjacency(coordinates: str, layout: str) -> None:
    edges = EDGES.unique(dim=1)
    adj_t = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.size(1)), (N, N), check_invariants=True).coalesce()
    adj_t = adj_t.to_sparse_csr() if layout == "csr" else adj_t
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = SAGEConv(4, 3, aggr=aggr)
    x = torch.randn(N, 4)
    close(conv(x, adj_t), conv.lin_l(messages(aggr, x, edges)) + conv.lin_r(x))


@in_both_coordinates
def test_flow_from_target_to_source(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = GINConv(torch.nn.Identity(), aggr=aggr, flow="target_to_source")
    x = torch.randn(N, 4)
    close(conv(x, EDGES), x + messages(aggr, x, EDGES.flip(0)))


@in_both_coordinates
def test_sage(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = SAGEConv(4, 3, aggr=aggr)
    scatter_exponents(aggr)
    x = torch.randn(N, 4)
    close(conv(x, EDGES), conv.lin_l(messages(aggr, x)) + conv.lin_r(x))
    told = "" if coordinates == "growth" else ", coordinates='published'"
    assert str(conv) == f"SAGEConv(4, 3, aggr=GNPAggregation(4{told}))"


@in_both_coordinates
def test_sage_bipartite(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = SAGEConv((4, 2), 3, aggr=aggr)
    source, target = torch.randn(N, 4), torch.randn(3, 2)
    edges = torch.tensor([[0, 4, 3, 2], [0, 2, 2, 0]])
    close(conv((source, target), edges), conv.lin_l(messages(aggr, source, edges, 3)) + conv.lin_r(target))


@in_both_coordinates
def test_graph_conv_with_edge_weights(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates, nonneg="abs")
    conv = GraphConv(4, 3, aggr=aggr)
    x, weight = torch.randn(N, 4), torch.randn(EDGES.size(1))
    pooled = gnp(aggr, weight[:, None] * x[EDGES[0]], EDGES[1], N)
    close(conv(x, EDGES, weight), conv.lin_rel(pooled) + conv.lin_root(x))


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("options", [{}, {"per_channel": True}, {"branches": "both", "bias": True}], ids=str)
@in_both_coordinates
def test_gat_with_two_heads(coordinates: str, options: dict[str, object], concat: bool) -> None:
    heads, channels = 2, 3
    aggr = GNPAggregation(channels, coordinates=coordinates, **options)  # the messages are (E, heads, channels)
    conv = GATConv(4, channels, heads=heads, concat=concat, aggr=aggr)
    scatter_exponents(aggr)
    x = torch.randn(N, 4)
    out, (edges, attention) = conv(x, EDGES, return_attention_weights=True)
    values = conv.lin(x).view(N, heads, channels)
    pooled = gnp(aggr, attention[..., None] * values[edges[0]], edges[1], N)
    close(out, (pooled.flatten(1) if concat else pooled.mean(1)) + conv.bias)


@in_both_coordinates
def test_gradients_reach_every_parameter_of_a_convolution(coordinates: str) -> None:
    conv = GATConv(4, 3, heads=2, aggr=GNPAggregation(3, coordinates=coordinates))
    conv(torch.randn(N, 4), EDGES).square().sum().backward()
    for name, parameter in conv.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


# Aggregations of aggregations


@in_both_coordinates
def test_multi_aggregation(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    multi = MultiAggregation([aggr, "mean", "max"])
    x, index = torch.randn(len(EDGES[1]), 4), EDGES[1]
    out = multi(x, index, dim_size=N)
    close(out[:, :4], gnp(aggr, x, index, N))
    close(out[:, 4:8], MeanAggregation()(x, index, dim_size=N))
    close(out[:, 8:], MaxAggregation()(x, index, dim_size=N))
    assert multi.get_out_channels(4) == 12

    conv = SAGEConv(4, 3, aggr=MultiAggregation([aggr, "mean"]))
    x = torch.randn(N, 4)
    mean = MeanAggregation()(x[EDGES[0]], index, dim_size=N)
    close(conv(x, EDGES), conv.lin_l(torch.cat([messages(aggr, x), mean], dim=-1)) + conv.lin_r(x))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@in_both_coordinates
def test_multi_aggregation_that_merges(coordinates: str, mode: str) -> None:
    first, second = (
        GNPAggregation(4, coordinates=coordinates),
        GNPAggregation(4, coordinates=coordinates, branches="negative"),
    )
    multi = MultiAggregation([first, second], mode=mode)
    x, index = torch.randn(len(EDGES[1]), 4), EDGES[1]
    parts = torch.stack([gnp(first, x, index, N), gnp(second, x, index, N)])
    merged = {"sum": parts.sum(0), "mean": parts.mean(0), "max": parts.amax(0)}[mode]
    close(multi(x, index, dim_size=N), merged)


@in_both_coordinates
def test_degree_scaler(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    scaler = DegreeScalerAggregation(aggr, ["identity", "linear"], deg=torch.tensor([0, 1, 3, 1]))
    x, index = torch.randn(len(EDGES[1]), 4), EDGES[1]
    pooled = gnp(aggr, x, index, N)
    degree = torch.bincount(index, minlength=N)[:, None] / 2.0  # 2 is the average degree of the histogram
    close(scaler(x, index, dim_size=N), torch.cat([pooled, degree * pooled], dim=-1))


@in_both_coordinates
def test_principal_neighbourhood(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    conv = PNAConv(4, 3, aggregators=[aggr], scalers=["identity"], deg=torch.tensor([0, 1, 3, 1]))
    x = torch.randn(N, 4)
    sent = conv.pre_nns[0](torch.cat([x[EDGES[1]], x[EDGES[0]]], dim=-1))
    pooled = gnp(aggr, sent, EDGES[1], N)
    close(conv(x, EDGES), conv.lin(conv.post_nns[0](torch.cat([x, pooled], dim=-1))))


@in_both_coordinates
def test_resolver_passes_the_module_through(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    assert aggregation_resolver(aggr) is aggr


# Heterogeneous graphs


@in_both_coordinates
def test_hetero_conv(coordinates: str) -> None:
    kinds = {
        ("paper", "cites", "paper"): (4, 4),
        ("author", "writes", "paper"): (2, 4),
        ("paper", "by", "author"): (4, 2),
    }
    aggrs = {kind: GNPAggregation(channels[0], coordinates=coordinates) for kind, channels in kinds.items()}
    convs = {kind: SAGEConv(channels, 3, aggr=aggrs[kind]) for kind, channels in kinds.items()}
    x = {"paper": torch.randn(N, 4), "author": torch.randn(3, 2)}
    edges = {
        ("paper", "cites", "paper"): EDGES,
        ("author", "writes", "paper"): torch.tensor([[0, 1, 1, 2], [0, 0, 3, 4]]),
        ("paper", "by", "author"): torch.tensor([[0, 0, 3, 4], [0, 1, 1, 2]]),
    }
    for k, aggr in enumerate(aggrs.values()):
        set_exponents(aggr, 2.0 + k, 0.1 * k)
    out = HeteroConv(convs, aggr="sum")(x, edges)

    expected = {name: torch.zeros(len(values), 3) for name, values in x.items()}
    for kind, conv in convs.items():
        source, _, target = kind
        pooled = messages(aggrs[kind], x[source], edges[kind], len(x[target]))
        expected[target] = expected[target] + conv.lin_l(pooled) + conv.lin_r(x[target])
    for name, values in expected.items():
        close(out[name], values)


# Readouts


def graphs() -> list[Data]:
    sizes = [3, 1, 6, 4, 2]
    return [Data(x=torch.randn(n, 4), edge_index=torch.randint(n, (2, 2 * n)), number=k) for k, n in enumerate(sizes)]


@in_both_coordinates
def test_readout_of_batches_equals_one_graph_at_a_time(coordinates: str) -> None:
    model = GCN(4, 8, num_layers=2, out_channels=6)
    readout = aggregation(6, coordinates=coordinates)
    data = graphs()
    alone = [readout(model(graph.x, graph.edge_index)) for graph in data]
    seen = []
    for batch in DataLoader(data, batch_size=2):
        h = model(batch.x, batch.edge_index)
        out = readout(h, batch.batch, dim_size=batch.num_graphs)
        close(out, torch.cat([alone[k] for k in batch.number.tolist()]))
        close(out, gnp(readout, h, batch.batch, batch.num_graphs))
        close(readout(h, ptr=batch.ptr), out)
        close(readout(h, batch.batch, ptr=batch.ptr), out)
        seen += batch.number.tolist()
    assert seen == [0, 1, 2, 3, 4]


@in_both_coordinates
def test_readout_slot_of_schnet(coordinates: str) -> None:
    z, pos = torch.tensor([1, 6, 8, 1, 1, 6]), torch.randn(6, 3)
    batch = torch.tensor([0, 0, 0, 1, 1, 1])

    def complete(pos: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        pairs = itertools.permutations(range(len(pos)), 2)
        edges = torch.tensor([pair for pair in pairs if batch[pair[0]] == batch[pair[1]]]).T
        return edges, (pos[edges[0]] - pos[edges[1]]).norm(dim=-1)

    readout = GNPAggregation(1, coordinates=coordinates, nonneg="abs")
    model = SchNet(8, 8, 1, 4, interaction_graph=complete, readout=readout)
    seen = []
    readout.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    close(model(z, pos, batch), gnp(readout, seen[0], batch, 2))


@in_both_coordinates
def test_dim_size_too_small(coordinates: str) -> None:
    aggr = GNPAggregation(4, coordinates=coordinates)
    with pytest.raises(ValueError, match=r"Encountered invalid 'dim_size' \(got '2' but expected >= '3'\)"):
        aggr(torch.rand(3, 4), torch.tensor([0, 1, 2]), dim_size=2)
    with pytest.raises(ValueError, match=r"Encountered invalid 'dim_size' \(got '4' but expected '2'\)"):
        aggr(torch.rand(3, 4), ptr=torch.tensor([0, 1, 3]), dim_size=4)


# Beside the built-in aggregations

INDEX = torch.tensor([0, 0, 0, 2, 2, 3, 0, 2])
COUNTS = torch.tensor([4, 0, 3, 1])


@pytest.mark.parametrize(("start", "builtin"), [("sum", SumAggregation()), ("mean", MeanAggregation())])
def test_sum_and_mean_are_points(start: str, builtin: torch.nn.Module) -> None:
    aggr = GNPAggregation(3, coordinates="published", branches="positive", mix=False, start=start, eps=0.0)
    x = torch.rand(len(INDEX), 3)
    expected = builtin(x, INDEX)
    torch.testing.assert_close(aggr(x, INDEX), expected, rtol=4e-3, atol=0)  # 4^(1 - 1/1.0025) = 1.0035
    with torch.no_grad():
        aggr.raw_p_pos.fill_(-30.0)  # p = 1 to rounding
    assert aggr.p_pos.item() == 1.0
    torch.testing.assert_close(aggr(x, INDEX), expected, rtol=2e-6, atol=0)


@pytest.mark.parametrize(("start", "builtin"), [("sum", SumAggregation()), ("mean", MeanAggregation())])
def test_sum_and_mean_are_points_of_one_branch(start: str, builtin: torch.nn.Module) -> None:
    aggr = GNPAggregation(3, mix=False, start=start, eps=0.0)
    x = torch.rand(len(INDEX), 3)
    torch.testing.assert_close(aggr(x, INDEX), builtin(x, INDEX), rtol=2e-6, atol=0)


@pytest.mark.parametrize(("start", "builtin", "side"), [("max", MaxAggregation(), -1), ("min", MinAggregation(), 1)])
def test_max_and_min_are_near_one_branch(start: str, builtin: torch.nn.Module, side: int) -> None:
    aggr = GNPAggregation(3, mix=False, start=start, eps=0.0)
    x = torch.rand(len(INDEX), 3) + 0.01
    exact = builtin(x, INDEX)
    ratio = (aggr(x, INDEX) / exact)[COUNTS > 0] ** side
    bound = COUNTS[COUNTS > 0, None] ** (1 / 500)  # all but one far away: n^(1/p)
    assert (ratio >= 1 - 1e-6).all()
    assert (ratio <= bound * (1 + 1e-6)).all()
    limit = norm_pool(x, INDEX, p=-side * torch.inf, growth=0, eps=0.0)
    torch.testing.assert_close(exact, limit, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("start", "builtin", "branches", "side"),
    [("max", MaxAggregation(), "positive", 1), ("min", MinAggregation(), "negative", -1)],
)
def test_max_and_min_are_near(start: str, builtin: torch.nn.Module, branches: str, side: int) -> None:
    aggr = GNPAggregation(3, coordinates="published", branches=branches, mix=False, start=start, eps=0.0)
    x = torch.rand(len(INDEX), 3) + 0.01
    exact = builtin(x, INDEX)
    ratio = (aggr(x, INDEX) / exact)[COUNTS > 0] ** side
    bound = COUNTS[COUNTS > 0, None] ** (1 / 50)  # all equal: n^(1/p)
    assert (ratio >= 1 - 1e-6).all()
    assert (ratio <= bound * (1 + 1e-6)).all()
    torch.testing.assert_close(exact, norm_pool(x, INDEX, p=side * torch.inf, eps=0.0), rtol=0, atol=0)


@in_both_coordinates
def test_layer_is_the_operator(coordinates: str) -> None:
    aggr = aggregation(4, coordinates=coordinates, branches="split", mix=False, nonneg=None)
    x = torch.randn(len(INDEX), 4)
    size = "growth" if coordinates == "growth" else "q"
    first = norm_pool(x[:, :2], INDEX, p=aggr.p_pos, **{size: getattr(aggr, f"{size}_pos")})
    second = norm_pool(x[:, 2:], INDEX, p=-aggr.p_neg, **{size: getattr(aggr, f"{size}_neg")})
    torch.testing.assert_close(aggr(x, INDEX), torch.cat([first, second], dim=-1), rtol=1e-6, atol=1e-7)
    relu = aggregation(4, coordinates=coordinates, branches="split", mix=False)
    torch.testing.assert_close(relu(x, INDEX), aggr(x.relu(), INDEX), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("zeros", ["keep", "remove"])
def test_one_branch_is_the_operator(zeros: str, per_channel: bool) -> None:
    aggr = aggregation(4, mix=False, nonneg=None, zeros=zeros, per_channel=per_channel)
    x = torch.randn(len(INDEX), 4)
    x[3] = 0.0
    expected = norm_pool(x, INDEX, p=aggr.p, growth=aggr.growth, zeros=zeros)
    torch.testing.assert_close(aggr(x, INDEX), expected, rtol=1e-6, atol=1e-7)
    relu = aggregation(4, mix=False, zeros=zeros, per_channel=per_channel)
    torch.testing.assert_close(relu(x, INDEX), aggr(x.relu(), INDEX), rtol=1e-6, atol=1e-7)
