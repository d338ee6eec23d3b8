"""Graph generators: simple, symmetric, sorted, with the degrees and the connectivity of their kind."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnpool.tasks import STRUCTURES, Graph, Stream, get_structure
from gnpool.tasks.structures import PROBABILITIES, ba, connected_er, ladder, regular, tree


def to_networkx(graph: Graph) -> nx.Graph:
    other = nx.empty_graph(graph.nodes)
    other.add_edges_from(graph.edges.T.tolist())
    return other


def pairs(graph: Graph) -> frozenset[tuple[int, int]]:
    return frozenset((u, v) for u, v in graph.edges.T.tolist() if u < v)


@pytest.mark.parametrize("name", STRUCTURES)
@given(nodes=st.integers(2, 60), k=st.integers(0, 8), seed=st.integers(0, 10**6))
def test_every_graph_is_simple_symmetric_and_sorted(name: str, nodes: int, k: int, seed: int) -> None:
    structure = get_structure(name)
    nodes = max(nodes, structure.min_nodes)
    graph = structure.draw(nodes, k, None, Stream(name, seed))
    source, destination = graph.edges
    assert graph.nodes == (nodes if name != "ladder" else nodes // 2 * 2)
    assert graph.edges.min() >= 0
    assert graph.edges.max() < graph.nodes
    assert (source != destination).all()
    assert (np.diff(destination * graph.nodes + source) > 0).all()  # sorted, and no edge twice
    edges = set(zip(source.tolist(), destination.tolist(), strict=True))
    assert edges == {(v, u) for u, v in edges}
    other = to_networkx(graph)
    assert graph.degree.tolist() == [other.degree(node) for node in range(graph.nodes)]
    assert graph.is_connected() == nx.is_connected(other)
    assert graph.is_connected() or name == "regular4"
    assert graph.hops(0, 3).tolist() == [
        nx.single_source_shortest_path_length(other, 0, 3).get(node, -1) for node in range(graph.nodes)
    ]


@pytest.mark.parametrize(
    ("nodes", "edges", "expected"),
    [
        (1, [], True),
        (2, [], False),
        (2, [(0, 1)], True),
        (3, [(1, 2)], False),
        (6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)], False),
        (40, list(pairwise(range(40))), True),
        (40, [(k, k + 1) for k in range(39) if k != 20], False),
    ],
    ids=["one node", "two apart", "an edge", "a lonely first", "two triangles", "a path", "a cut path"],
)
def test_connected(nodes: int, edges: list[tuple[int, int]], expected: bool) -> None:
    first, second = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    assert Graph.from_pairs(nodes, first, second).is_connected() is expected


@pytest.mark.parametrize("nodes", [5, 6, 7, 30, 1001])
def test_regular_graphs_have_degree_4(nodes: int) -> None:
    assert (regular(nodes, Stream("regular", nodes)).degree == 4).all()


def test_all_regular_graphs_of_six_nodes_are_as_likely() -> None:
    # The complement of such a graph is one of the 15 perfect matchings of six nodes.
    stream = Stream("regular six")
    counts = Counter(pairs(regular(6, stream)) for _ in range(1500))
    assert len(counts) == 15
    assert max(abs(count - 100) for count in counts.values()) < 4.5 * math.sqrt(100 * 14 / 15)


@pytest.mark.parametrize("nodes", [2, 3, 4, 50, 1001])
def test_trees(nodes: int) -> None:
    assert nx.is_tree(to_networkx(tree(nodes, Stream("tree", nodes))))


def test_all_labelled_trees_are_as_likely() -> None:
    stream = Stream("tree four")
    counts = Counter(pairs(tree(4, stream)) for _ in range(1600))
    assert len(counts) == 16  # Cayley
    assert max(abs(count - 100) for count in counts.values()) < 4.5 * math.sqrt(100 * 15 / 16)


@pytest.mark.parametrize(("nodes", "rungs"), [(2, 1), (3, 1), (4, 2), (5, 2), (60, 30), (61, 30)])
def test_ladders(nodes: int, rungs: int) -> None:
    assert nx.utils.graphs_equal(to_networkx(ladder(nodes)), nx.ladder_graph(rungs))


@pytest.mark.parametrize("nodes", [2, 5, 40, 80])
def test_ba_has_m_edges_per_new_node(nodes: int) -> None:
    shares = []
    for seed in range(20):
        graph = ba(nodes, Stream("ba", nodes, seed))
        edges = graph.edges.shape[1] // 2
        m = next(m for m in range(1, nodes) if m + m * (nodes - m - 1) == edges)  # star, then m for each node
        assert graph.degree[m + 1 :].min(initial=m) >= m
        assert max(1, int(0.05 * nodes)) <= m <= max(1, int(0.4 * nodes))
        shares.append(m / nodes)
    if nodes == 80:
        assert min(shares) < 0.12
        assert max(shares) > 0.33


def test_ba_prefers_nodes_of_high_degree_as_networkx_does() -> None:
    ours, theirs = [], []
    for seed in range(300):
        graph = ba(40, Stream("ba degrees", seed))
        m = int(graph.degree[-1])
        if 3 <= m <= 12:
            ours.append(graph.degree.max())
            theirs.append(max(degree for _, degree in nx.barabasi_albert_graph(40, m, seed=seed).degree))
    assert len(ours) > 150
    gap = np.mean(ours) - np.mean(theirs)
    assert abs(gap) < 4 * math.sqrt((np.var(ours) + np.var(theirs)) / len(ours))


def test_er_is_uniform_over_the_connected_graphs() -> None:
    # On four nodes with p = 1/2 all 38 connected labelled graphs are as likely.
    stream = Stream("er four")
    counts = Counter(pairs(connected_er(4, 0.5, stream)) for _ in range(3800))
    assert len(counts) == 38
    assert max(abs(count - 100) for count in counts.values()) < 4.5 * math.sqrt(100 * 37 / 38)


@pytest.mark.parametrize("probability", [0.02, 0.3, 0.97, 1.0])
def test_er_has_the_density_and_every_pair_alike(probability: float) -> None:
    nodes, count = (400, 20) if probability == 0.02 else (30, 400)
    hits = np.zeros((nodes, nodes))
    for seed in range(count):
        source, destination = connected_er(nodes, probability, Stream("density", seed)).edges
        hits[destination, source] += 1
    rates = hits[np.triu_indices(nodes, 1)] / count
    deviation = math.sqrt(probability * (1 - probability) / count)
    assert abs(rates.mean() - probability) <= 4 * deviation / math.sqrt(rates.size)
    if nodes == 30:  # elsewhere the rates of single pairs are too far from normal
        assert np.abs(rates - probability).max() <= 4.5 * deviation
    for part in (hits[: nodes // 2, : nodes // 2], hits[nodes // 2 :, nodes // 2 :]):
        pairs_of_part = math.comb(nodes // 2, 2)
        assert abs(part.sum() / 2 / count / pairs_of_part - probability) <= 4 * deviation / math.sqrt(pairs_of_part)


def test_probability_grid() -> None:
    assert sorted(PROBABILITIES) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    for remainder in (1, 3, 5, 7, 9):  # of 5,000 (5), 1,000 (1), 2,500 (7)
        assert sum(PROBABILITIES[:remainder]) / remainder == pytest.approx(0.5, abs=0.021)


def test_sparse_er_needs_memory_for_its_edges_only() -> None:
    graph = connected_er(10_000, 50 / 9_999, Stream("sparse"))
    assert graph.degree.mean() == pytest.approx(50, abs=0.4)  # 4 standard errors
    assert graph.degree.var() == pytest.approx(50, abs=4)


@pytest.mark.parametrize(("nodes", "probability"), [(10_000, 5e-4), (5, 1e-4)])
def test_graphs_that_are_never_connected(nodes: int, probability: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnpool.tasks.structures.MAX_DRAWS", 100)
    with pytest.raises(
        ValueError, match=rf"{nodes} nodes .* {probability:.3g} is hardly ever connected.*'mean_degree'"
    ):
        connected_er(nodes, probability, Stream("never"))


def test_unknown_structure() -> None:
    with pytest.raises(ValueError, match=r"'structure' must be one of er, ba, regular4, .*, got 'star'"):
        get_structure("star")


def test_self_loops() -> None:
    graph = tree(7, Stream("loops")).with_self_loops()
    edges = set(zip(*graph.edges.tolist(), strict=True))
    assert all((v, v) in edges for v in range(7))
    assert graph.edges.shape[1] == 2 * 6 + 7
    assert (np.diff(graph.edges[1] * 7 + graph.edges[0]) > 0).all()


@given(nodes=st.integers(2, 25), seed=st.integers(0, 10**6), target=st.integers(0, 24))
def test_distances_are_those_of_networkx(nodes: int, seed: int, target: int) -> None:
    target %= nodes
    graph = connected_er(nodes, 0.4, Stream("distance", seed)).with_self_loops()
    source, destination = graph.edges
    lengths = (source + destination + 1.0) % 7 * (source != destination)
    other = nx.Graph()
    other.add_weighted_edges_from(zip(source.tolist(), destination.tolist(), lengths.tolist(), strict=True))
    exact = nx.single_source_dijkstra_path_length(other, target)
    assert graph.distances(target, lengths).tolist() == [exact[node] for node in range(nodes)]


def test_distances_over_few_edges_are_the_best_of_all_short_ways() -> None:
    graph = connected_er(8, 0.4, Stream("short ways")).with_self_loops()
    source, destination = graph.edges
    lengths = np.where(source == destination, 0.0, (source * destination * 5 + source + destination) % 11 + 1.0)
    length = {(u, v): w for u, v, w in zip(source.tolist(), destination.tolist(), lengths.tolist(), strict=True)}
    for node in range(8):
        ways = [(0, *middle, node) for k in (0, 1, 2) for middle in combinations_in_any_order(8, k)]
        costs = [sum(length.get(step, math.inf) for step in pairwise(way)) for way in ways]
        assert graph.distances(0, lengths, 3)[node] == min(costs)


def combinations_in_any_order(nodes: int, size: int) -> list[tuple[int, ...]]:
    chosen = [tuple(c) for c in combinations(range(nodes), size)]
    return chosen + [c[::-1] for c in chosen if size > 1]
