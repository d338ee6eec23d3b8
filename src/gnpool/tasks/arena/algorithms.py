"""Breadth-first search, Dijkstra's algorithm and eccentricity on sparse graphs, in the manner of SALSA-CLRS.

Protocol of `"SALSA-CLRS: A Sparse and Scalable Benchmark for Algorithmic Reasoning"
<https://arxiv.org/abs/2309.12253>`_.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gnpool.tasks.arena.benchmark import Benchmark, Fields, Part, Streams
from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Floats, Ints, Stream
from gnpool.tasks.structures import connected_er

TRAIN_SIZES, VAL_SIZE = (4, 7, 11, 13, 16), 16
DENSITY = (1.0, 3.0)  # bounds of the edge probability, in units of log(n) / n
WS_NEIGHBORS, WS_REWIRED = (4, 6, 8), (0.05, 0.2)
# nodes: number of graphs of each kind
TEST_SIZES = {16: 1000, 80: 1000, 160: 1000, 800: 1000, 1600: 1000, 10_000: 20, 100_000: 5}
PUBLISHED_TO = 1600  # nodes of the largest published graphs
SHORTEST = 0.001  # squared length of an edge between two weightless ends
OF_LOOPS = 1.0  # the weight of a self-loop


def er_graph(nodes: int, stream: Stream, like: int | None = None) -> Graph:
    """A connected Erdos-Renyi graph with the edge probabilities of graphs of ``like`` nodes."""
    scale = nodes if like is None else like
    return connected_er(nodes, _between(DENSITY, stream) * math.log(scale) / scale, stream)


def ws_graph(nodes: int, stream: Stream) -> Graph:
    """A connected graph of Watts and Strogatz: a ring in which some edges lead to a random node instead."""
    neighbors = WS_NEIGHBORS[stream.integer(0, len(WS_NEIGHBORS))]
    rewired = _between(WS_REWIRED, stream)
    while True:
        graph = _ring(nodes, neighbors, rewired, stream)
        if graph.is_connected():
            return graph


def delaunay_graph(nodes: int, stream: Stream) -> Graph:
    """The Delaunay triangulation of uniform points in the unit square."""
    from gnpool.tasks.arena.delaunay import delaunay_edges

    return Graph.from_pairs(nodes, *delaunay_edges(stream.uniform((nodes, 2))).T)


def _ring(nodes: int, neighbors: int, rewired: float, stream: Stream) -> Graph:
    around = np.arange(nodes)
    first = np.tile(around, neighbors // 2)
    second = np.concatenate([np.roll(around, -step) for step in range(1, neighbors // 2 + 1)])
    chosen = np.flatnonzero(stream.uniform(first.size) < rewired).tolist()
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    joined = {(min(pair), max(pair)) for pair in pairs}
    for place in chosen:
        source, old = pairs[place]
        new = source
        while new == source or (min(source, new), max(source, new)) in joined:
            new = stream.integer(0, nodes)
        joined.remove((min(source, old), max(source, old)))
        joined.add((min(source, new), max(source, new)))
        pairs[place] = source, new
    return Graph.from_pairs(nodes, *np.array(pairs).T)


KINDS: dict[str, Callable[[int, Stream], Graph]] = {"er": er_graph, "ws": ws_graph, "delaunay": delaunay_graph}


def edge_weights(graph: Graph, stream: Stream) -> Floats:
    """(E,) sqrt(u u' + 0.001) with u, u' of U(0, 1), the same in both directions; 1 for self-loops.

    Rounded to single precision, in which networks see them, so that labels fit them exactly.
    """
    source, destination = graph.edges
    weights = np.full(source.size, OF_LOOPS)
    down, up = np.flatnonzero(source < destination), np.flatnonzero(source > destination)
    drawn = np.sqrt(stream.uniform(down.size) * stream.uniform(down.size) + SHORTEST).astype(np.float32)
    weights[down] = drawn
    weights[up[np.argsort(source[up] * graph.nodes + destination[up])]] = drawn  # in the order that `down` has
    return weights


def bfs_parents(graph: Graph, source: int) -> Ints:
    """(n,) parents: the smallest number among neighbours one hop nearer to the source; the source is its own parent."""
    hops = graph.hops(source)
    nearer = hops[graph.edges[0]] == hops[graph.edges[1]] - 1
    parents = np.minimum.reduceat(np.where(nearer, graph.edges[0], graph.nodes), graph.starts[:-1])
    parents[source] = source
    return parents


def dijkstra_parents(graph: Graph, source: int, weights: Floats) -> Ints:
    """(n,) parents: the last node before each on its shortest path from the source; the source is its own parent."""
    loops = graph.edges[0] == graph.edges[1]
    distance = graph.distances(source, np.where(loops, 0.0, weights))
    through = np.where(loops, np.inf, distance[graph.edges[0]] + weights)
    shortest = np.minimum.reduceat(through, graph.starts[:-1])
    taken = through == shortest[graph.edges[1]]
    parents = np.minimum.reduceat(np.where(taken, graph.edges[0], graph.nodes), graph.starts[:-1])
    parents[source] = source
    return parents


def _pointers(graph: Graph, parents: Ints) -> Fields:
    along = graph.edges[0] == parents[graph.edges[1]]
    return {"y": along, "weight": along.astype(np.float64)}


def _bfs(graph: Graph, source: int, _: Stream) -> Fields:
    return _pointers(graph, bfs_parents(graph, source))


def _dijkstra(graph: Graph, source: int, stream: Stream) -> Fields:
    weights = edge_weights(graph, stream)
    return {"edge_weight": weights, **_pointers(graph, dijkstra_parents(graph, source, weights))}


def _eccentricity(graph: Graph, source: int, _: Stream) -> Fields:
    return {"y": [float(graph.hops(source).max())]}


def _graph(part: str, stream: Stream) -> Graph:
    if part == "train":
        return er_graph(TRAIN_SIZES[stream.integer(0, len(TRAIN_SIZES))], stream, like=VAL_SIZE)
    if part == "val":
        return er_graph(VAL_SIZE, stream)
    kind, _, nodes = part.rpartition("_")
    return KINDS[kind](int(nodes), stream)


def _draw(label: Callable[[Graph, int, Stream], Fields]) -> Callable[[str, int, Streams], Iterator[Fields]]:
    def draw(part: str, count: int, streams: Streams) -> Iterator[Fields]:
        graphs, sources, weights = streams("graphs"), streams("sources"), streams("weights")
        for _ in range(count):
            graph = _graph(part, graphs).with_self_loops()
            source = sources.integer(0, graph.nodes)
            position = np.arange(graph.nodes)
            x = np.stack((position / graph.nodes, position == source), axis=1)
            yield {"x": x, "edge_index": graph.edges, **label(graph, source, weights)}

    return draw


def _between(bounds: tuple[float, float], stream: Stream) -> float:
    low, high = bounds
    return low + (high - low) * float(stream.uniform(()))


def _parts() -> dict[str, Part]:
    parts = {"train": Part(10000, "ER, 4, 7, 11, 13 or 16 nodes"), "val": Part(1000, "ER, 16 nodes")}
    for kind, title in (("er", "ER"), ("ws", "Watts-Strogatz"), ("delaunay", "Delaunay")):
        for nodes, count in TEST_SIZES.items():
            beyond = "" if nodes <= PUBLISHED_TO else ", not a part of the published benchmark"
            parts[f"{kind}_{nodes}"] = Part(count, f"{title}, {nodes:,} nodes{beyond}")
    return parts


def _benchmark(name: str, label: Callable[[Graph, int, Stream], Fields], **rest: Any) -> Benchmark:
    return Benchmark(name=name, in_channels=2, parts=_parts(), draw=_draw(label), **rest)


BENCHMARKS = (
    _benchmark("salsa_bfs", _bfs, target="parent of each node in breadth-first search", metric="node accuracy, %"),
    _benchmark("salsa_dijkstra", _dijkstra, target="parent of each node on shortest paths", metric="node accuracy, %"),
    _benchmark(
        "salsa_eccentricity",
        _eccentricity,
        target="number of hops to the node farthest from the source",
        metric="accuracy, % (output rounded to a whole number)",
    ),
)
