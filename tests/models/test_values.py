"""Each network equals its formula, computed by loops in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex

from gnpool.models import GraphNet, NodeNet, SAGPoolNet, SetNet
from tests.models.cases import FIXED, GNPS, activate, alive, array, dense, graphs, nodes, pooled, sets

NAMED = (*FIXED, *GNPS)


def mlp(network: Any, x: np.ndarray) -> np.ndarray:
    for layer in network.layers:
        x = activate(network.activation, dense(layer, x))
    return x


def graph_net(model: GraphNet, inputs: dict[str, Any]) -> np.ndarray:
    x, batch = array(inputs["x"]), array(inputs["batch"])
    source, destination = array(inputs["edge_index"])
    h = mlp(model.mlp if model.form == "message" else model.lift, x)
    a = pooled(model.aggr, h[source], destination, len(x))
    h = activate(model.activation, a) if model.form == "message" else mlp(model.mlp, (1 + model.eps) * h + a)
    return dense(model.out, pooled(model.readout, h, batch, inputs["batch_size"]))


def node_net(model: NodeNet, inputs: dict[str, Any]) -> np.ndarray:
    h = array(inputs["x"])
    source, destination = array(inputs["edge_index"])
    if model.form == "gin":
        h = mlp(model.lift, h)
    for layer in model.layers:
        message = h[source]
        if model.form == "gin":
            if model.edge_weights:
                added = array(inputs["edge_weight"])[:, None] * array(layer.edge.weight)[:, 0]
                message = activate(model.activation, message + added)
            h = mlp(layer.mlp, (1 + layer.eps) * h + pooled(layer.aggr, message, destination, len(h)))
            continue
        if model.edge_weights:
            message = np.concatenate([message, array(inputs["edge_weight"])[:, None]], axis=1)
        for linear in (layer.lin1, layer.lin2):
            message = activate(model.activation, dense(linear, message))
        h = activate(model.activation, pooled(layer.aggr, message, destination, len(h)))
    return dense(model.out, h)


@pytest.mark.parametrize("form", ["message", "gin"])
@pytest.mark.parametrize("readout", NAMED)
@pytest.mark.parametrize("aggr", NAMED)
def test_graph_net(aggr: str, readout: str, form: str) -> None:
    model = alive(lambda: GraphNet(2, aggr, readout, hidden=6, form=form, eps=0.25, gnp_bias=aggr == "gnp"))
    inputs = graphs(dummy=(0,))
    np.testing.assert_allclose(array(model(**inputs)), graph_net(model, inputs), rtol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "elu"])
def test_graph_net_activations(activation: str) -> None:
    model = alive(lambda: GraphNet(2, activation=activation, nonneg="abs", hidden=6, out_bias=True, out_channels=3))
    torch.nn.init.normal_(model.mlp.layers[1].weight)  # so that messages of both signs reach the pooling
    inputs = graphs()
    np.testing.assert_allclose(array(model(**inputs)), graph_net(model, inputs), rtol=1e-9)


@pytest.mark.parametrize("form", ["message", "gin"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("aggr", NAMED)
def test_node_net(aggr: str, weighted: bool, form: str) -> None:
    model = alive(lambda: NodeNet(2, aggr, edge_weights=weighted, hidden=4, form=form, eps=0.25))
    inputs = nodes(weighted)
    np.testing.assert_allclose(array(model(**inputs)), node_net(model, inputs), rtol=1e-9)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("pool", NAMED)
def test_set_net(pool: str, depth: int) -> None:
    model = alive(lambda: SetNet(2, pool, depth=depth, hidden=6))
    inputs = sets(dummy=(0,))
    wanted = dense(model.out, pooled(model.pool, mlp(model.mlp, array(inputs["x"])), array(inputs["batch"]), 5))
    np.testing.assert_allclose(array(model(**inputs)), wanted, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("aggr", ["max", "gnp", "gnpg"])
def test_edges_may_come_in_any_form(aggr: str, weighted: bool) -> None:
    model = alive(lambda: NodeNet(2, aggr, edge_weights=weighted, hidden=4))
    inputs = nodes(weighted)
    wanted = model(**inputs)
    rows, edges = inputs["x"].size(0), inputs["edge_index"]
    by_column = {**inputs, "edge_index": EdgeIndex(edges, sparse_size=(rows, rows), sort_order="col")}
    torch.testing.assert_close(model(**by_column), wanted)
    order = torch.randperm(edges.size(1))
    shuffled = {**inputs, "edge_index": edges[:, order]}
    if weighted:
        shuffled["edge_weight"] = inputs["edge_weight"][order]
    torch.testing.assert_close(model(**shuffled), wanted)


@pytest.mark.parametrize("readout", ["gnp", "gnpg", "max", "sort", "set2set"])
@pytest.mark.parametrize("given", [["batch"], ["ptr"], ["batch", "batch_size"], ["batch", "ptr"]], ids="+".join)
def test_graphs_may_come_in_any_form(readout: str, given: list[str]) -> None:
    model = alive(lambda: GraphNet(2, "sum", readout, hidden=4))
    inputs = graphs()
    some = {name: inputs[name] for name in ["x", "edge_index", *given]}
    torch.testing.assert_close(model(**some), model(**inputs))


@pytest.mark.parametrize("readout", ["gnp", "gnpg", "max", "sort", "set2set"])
def test_one_graph_needs_no_batch(readout: str) -> None:
    model = alive(lambda: GraphNet(2, "sum", readout, hidden=4))
    inputs = graphs()
    first = {"x": inputs["x"][:4], "edge_index": inputs["edge_index"][:, inputs["edge_index"][1] < 4]}
    torch.testing.assert_close(model(**first), model(**inputs)[:1])


def test_sum_and_max_are_exact_on_degrees() -> None:
    # Untrained, and yet proportional to the largest degree: what makes this pair extrapolate on it.
    model = GraphNet(1, "sum", "max").double()
    edge_index = torch.tensor([[0, 1, 2, 3], [4, 4, 4, 0]])
    y = [model(torch.ones(5, 1).double(), edge_index[:, :k]) for k in (1, 3)]
    torch.testing.assert_close(y[1], 3 * y[0])
    assert float(y[0].detach().abs()) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: GraphNet(2, "gnp", "gnp", hidden=4),
        lambda: GraphNet(2, "gnpg", "gnpg", hidden=4),
        lambda: GraphNet(2, "sum", "max", hidden=4),
        lambda: GraphNet(2, "mean", "sort", hidden=4),
        lambda: SAGPoolNet(2, hidden=4),
    ],
    ids=["gnp", "gnpg", "max", "sort", "sagpool"],
)
def test_compile(make: Callable[[], torch.nn.Module]) -> None:
    model, inputs = alive(make), graphs()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(**inputs), model(**inputs))
