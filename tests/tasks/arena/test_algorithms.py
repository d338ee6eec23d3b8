"""BFS, Dijkstra and eccentricity: graphs of each kind, and labels against networkx."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from gnpool.tasks.arena import get_benchmark, pointer_accuracy, pointer_graph_accuracy, pointer_nll
from gnpool.tasks.arena.algorithms import KINDS, WS_NEIGHBORS, delaunay_graph, edge_weights, er_graph, ws_graph
from gnpool.tasks.arena.delaunay import delaunay_edges
from gnpool.tasks.streams import Stream
from tests.models.cases import no_fallback
from tests.tasks.arena.helpers import chi_square
from tests.tasks.helpers import simple

PARTS = ("train", "val", "er_80", "ws_80", "delaunay_80", "ws_16")


def parents(data: Data) -> list[int]:
    """The source of the one edge into each node that is pointed along."""
    taken = data.edge_index[:, data.y == 1]
    assert taken[1].tolist() == list(range(data.num_nodes))
    return taken[0].tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [16, 160])
def test_graphs_are_connected(kind: str, nodes: int) -> None:
    stream = Stream(kind, nodes)
    for _ in range(10):
        graph = KINDS[kind](nodes, stream)
        assert graph.nodes == nodes
        assert nx.is_connected(nx.Graph(graph.edges.T.tolist()))
        assert (graph.edges[0] != graph.edges[1]).all()


def test_er_densities() -> None:
    """Mean degrees from log n to 3 log n; in training as for 16 nodes."""
    stream = Stream("density", 0)
    degrees = np.array([er_graph(200, stream).edges.shape[1] / 200 for _ in range(300)]) / math.log(200)
    assert 0.9 < degrees.min() < 1.4
    assert 2.6 < degrees.max() < 3.15
    assert degrees.mean() == pytest.approx(2.05, abs=0.15)  # sparse ones are less often connected
    train = get_benchmark("salsa_eccentricity").dataset("train", count=500)
    sizes = np.array([graph.num_nodes for graph in train])
    assert chi_square(np.array([(sizes == n).sum() for n in (4, 7, 11, 13, 16)]), np.ones(5)) < 4
    largest = [(g.num_edges - 16) / (16 * 15) for g in train if g.num_nodes == 16]
    assert np.mean(largest) == pytest.approx(2.05 * math.log(16) / 16, rel=0.1)


def test_watts_strogatz() -> None:
    stream, kept, degrees = Stream("ws", 0), [], set()
    for _ in range(200):
        graph = ws_graph(60, stream)
        degree = graph.edges.shape[1] // 60
        assert degree in WS_NEIGHBORS
        degrees.add(degree)
        apart = np.abs(graph.edges[0] - graph.edges[1])
        kept.append((np.minimum(apart, 60 - apart) <= degree // 2).mean())
    assert degrees == set(WS_NEIGHBORS)
    assert np.mean(kept) == pytest.approx(1 - 0.125 * (1 - 6 / 60), abs=0.01)  # a rewired edge may come back
    assert min(kept) > 0.7
    assert max(kept) < 0.99


@pytest.mark.parametrize("nodes", [3, 4, 5, 9, 14])
def test_delaunay_triangles_have_empty_circles(nodes: int) -> None:
    """Against all triples of points, in exact arithmetic."""
    for seed in range(6):
        points = Stream("points", seed).uniform((nodes, 2))
        exact = [tuple(Fraction(value) for value in point) for point in points.tolist()]
        wanted: set[tuple[int, int]] = set()
        for triple in itertools.combinations(range(nodes), 3):
            if not any(inside(*(exact[k] for k in triple), exact[p]) for p in range(nodes) if p not in triple):
                wanted |= set(itertools.combinations(triple, 2))
        assert set(map(tuple, delaunay_edges(points).tolist())) == wanted


def inside(a: Any, b: Any, c: Any, p: Any) -> bool:
    """Whether p lies within the circle through a, b and c."""
    rows = [(x - p[0], y - p[1]) for x, y in (a, b, c)]
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = ((x, y, x * x + y * y) for x, y in rows)
    value = ax * (by * cz - bz * cy) - ay * (bx * cz - bz * cx) + az * (bx * cy - by * cx)
    turn = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return value * turn > 0


def test_delaunay_of_many_points() -> None:
    """A triangulation of n points, h of them on the hull, has 3 n - 3 - h edges, and no two cross."""
    graph = delaunay_graph(5000, Stream("many", 0))
    points = Stream("many", 0).uniform((5000, 2))
    hull = len(convex_hull(points))
    assert graph.edges.shape[1] // 2 == 3 * 5000 - 3 - hull
    lengths = np.linalg.norm(points[graph.edges[0]] - points[graph.edges[1]], axis=1)
    assert np.median(lengths) < 2 / 5000**0.5


def convex_hull(points: np.ndarray) -> list[list[float]]:
    ordered = sorted(points.tolist())

    def half(side: list[list[float]]) -> list[list[float]]:
        chain: list[list[float]] = []
        for x, y in side:
            while len(chain) > 1 and (chain[-1][0] - chain[-2][0]) * (y - chain[-2][1]) <= (
                chain[-1][1] - chain[-2][1]
            ) * (x - chain[-2][0]):
                chain.pop()
            chain.append([x, y])
        return chain[:-1]

    return half(ordered) + half(ordered[::-1])


@pytest.mark.parametrize("part", PARTS)
def test_bfs(part: str) -> None:
    for data in get_benchmark("salsa_bfs").dataset(part, count=8):
        graph, source = simple(data), int(data.x[:, 1].argmax())
        hops = nx.single_source_shortest_path_length(graph, source)
        wanted = [min((u for u in graph[v] if hops[u] == hops[v] - 1), default=source) for v in range(data.num_nodes)]
        assert parents(data) == wanted
        assert parents(data)[source] == source
        torch.testing.assert_close(data.x[:, 0], torch.arange(data.num_nodes) / data.num_nodes)
        assert data.x[:, 1].sum() == 1


@pytest.mark.parametrize("part", PARTS)
def test_dijkstra(part: str) -> None:
    for data in get_benchmark("salsa_dijkstra").dataset(part, count=8):
        graph, source = simple(data), int(data.x[:, 1].argmax())
        weights = {}
        for (u, v), weight in zip(data.edge_index.T.tolist(), data.edge_weight.double().tolist(), strict=True):
            assert weights.setdefault((min(u, v), max(u, v)), weight) == weight
            if u != v:
                graph[u][v]["weight"] = weight
            else:
                assert weight == 1.0
        distance = nx.single_source_dijkstra_path_length(graph, source)
        for node, parent in enumerate(parents(data)):
            assert (parent == node) == (node == source)
            if node != source:
                assert distance[parent] + graph[parent][node]["weight"] == pytest.approx(distance[node], rel=1e-12)


def test_weights() -> None:
    graph = er_graph(400, Stream("weights", 0)).with_self_loops()
    weights = edge_weights(graph, Stream("weights", 1))
    drawn = weights[graph.edges[0] < graph.edges[1]]
    assert drawn.min() >= 0.001**0.5 - 1e-7
    assert (drawn**2 - 0.001).mean() == pytest.approx(0.25, abs=0.01)  # of the product of two uniform numbers
    assert (drawn**2 - 0.001).var() == pytest.approx(1 / 9 - 1 / 16, abs=0.004)
    assert (weights == weights.astype(np.float32)).all()


@pytest.mark.parametrize("part", PARTS)
def test_eccentricity(part: str) -> None:
    for data in get_benchmark("salsa_eccentricity").dataset(part, count=8):
        source = int(data.x[:, 1].argmax())
        assert data.y.tolist() == [nx.eccentricity(simple(data), source)]


LABELS = {"er_1600": (3, 6), "ws_1600": (7, 26), "delaunay_1600": (18, 40)}


@pytest.mark.parametrize("part", LABELS)
def test_labels_at_1600_nodes(part: str) -> None:
    low, high = LABELS[part]
    labels = [int(data.y) for data in get_benchmark("salsa_eccentricity").dataset(part, count=12)]
    assert low <= min(labels) <= max(labels) <= high


# Losses and metrics


def pointers() -> tuple[Data, torch.Tensor]:
    """Two graphs; the first is right, and of the second one node of two."""
    edges = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 1]])
    graphs = [Data(x=torch.ones(2, 1), edge_index=edges, y=torch.tensor(y)) for y in ([1, 0, 1, 0], [1, 0, 0, 1])]
    return Batch.from_data_list(graphs), torch.tensor([0.9, 0.1, 0.6, 0.4, 0.3, 0.7, 0.2, 0.8]).double().log()


def test_pointer_values() -> None:
    batch, prediction = pointers()
    nll = pointer_nll(prediction, batch)
    assert nll.tolist() == pytest.approx([-math.log(0.9), 0, -math.log(0.6), 0, -math.log(0.3), 0, 0, -math.log(0.8)])
    assert pointer_accuracy(prediction, batch).tolist() == [1, 0, 1, 0, 0, 0, 0, 1]
    assert pointer_graph_accuracy(prediction, batch).tolist() == [1, 0, 1, 0, 0, 0, 0, 0]
    tied = prediction.clone()
    tied[:2] = math.log(0.5)
    assert pointer_accuracy(tied, batch).tolist() == [0, 0, 1, 0, 0, 0, 0, 1]
    assert pointer_graph_accuracy(tied, batch).sum() == 0


def test_pointers_that_do_not_count() -> None:
    batch, prediction = pointers()
    batch.weight = torch.tensor([1.0, 0, 1, 0, 0, 0, 0, 1])  # the wrong one is left out
    assert pointer_graph_accuracy(prediction, batch).tolist() == [1, 0, 1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("function", [pointer_nll, pointer_accuracy, pointer_graph_accuracy])
def test_pointer_replicas(function: Any) -> None:
    batch, prediction = pointers()
    many = torch.stack([prediction, prediction.flip(0), prediction * 2])
    with no_fallback():
        together = torch.vmap(lambda one: function(one, batch))(many)
    torch.testing.assert_close(together, torch.stack([function(one, batch) for one in many]))
