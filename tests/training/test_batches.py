"""Batches: equal to PyG's collation, shuffled by the seed alone, padded without changing what is real."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch as PygBatch
from torch_geometric.data import Data

from gnpool import Batches
from gnpool.training import padded
from gnpool.training.padded import PaddedEpochs, Padding, StaticBatch, largest, padding_of
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


def random_graph(nodes: int, edges: int, generator: torch.Generator) -> Data:
    """A graph whose edges are in no order; some come twice."""
    edge_index = torch.randint(0, max(nodes, 1), (2, edges), generator=generator)
    numbers = torch.rand(edges, 2, generator=generator)
    return Data(x=torch.ones(nodes, 1), edge_index=edge_index, edge_attr=numbers, y=torch.ones(1))


SIZES = {
    "ragged": [(4, 9), (2, 3), (7, 30), (3, 1), (5, 12)],
    "empty": [(3, 4), (0, 0), (1, 0), (4, 7), (0, 0), (2, 2)],
    "no edges": [(2, 0), (3, 0)],
    "nothing": [(0, 0), (0, 0), (0, 0)],
    "one": [(6, 40)],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("ready", [False, True], ids=["in no order", "in order"])
def test_edges_are_sorted_graph_by_graph(sizes, ready):
    generator = torch.Generator().manual_seed(0)
    found = [random_graph(*size, generator) for size in sizes]
    if ready:
        for graph in found:
            graph.edge_index = torch.tensor(sorted(graph.edge_index.T.tolist(), key=lambda e: e[::-1])).view(-1, 2).T
            graph.edge_index = graph.edge_index.long()
    batches = Batches(found, 2, seed=None, sorted_edges=True)
    edges, attributes, transposes = [], [], []
    for graph in found:
        pairs = graph.edge_index.T.tolist()
        order = sorted(range(len(pairs)), key=lambda e: (pairs[e][1], pairs[e][0]))  # stable, as it must be
        edges += [pairs[e] for e in order]
        attributes += [graph.edge_attr[e].tolist() for e in order]
        transposes += sorted(range(len(pairs)), key=lambda k: pairs[order[k]])
    assert batches.values["edge_index"].T.tolist() == edges
    assert batches.values["edge_attr"].tolist() == attributes
    assert batches.values["edge_transpose"].tolist() == transposes
    assert {value.dtype for name, value in batches.values.items() if name in ("edge_index", "edge_transpose")} == {
        torch.int64
    }


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("size", "seed"), [(2, 0), (2, None), (1, 3), (4, 3), (9, 1)])
def test_the_padding_is_the_least_that_fits(sizes, size, seed):
    generator = torch.Generator().manual_seed(0)
    batches = Batches([random_graph(*each, generator) for each in sizes], size, seed=seed)
    epochs = 7
    nodes, edges, counts = [], [], []
    for number in range(epochs):
        order = range(len(sizes))
        if seed is not None:
            order = np.random.default_rng([seed, number]).permutation(len(sizes)).tolist()
        for first in range(0, len(sizes), size):
            held = [sizes[k] for k in order[first : first + size]]
            counts.append(len(held))
            nodes.append(sum(n for n, _ in held))
            edges.append(sum(e for _, e in held))
    width, longest = max(nodes) + 1, max(1, *(n for n, _ in sizes))
    graphs_of = max(c + -(-(width - n) // longest) for c, n in zip(counts, nodes, strict=True))
    assert largest(batches, epochs) == Padding(width, max(edges), graphs_of)
    assert all(type(value) is int for value in largest(batches, epochs))


def test_the_padding_is_computed_once_and_stays_with_the_batches(data, monkeypatch):
    batches, asked, together = Batches(data, 3, seed=4), [], threading.Barrier(4)
    monkeypatch.setattr(padded, "largest", lambda *given: asked.append(given[1]) or largest(*given))

    def ask(_):
        together.wait(60)
        return padding_of(batches, 5)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(4))) == {largest(batches, 5)}
    assert asked == [5]
    sent = pickle.loads(pickle.dumps(batches))  # noqa: S301 - our own bytes
    assert padding_of(sent, 5) == largest(batches, 5)
    assert asked == [5]
    assert padding_of(sent, 1) == largest(batches, 1)
    assert asked == [5, 1]


def test_batches_travel_between_processes(data):
    batches = Batches(data, 3, seed=4, sorted_edges=True)
    sent = pickle.loads(pickle.dumps(batches))  # noqa: S301 - our own bytes
    assert sent.describe() == batches.describe()
    for one, other in zip(sent.epoch(2), batches.epoch(2), strict=True):
        assert one.fields.keys() == other.fields.keys()
        for name, value in one.fields.items():
            assert np.array_equal(np.asarray(value), np.asarray(other.fields[name])), name


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
