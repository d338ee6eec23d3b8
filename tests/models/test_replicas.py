"""Many models at once by vmap equal each alone, in value and gradient, and no operator falls back to a loop."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn.aggr import SumAggregation

from gnpool.models import GraphNet, NodeNet, SAGPoolNet, SetNet, SetTransformer
from tests.models.cases import FIXED, GNPS, POOLINGS, assert_replicas_agree, graphs, no_fallback, nodes, sets

DUMMY = (5,)


@pytest.mark.parametrize("readout", POOLINGS)
@pytest.mark.parametrize("aggr", [*FIXED, *GNPS])
def test_graph_net(aggr: str, readout: str) -> None:
    assert_replicas_agree(lambda: GraphNet(2, aggr, readout, hidden=4), graphs(DUMMY))


@pytest.mark.parametrize("aggr", ["sum", "min", "gnp", "gnpg"])
def test_gin(aggr: str) -> None:
    assert_replicas_agree(lambda: GraphNet(2, aggr, aggr, hidden=4, form="gin"), graphs(DUMMY))


@pytest.mark.parametrize("activation", ["leaky_relu", "elu"])
def test_activations(activation: str) -> None:
    assert_replicas_agree(lambda: GraphNet(2, hidden=4, activation=activation, nonneg="abs"), graphs(DUMMY))


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("aggr", [*FIXED, *GNPS])
def test_node_net(aggr: str, weighted: bool) -> None:
    inputs = nodes(weighted, DUMMY)
    rows = inputs["x"].size(0)
    assert_replicas_agree(lambda: NodeNet(2, aggr, edge_weights=weighted, hidden=4), inputs)
    assert_replicas_agree(lambda: NodeNet(2, aggr, edge_weights=weighted, hidden=4, form="gin"), inputs)
    inputs["edge_index"] = EdgeIndex(inputs["edge_index"], sparse_size=(rows, rows), sort_order="col")
    assert_replicas_agree(lambda: NodeNet(2, aggr, edge_weights=weighted, hidden=4), inputs)


@pytest.mark.parametrize("pool", POOLINGS)
def test_set_net(pool: str) -> None:
    assert_replicas_agree(lambda: SetNet(2, pool, depth=2, hidden=4), sets(DUMMY))


@pytest.mark.parametrize("options", [{"sort_channels": False, "k": 3}, {"k": 2}], ids=str)
def test_sort_options(options: dict[str, int]) -> None:
    assert_replicas_agree(lambda: SetNet(2, "sort", hidden=4, pool_options=options), sets(DUMMY))


def test_masked_gnp() -> None:
    assert_replicas_agree(lambda: SetNet(2, "gnp", hidden=4, pool_options={"mask": "positive"}), sets(DUMMY))


def test_sagpool() -> None:
    assert_replicas_agree(lambda: SAGPoolNet(2, hidden=6), graphs(DUMMY))


@pytest.mark.parametrize("encoder", ["sab", "isab"])
def test_set_transformer(encoder: str) -> None:
    assert_replicas_agree(lambda: SetTransformer(2, encoder=encoder, hidden=8, heads=2, points=3), sets(DUMMY))


def test_a_fallback_would_be_seen() -> None:
    with no_fallback(), pytest.raises(UserWarning, match="performance drop"):
        torch.vmap(lambda x: SumAggregation()(x, ptr=torch.tensor([0, 1, 3])))(torch.randn(2, 3, 4))
