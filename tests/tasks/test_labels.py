"""Labels against networkx, closed forms and trying all ways; what examples are drawn from."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

from gnpool.tasks import STRUCTURES, Stream, get_task, task_names
from gnpool.tasks.node_tasks import edge_lengths
from gnpool.tasks.structures import connected_er
from tests.tasks.helpers import STATISTICS, same, simple


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", task_names("graph"))
def test_graph_labels(name: str, structure: str) -> None:
    for data in get_task(name).dataset("test", count=9, structure=structure):
        degrees = [degree for _, degree in simple(data).degree]
        expected = {
            "maxdegree": max(degrees),
            "harmonic": 1 / sum(1 / degree for degree in degrees),
            "invsize": 1 / len(degrees),
        }[name]
        assert data.y.item() == pytest.approx(expected, rel=1e-14)
        assert (data.x == 1).all()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_bfs_labels(structure: str) -> None:
    for data in get_task("bfs").dataset("test", count=9, structure=structure):
        (target,) = data.x.flatten().nonzero().flatten().tolist()
        assert data.x[target] == 1
        near = nx.single_source_shortest_path_length(simple(data), target, cutoff=3)
        assert data.y.tolist() == [float(node in near) for node in range(data.num_nodes)]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_shortest_labels_under_every_reading(structure: str) -> None:
    task = get_task("shortest")
    readings = {
        reading: task.dataset("test", count=6, structure=structure, reading=reading) for reading in task.readings
    }
    assert same(readings["three_edges"], task.dataset("test", count=6, structure=structure))
    for three, within, exact in zip(*(readings[reading] for reading in task.readings), strict=True):
        for other in (within, exact):  # only labels and weights depend on the reading
            assert all(torch.equal(three[key], other[key]) for key in ("x", "edge_index", "edge_weight"))
        (target,) = (three.x.flatten() == 0).nonzero().flatten().tolist()
        n = three.num_nodes
        assert (three.x.flatten().sort().values[1:] == 10 * n).all()
        graph = nx.Graph()
        for (u, v), length in zip(three.edge_index.T.tolist(), three.edge_weight.tolist(), strict=True):
            if u == v:
                assert length == 0
            else:
                assert graph.get_edge_data(u, v, {"weight": length})["weight"] == length  # alike in both directions
                graph.add_edge(u, v, weight=length)
        hops = nx.single_source_shortest_path_length(graph, target)
        true, paths = nx.single_source_dijkstra(graph, target)
        for node in range(n):
            near, short = hops[node] <= 3, len(paths[node]) <= 4
            assert [d.weight[node].item() for d in (three, within, exact)] == [near, short, near]
            assert exact.y[node].item() == pytest.approx(true[node] if near else 0.0, abs=1e-12)
            assert within.y[node].item() == pytest.approx(true[node] if short else 0.0, abs=1e-12)
            best = best_of_three(graph, target, node) if near else 0.0
            assert three.y[node].item() == pytest.approx(best, abs=1e-12)


def best_of_three(graph: nx.Graph, start: int, end: int) -> float:
    """The shortest way of at most three edges, by trying all."""
    if start == end:
        return 0.0
    best = graph.get_edge_data(start, end, {"weight": math.inf})["weight"]
    for u, first in graph[start].items():
        for v, last in graph[end].items():
            if u == v:
                best = min(best, first["weight"] + last["weight"])
            elif graph.has_edge(u, v):
                best = min(best, first["weight"] + graph[u][v]["weight"] + last["weight"])
    return best


def test_lengths_are_uniform_and_those_of_the_split() -> None:
    graph = connected_er(200, 0.5, Stream("lengths")).with_self_loops()
    lengths = edge_lengths(graph, 5.0, Stream("lengths"))
    down = lengths[graph.edges[0] < graph.edges[1]]
    counts = np.histogram(down, bins=10, range=(0, 5))[0]
    assert counts.sum() == down.size
    assert np.abs(counts / down.size - 0.1).max() < 4.5 * math.sqrt(0.09 / down.size)
    task = get_task("shortest")
    for split, high in (("train", 5), ("val", 5), ("test", 10)):
        longest = max(data.edge_weight.max().item() for data in task.dataset(split, count=9))
        assert 0.97 * high < longest < high


@pytest.mark.parametrize("name", task_names("node"))
def test_targets_are_uniform(name: str) -> None:
    data = get_task(name).dataset("train", count=900, sizes=(20, 21), structure="ladder")
    special = 1 if name == "bfs" else 0
    counts = np.bincount([(one.x.flatten() == special).nonzero().item() for one in data], minlength=20)
    assert np.abs(counts - 45).max() < 4 * math.sqrt(45)


@pytest.mark.parametrize("name", task_names("set"))
def test_set_labels(name: str) -> None:
    for data in get_task(name).dataset("test", count=20):
        x, n = data.x.double().flatten(), data.num_nodes
        expected = {
            "mu_post": x.sum() / (n + 1),
            "mu_map": x.sum() / (n + 1),
            "sigma2_post": torch.tensor(1 / (n + 1)).double(),
            "sigma2_map": (15 + 0.5 * (x - 5).square().sum()) / (1 + n / 2 + 1),
        }[name]
        torch.testing.assert_close(
            data.y.squeeze(), expected.double(), rtol=1e-6 if name == "sigma2_post" else 1e-13, atol=0
        )
        if name in STATISTICS:
            assert data[STATISTICS[name]].item() == (n + 1 if name == "mu_map" else n / 2 + 2)


def test_the_mean_of_a_set_is_normal_with_unit_variance() -> None:
    data = get_task("mu_post").dataset("train", count=2000)
    means = np.array([one.x.mean().item() for one in data])
    inner = np.array([one.x.double().var().item() for one in data])
    assert means.mean() == pytest.approx(0, abs=4 * math.sqrt(1.04 / 2000))
    assert means.var() == pytest.approx(1.036, abs=4 * math.sqrt(2 / 2000))  # 1 + the mean of 1/n
    assert inner.mean() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(
    ("reading", "median"),
    [  # of the variance: Exp(1) has the median log 2, Gamma(15) 14.668
        ("gamma", math.log(2) / 15),
        ("swapped", 1 / 14.668),
        ("literal_sigma", (15 / math.log(2)) ** 2),
        ("literal_sigma2", 15 / math.log(2)),
    ],
)
def test_readings_of_the_variance(reading: str, median: float) -> None:
    task = get_task("sigma2_map")
    data = task.dataset("train", count=2000, reading=reading)
    variances = [(one.x.double() - 5).square().mean().item() for one in data]
    assert np.median(variances) == pytest.approx(median, rel=0.25 if reading == "literal_sigma" else 0.12)
    assert same(data[:50], task.dataset("train", count=50)) == (reading == "gamma")
