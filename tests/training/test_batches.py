"""Batches: equal to PyG's collation, shuffled by the seed alone, padded without changing what is real."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch as PygBatch
from torch_geometric.data import Data

from gnpool import Batches
from tests.training.problems import graphs


@pytest.fixture(scope="module")
def data():
    found = graphs(7)
    for k, graph in enumerate(found):
        graph.edge_weight = torch.arange(graph.num_edges) + 100.0 * k
        graph.order = torch.arange(graph.num_nodes) + 100 * k
        graph.name = f"graph {k}"  # not a tensor: left out
    return found


def test_equals_the_collation_of_pyg(data):
    (batch,) = Batches(data, 10, seed=None)
    expected = PygBatch.from_data_list(data)
    for name in ("x", "edge_index", "y", "edge_weight", "order", "batch", "ptr"):
        torch.testing.assert_close(getattr(batch, name), expected[name], rtol=0, atol=0, msg=name)
    assert batch.batch_size == 7
    assert batch.max_nodes == max(graph.num_nodes for graph in data)
    assert "name" not in batch


def test_an_epoch_has_every_graph_once_in_an_order_of_its_own(data):
    batches = Batches(data, 3, seed=4)
    assert len(batches) == 3
    orders = [torch.cat(batches.order(k)).tolist() for k in range(3)]
    assert all(sorted(order) == list(range(7)) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    assert orders == [torch.cat(Batches(data, 3, seed=4).order(k)).tolist() for k in range(3)]
    assert orders[0] != torch.cat(Batches(data, 3, seed=5).order(0)).tolist()
    assert [len(order) for order in batches.order(0)] == [3, 3, 1]


def test_without_a_seed_the_order_is_kept(data):
    assert torch.cat(Batches(data, 2, seed=None).order(9)).tolist() == list(range(7))


def test_sorted_edges_carry_their_lists(data):
    shuffled = []
    for graph in data:
        order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(0))
        shuffled.append(
            Data(x=graph.x, edge_index=graph.edge_index[:, order], edge_weight=graph.edge_weight[order], y=graph.y)
        )
    (batch,) = Batches(shuffled, 10, seed=None, sorted_edges=True)
    expected = PygBatch.from_data_list(data)  # these are sorted already
    torch.testing.assert_close(batch.edge_index.as_tensor(), expected.edge_index)
    torch.testing.assert_close(batch.edge_weight, expected.edge_weight)
    (rowptr, col), perm = batch.edge_index.get_csr()
    source, destination = expected.edge_index
    order = torch.tensor(sorted(range(len(source)), key=lambda e: (int(source[e]), int(destination[e]))))
    assert torch.equal(perm, order)
    assert torch.equal(col, destination[order])
    assert rowptr.diff().tolist() == torch.bincount(source, minlength=len(batch.x)).tolist()
    assert perm.data_ptr() == batch.edge_index.get_csr()[1].data_ptr()  # kept, as CUDA graphs need it


@pytest.mark.parametrize("sorted_edges", [False, True], ids=["tensor", "EdgeIndex"])
def test_padding_adds_one_dummy_graph_that_does_not_count(data, sorted_edges):
    batches = Batches(data, 4, seed=1, sorted_edges=sorted_edges)
    padding = batches.padding(epochs=5)
    shapes = set()
    for number in range(5):
        for order in batches.order(number):
            real, padded = batches.cut(order), batches.cut(order, padding)
            count, nodes, edges = real.batch_size, len(real.x), real.edge_index.size(1)
            assert padded.batch_size == 5
            assert torch.equal(padded.x[:nodes], real.x)
            assert torch.equal(padded.y[:count], real.y)
            assert torch.equal(torch.as_tensor(padded.edge_index)[:, :edges], torch.as_tensor(real.edge_index))
            assert torch.equal(padded.ptr[: count + 1], real.ptr)
            assert padded.ptr[-2:].tolist() == [nodes, padding.nodes]
            assert padded.weight.tolist() == [1.0] * count + [0.0] * (5 - count)
            surplus = torch.as_tensor(padded.edge_index)[:, edges:]
            assert bool((surplus >= nodes).all())
            assert torch.equal(surplus[0], surplus[1])
            assert bool((torch.as_tensor(padded.edge_index)[1].diff() >= 0).all())
            assert torch.isfinite(padded.y).all()
            shapes.add(tuple(tuple(v.shape) for v in padded.fields.values() if isinstance(v, torch.Tensor)))
    assert len(shapes) == 1


def test_weights_of_nodes_are_padded_with_zeros():
    data = [Data(x=torch.ones(n, 1), y=torch.arange(n) + 1.0, weight=torch.ones(n)) for n in (2, 3)]
    batches = Batches(data, 2, seed=None)
    padded = batches.cut(torch.tensor([0, 1]), batches.padding(1)._replace(nodes=8))
    assert padded.y.tolist() == [1, 2, 1, 2, 3, 3, 3, 3]
    assert padded.weight.tolist() == [1, 1, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Batches([], 4), "'graphs' is empty"),
        (lambda: Batches(graphs(2), 0), "'batch_size' must be at least 1, got 0"),
        (lambda: Batches([Data(x=torch.ones(3, 1), z=torch.ones(5))]), "first dimension of 'z'"),
        (lambda: Batches([Data(x=torch.ones(3, 1), z=torch.tensor(1.0))]), "first dimension of 'z'"),
        (lambda: Batches([Data(x=torch.ones(3, 1), z=torch.ones(3)), Data(x=torch.ones(3, 1))]), "must have 'z'"),
        (lambda: Batches([Data(y=torch.ones(1))]), "'x' or 'num_nodes'"),
    ],
)
def test_errors(make, match):
    with pytest.raises(ValueError, match=match):
        make()
