"""PNA's multitask benchmark: kinds of graphs, toggling, and all six labels against networkx."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch

from gnpool.tasks.arena import get_benchmark, multitask_errors
from gnpool.tasks.arena.multitask import (
    KINDS,
    PARTS,
    all_hops,
    draw_graph,
    draw_kind,
    is_bipartite,
    labels,
    toggled,
    train_maxima,
)
from gnpool.tasks.streams import Stream
from tests.tasks.arena.helpers import chi_square, z_score

SHARES = {
    "er": 0.2,
    "ba": 0.2,
    "grid": 0.05,
    "caveman": 0.05,
    "tree": 0.15,
    "ladder": 0.05,
    "line": 0.05,
    "star": 0.05,
    "caterpillar": 0.1,
    "lobster": 0.1,
}


def as_networkx(kind: str, nodes: int, seed: int = 0) -> nx.Graph:
    return nx.from_numpy_array(KINDS[kind][1](nodes, Stream(kind, nodes, seed)))


def odd_ladder() -> nx.Graph:
    graph = nx.ladder_graph(9)
    graph.add_edge(0, 18)
    return graph


FIXED = {
    "grid-18": nx.grid_2d_graph(3, 6),
    "grid-19": nx.path_graph(19),
    "caveman-20": nx.caveman_graph(4, 5),
    "caveman-17": nx.complete_graph(17),
    "ladder-20": nx.ladder_graph(10),
    "ladder-19": odd_ladder(),
    "line-16": nx.path_graph(16),
    "star-16": nx.star_graph(15),
}


@pytest.mark.parametrize("name", FIXED)
def test_kinds_without_chance(name: str) -> None:
    kind, nodes = name.split("-")
    assert nx.is_isomorphic(as_networkx(kind, int(nodes)), FIXED[name])


def test_mixture() -> None:
    assert {kind: share for kind, (share, _) in KINDS.items()} == SHARES
    stream = Stream("mixture", 0)
    counts = Counter(draw_kind(stream) for _ in range(20_000))
    assert chi_square(np.array([counts[kind] for kind in SHARES]), np.array(list(SHARES.values()))) < 4


def test_er_and_ba() -> None:
    density = [nx.density(as_networkx("er", 20, seed)) for seed in range(400)]
    assert np.mean(density) == pytest.approx(0.5, abs=0.06)
    assert np.std(density) == pytest.approx(1 / 12**0.5, rel=0.15)  # the edge probability is uniform
    edges = [as_networkx("ba", 20, seed).number_of_edges() for seed in range(300)]
    assert set(edges) == {m * (20 - m) for m in range(1, 20)}  # m for each node after the first m


def test_trees() -> None:
    """Trees, caterpillars whose legs are leaves, and lobsters whose leaves hang at most two off the body."""
    for seed in range(60):
        for kind, peels in (("tree", 1), ("caterpillar", 1), ("lobster", 2)):
            graph = as_networkx(kind, 20, seed)
            assert nx.is_tree(graph)
            assert graph.number_of_nodes() == 20
            for _ in range(peels):
                graph.remove_nodes_from([node for node, degree in dict(graph.degree).items() if degree <= 1])
            assert max((degree for _, degree in graph.degree), default=0) <= 2


def test_power_law_trees_are_those_of_networkx() -> None:
    ours = [sorted(dict(as_networkx("tree", 18, seed).degree).values()) for seed in range(200)]
    theirs = [sorted(dict(nx.random_powerlaw_tree(18, seed=seed, tries=10_000).degree).values()) for seed in range(200)]
    for statistic in (lambda d: d.count(1), lambda d: d.count(2), max, lambda d: sum(k * k for k in d)):
        counts = [np.array([float(statistic(degrees)) for degrees in side]) for side in (ours, theirs)]
        assert z_score(*counts) < 4


def test_bodies_are_uniform() -> None:
    """A caterpillar of b body nodes has n - b legs; its body is uniform from 1 to n - 1."""
    leaves = Counter()
    for seed in range(3000):
        adjacency = KINDS["caterpillar"][1](6, Stream("caterpillar", seed))
        body = 1
        while body < 6 and adjacency[body - 1, body] and not adjacency[body:, :body].sum(axis=1)[1:].any():
            body += 1
        leaves[int(adjacency[0, 1:].sum())] += 1
    # b = 1 is a star of five rays, b >= 2 gives node 0 one neighbour on the body and Binomial(6 - b, 1 / b) legs.
    wanted = np.zeros(6)
    for b in range(1, 6):
        for legs in range(7 - b):
            weight = (
                np.prod([(6 - b - k) / (k + 1) for k in range(legs)]) * (1 / b) ** legs * (1 - 1 / b) ** (6 - b - legs)
            )
            wanted[legs + (b > 1)] += weight / 5
    assert wanted.sum() == pytest.approx(1)
    assert chi_square(np.array([leaves[k] for k in range(1, 6)]), wanted[1:]) < 4


@pytest.mark.parametrize(
    ("kind", "go", "come"),
    [("line", 0.02, 2 * (0.1 * 59 / 1711) ** 2), ("caveman", 0.02, 2 * (0.1 * 270 / 1500) ** 2), ("er", None, 0.02)],
)
def test_toggled_edges(kind: str, go: float | None, come: float) -> None:
    """What is meant to be a tenth is a fiftieth, since the threshold is a sum of two uniform numbers."""
    stream = Stream("toggled", kind)
    graph = np.ones((60, 60), dtype=bool) if kind == "er" else KINDS[kind][1](60, stream)
    np.fill_diagonal(graph, val=False)
    if kind == "er":  # 1,000 non-edges, so that edges go with 2 (0.1 r / e)^2 and come with 0.02
        first, second = np.triu_indices(60, 1)
        graph[first[: 1000 - 230], second[: 1000 - 230]] = graph[second[: 1000 - 230], first[: 1000 - 230]] = False
        edges = int(graph.sum()) // 2
        go = 2 * (0.1 * (1770 - edges) / edges) ** 2
    upper, gone, came, repeats = np.triu(np.ones((60, 60), dtype=bool), 1), 0, 0, 400
    for _ in range(repeats):
        new = toggled(graph, stream)
        assert (new == new.T).all()
        assert not new.diagonal().any()
        gone += int((graph & ~new & upper).sum())
        came += int((~graph & new & upper).sum())
    for found, share, pairs in ((gone, go, int((graph & upper).sum())), (came, come, int((~graph & upper).sum()))):
        expected = repeats * pairs * share
        assert abs(found - expected) < 4 * expected**0.5 + 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_node_has_an_edge_and_the_order_is_random(kind: str) -> None:
    stream = Stream("every", kind)
    graphs = [draw_graph(kind, 15, stream) for _ in range(60)]
    assert all(graph.any(axis=0).all() and (graph == graph.T).all() for graph in graphs)
    degree = np.mean([graph.sum(axis=0) for graph in graphs], axis=0)
    spread = np.std([graph.sum(axis=0) for graph in graphs]) / 60**0.5
    assert np.abs(degree - degree.mean()).max() < 4.5 * spread + 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [15, 19])
def test_labels(kind: str, nodes: int) -> None:
    stream = Stream("labels", kind, nodes)
    for _ in range(8):
        adjacency = draw_graph(kind, nodes, stream)
        graph = nx.from_numpy_array(adjacency)
        feature, source = stream.uniform(nodes), stream.integer(0, nodes)
        of_nodes, of_graph = labels(adjacency, source, feature)
        lengths = dict(nx.all_pairs_shortest_path_length(graph))
        assert of_nodes[:, 0].tolist() == [lengths[source].get(node, 0) for node in range(nodes)]
        farthest = [max(lengths[node].values()) for node in range(nodes)]
        assert of_nodes[:, 1].tolist() == farthest
        degrees = np.diag([graph.degree(node) for node in range(nodes)]) - nx.to_numpy_array(graph)
        np.testing.assert_allclose(of_nodes[:, 2], degrees @ feature, atol=1e-12)
        assert of_graph[0] == (nx.is_connected(graph) and not nx.is_bipartite(graph))
        assert of_graph[1] == max(farthest)
        assert of_graph[2] == pytest.approx(np.abs(np.linalg.eigvals(nx.to_numpy_array(graph))).max())


def test_bipartite_in_several_parts() -> None:
    for graph in (
        nx.disjoint_union(nx.path_graph(3), nx.cycle_graph(4)),
        nx.disjoint_union(nx.path_graph(3), nx.cycle_graph(5)),
        nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4)),
    ):
        adjacency = nx.to_numpy_array(graph) > 0
        assert is_bipartite(all_hops(adjacency), adjacency) == nx.is_bipartite(graph)


def test_sizes_and_scale() -> None:
    assert {part: (sizes.start, sizes.stop - 1, each) for part, (sizes, each) in PARTS.items()} == {
        "train": (15, 24, 512),
        "val": (15, 19, 128),
        "test": (15, 19, 256),
        **{f"test_{low}": (low, low + 4, 256) for low in (20, 25, 30, 35, 40, 45, 60, 75, 95)},
    }
    train = get_benchmark("pna_multitask").dataset("train")
    assert Counter(graph.num_nodes for graph in train) == dict.fromkeys(range(15, 25), 512)
    of_nodes = torch.cat([graph.y_nodes for graph in train])
    of_graphs = torch.cat([graph.y_graph for graph in train])
    assert of_nodes.max(0).values.tolist() == [1.0] * 3
    assert of_graphs.max(0).values.tolist() == [1.0] * 3
    assert train_maxima(0)[0][1] == 23.0  # the ends of a path of 24 nodes
    features = torch.cat([graph.x for graph in train])
    assert features[:, 0].sum() == len(train)
    assert abs(features[:, 1].mean() - 0.5) < 0.005
    # The error of a constant in each task: published for the training graphs, and counted anew for the plain test.
    batch = {"y_nodes": of_nodes, "y_graph": of_graphs}
    mean = of_nodes.mean(0).expand_as(of_nodes), of_graphs.mean(0).expand_as(of_graphs)
    found = multitask_errors(*mean, type("Data", (), batch)).log10()
    assert found.numpy() == pytest.approx([-1.80, -1.50, -1.60, -0.62, -1.30, -1.41], abs=0.04)
    test = get_benchmark("pna_multitask").dataset("test")
    batch = {name: torch.cat([graph[name] for graph in test]) for name in ("y_nodes", "y_graph")}
    mean = [side.mean(0).expand_as(batch[name]) for side, name in ((of_nodes, "y_nodes"), (of_graphs, "y_graph"))]
    assert multitask_errors(*mean, type("Data", (), batch)).log10().mean().item() == pytest.approx(-1.46, abs=0.03)
