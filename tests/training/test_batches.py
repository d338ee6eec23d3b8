"""Batches: equal to PyG's collation, shuffled by the seed alone, padded without changing what is real."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch as PygBatch
from torch_geometric.data import Data

from gnpool import Batches
from gnpool.training.padded import PaddedEpochs, StaticBatch
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
def test_padding_adds_dummy_graphs_that_do_not_count(data, sorted_edges):
    batches = Batches(data, 4, seed=1, sorted_edges=sorted_edges)
    epochs = PaddedEpochs(batches, 5, torch.device("cpu"))
    static = StaticBatch(epochs)
    nodes_of, edges_of, graphs_of = epochs.padding
    longest = batches.max_nodes
    for number in range(5):
        epoch = epochs.epoch(number)
        for k, order in enumerate(batches.order(number)):
            static.load(epoch, k)
            real, padded = batches.cut(order), static.batch
            count, nodes, edges = real.batch_size, len(real.x), real.edge_index.size(1)
            assert padded.batch_size == graphs_of
            assert (len(padded.x), padded.edge_index.size(1)) == (nodes_of, edges_of)
            for name in ("x", "order", "batch"):
                assert torch.equal(getattr(padded, name)[:nodes], getattr(real, name)), name
            assert padded.batch[nodes:].tolist() == [count + j // longest for j in range(nodes_of - nodes)]
            assert torch.equal(padded.y[:count], real.y)
            assert torch.equal(padded.edge_weight[:edges], real.edge_weight)
            dummies = [min(nodes + (j + 1) * longest, nodes_of) for j in range(graphs_of - count)]
            assert padded.ptr.tolist() == [*real.ptr.tolist(), *dummies]
            assert padded.ptr.diff().tolist() == torch.bincount(padded.batch, minlength=graphs_of).tolist()
            assert int(padded.ptr.diff().max()) <= padded.max_nodes
            assert int(padded.ptr[-1]) == nodes_of
            assert padded.weight.tolist() == [1.0] * count + [0.0] * (graphs_of - count)
            edge_index = torch.as_tensor(padded.edge_index)
            assert torch.equal(edge_index[:, :edges], torch.as_tensor(real.edge_index))
            surplus = edge_index[:, edges:]
            assert bool((surplus >= nodes).all())
            assert torch.equal(surplus[0], surplus[1])
            assert bool((edge_index[1].diff() >= 0).all())
            assert torch.isfinite(padded.y).all()
            if sorted_edges:
                fresh = EdgeIndex(edge_index.clone(), sparse_size=(nodes_of, nodes_of), sort_order="col")
                assert torch.equal(padded.edge_index.get_csc()[0][0], fresh.get_csc()[0][0])
                (ptr, col), perm = padded.edge_index.get_csr()
                assert torch.equal(ptr, fresh.get_csr()[0][0])
                assert torch.equal(col, edge_index[1][perm])
                assert bool((edge_index[0][perm].diff() >= 0).all())
                assert torch.equal(perm.sort().values, torch.arange(edges_of))


def test_padded_weights_of_nodes():
    data = [Data(x=torch.ones(n, 1), y=torch.arange(n) + 1.0, weight=torch.ones(n)) for n in (2, 3, 4)]
    epoch = PaddedEpochs(Batches(data, 2, seed=None), 1, torch.device("cpu")).epoch(0)
    assert epoch["y"].tolist() == [[1, 2, 1, 2, 3, 3], [1, 2, 3, 4, 4, 4]]
    assert epoch["weight"].tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0]]


def test_padding_without_any_edge():
    data = [Data(x=torch.ones(2, 1), edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.ones(1)) for _ in range(3)]
    epoch = PaddedEpochs(Batches(data, 2, sorted_edges=True), 2, torch.device("cpu")).epoch(1)
    assert epoch["edge_index"].shape == (2, 2, 0)
    assert epoch["csc_ptr"].tolist() == [[0] * 6] * 2


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
