"""COLORS-3 and TRIANGLES: labels by brute force, sizes, colours, and which graphs are drawn."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch

from gnpool.tasks.arena import get_benchmark
from gnpool.tasks.arena.benchmark import Streams
from gnpool.tasks.arena.counting import _color_plan, count_triangles, draw_gnm
from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Stream
from tests.tasks.arena.helpers import chi_square
from tests.tasks.helpers import simple


def test_gnm_graphs_are_uniform() -> None:
    """Of 4 nodes and 5 edges there are six; with 6 edges or more there is one."""
    stream = Stream("gnm", 0)
    found = Counter(draw_gnm(4, stream).edges.tobytes() for _ in range(4000))
    complete = nx.to_numpy_array(nx.complete_graph(4)).sum()
    edges = {key: len(np.frombuffer(key, dtype=np.int64)) // 4 for key in found}
    by_edges = Counter()
    for key, count in found.items():
        by_edges[edges[key]] += count
    assert chi_square(np.array([by_edges[m] for m in (4, 5, 6)]), np.array([1.0, 1.0, 2.0])) < 4
    five = np.array([count for key, count in found.items() if edges[key] == 5])
    assert len(five) == 6
    assert chi_square(five, np.ones(6)) < 4
    assert max(edges.values()) == complete / 2


@pytest.mark.parametrize("nodes", [5, 25, 200])
def test_numbers_of_edges(nodes: int) -> None:
    stream = Stream("gnm", nodes)
    counts = [draw_gnm(nodes, stream).edges.shape[1] // 2 for _ in range(300)]
    assert min(counts) >= nodes
    assert max(counts) <= 2 * nodes - 1
    assert np.mean(counts) == pytest.approx(1.5 * nodes - 0.5, rel=0.05)


def test_triangles_are_counted() -> None:
    stream = Stream("triangles", 0)
    for _ in range(30):
        graph = draw_gnm(stream.integer(4, 60), stream)
        assert count_triangles(graph) == sum(nx.triangles(nx.Graph(graph.edges.T.tolist())).values()) / 3
    assert count_triangles(Graph.from_pairs(3, np.array([0, 1, 0]), np.array([1, 2, 2]))) == 1


@pytest.mark.parametrize(("part", "low", "high"), [("train", 4, 25), ("large", 26, 100)])
def test_triangles(part: str, low: int, high: int) -> None:
    graphs = get_benchmark("triangles").dataset(part, count=400)
    assert Counter(int(graph.y) for graph in graphs) == dict.fromkeys(range(1, 11), 40)
    sizes = [graph.num_nodes for graph in graphs]
    assert low <= min(sizes) < max(sizes) <= high
    assert len({graph.edge_index.numpy().tobytes() for graph in graphs}) == 400
    for graph in graphs[:40]:
        other = simple(graph)
        assert sum(nx.triangles(other).values()) == 3 * int(graph.y)
        degree = torch.tensor([other.degree(node) for node in range(graph.num_nodes)])
        assert torch.equal(graph.x, torch.eye(14)[degree.clamp(max=13)])


@pytest.mark.parametrize(
    ("part", "sizes", "each"),
    [("val", range(4, 26), 253), ("large", range(26, 201), 22), ("large_c", range(26, 201), 22)],
)
def test_plan_of_colors(part: str, sizes: range, each: int) -> None:
    """As many graphs of every size, with as many of every label as fits."""
    plan = _color_plan(part, Streams("colors", part, 0))
    assert Counter(nodes for nodes, _ in plan) == dict.fromkeys(sizes, each)
    for nodes in sizes:
        labels = Counter(label for size, label in plan if size == nodes)
        assert set(labels) == set(range(min(10, nodes) + 1))
        assert max(labels.values()) - min(labels.values()) <= 1


@pytest.mark.parametrize("part", ["train", "large", "large_c"])
def test_colors(part: str) -> None:
    graphs = get_benchmark("colors").dataset(part, count=300)
    others = []
    for graph in graphs:
        green = graph.x[:, 1] == 1
        assert green.sum() == graph.y
        assert (graph.x[green].sum(1) == 1).all()
        others.append(graph.x[~green])
    rest = torch.cat(others)
    assert (rest[:, 1] == 0).all()
    error = 4 * 0.5 / len(rest) ** 0.5
    channels = (0, 2, 3) if part == "large_c" else (0, 2)
    for channel in channels:
        assert abs(rest[:, channel].mean() - 0.5) < error
    if part == "large_c":
        codes = Counter((rest @ torch.tensor([1.0, 0.0, 2.0, 4.0])).long().tolist())
        assert chi_square(np.array([codes[code] for code in range(8)]), np.ones(8)) < 4  # none of them included
    else:
        assert (rest.sum(1) == 1).all()
        assert (rest[:, 3] == 0).all()
