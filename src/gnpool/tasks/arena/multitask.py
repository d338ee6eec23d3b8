"""PNA's multitask benchmark: six labels of random graphs of ten kinds, tested on graphs of up to 99 nodes.

Protocol of `"Principal Neighbourhood Aggregation for Graph Nets" <https://arxiv.org/abs/2004.05718>`_.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gnpool.tasks.arena.benchmark import Benchmark, Fields, Part, Streams
from gnpool.tasks.streams import Floats, Ints, Stream
from gnpool.tasks.structures import ladder, preferential

Pairs: TypeAlias = list[tuple[int, int]]
Adjacency: TypeAlias = NDArray[np.bool_]

NAME = "pna_multitask"
NODE_TASKS = ("hops from the source", "eccentricity", "Laplacian of the features")
GRAPH_TASKS = ("connected and not bipartite", "diameter", "spectral radius")
TOGGLED = 0.1  # share of the edges that is meant to be toggled
POWER_LAW = 3.0
TREE_TRIES = 100  # after this many replacements of single degrees the sequence is drawn anew


def er_graph(nodes: int, stream: Stream) -> Adjacency:
    """An Erdos-Renyi graph with an edge probability of U(0, 1)."""
    probability = float(stream.uniform(()))
    upper = np.triu(stream.uniform((nodes, nodes)) < probability, 1)
    return upper | upper.T


def ba_graph(nodes: int, stream: Stream) -> Adjacency:
    """A graph of Barabasi and Albert with m edges for each new node, m uniform from 1 to n - 1."""
    return _dense(nodes, preferential(nodes, stream.integer(1, nodes), stream).edges.T.tolist())


def grid_graph(nodes: int, _: Stream) -> Adjacency:
    """The most nearly square grid of n nodes; for prime n a path."""
    rows = _divisor(nodes)
    place = np.arange(nodes).reshape(rows, nodes // rows)
    ends = (place[:-1], place[1:]), (place[:, :-1], place[:, 1:])  # down and across
    pairs = np.concatenate([np.stack((first.ravel(), second.ravel()), axis=1) for first, second in ends])
    return _dense(nodes, pairs.tolist())


def caveman_graph(nodes: int, _: Stream) -> Adjacency:
    """Disjoint cliques, as many as the grid has rows."""
    clique = np.arange(nodes) // (nodes // _divisor(nodes))
    adjacency: Adjacency = clique[:, None] == clique
    np.fill_diagonal(adjacency, val=False)
    return adjacency


def tree_graph(nodes: int, stream: Stream) -> Adjacency:
    """A tree whose degrees follow a power law: a path of the inner nodes, and leaves along it."""
    inner = sorted((degree for degree in power_law_degrees(nodes, stream) if degree > 1), reverse=True)
    pairs = [(k, k + 1) for k in range(len(inner) + 1)]
    new = len(inner) + 2
    for place, degree in enumerate(inner, start=1):
        pairs += [(place, leaf) for leaf in range(new, new + degree - 2)]
        new += degree - 2
    return _dense(nodes, pairs)


def power_law_degrees(nodes: int, stream: Stream) -> list[int]:
    """Rounded Pareto numbers that are the degrees of a tree; single ones are replaced until their sum is right."""
    while True:
        degrees = _pareto(nodes, nodes, stream)
        for new in _pareto(TREE_TRIES, nodes, stream):
            if sum(degrees) == 2 * (nodes - 1):
                return degrees
            degrees[stream.integer(0, nodes)] = new


def _pareto(count: int, most: int, stream: Stream) -> list[int]:
    values = (1.0 - stream.uniform(count)) ** (-1.0 / (POWER_LAW - 1.0))
    return np.minimum(np.round(values), most).astype(np.int64).tolist()


def ladder_graph(nodes: int, _: Stream) -> Adjacency:
    """A ladder; for odd n the last node is attached to a corner."""
    odd = [(0, nodes - 1), (nodes - 1, 0)] if nodes % 2 else []
    return _dense(nodes, ladder(nodes).edges.T.tolist() + odd)


def line_graph(nodes: int, _: Stream) -> Adjacency:
    """A path."""
    return _dense(nodes, _line(nodes))


def star_graph(nodes: int, _: Stream) -> Adjacency:
    """A star."""
    return _dense(nodes, [(0, leaf) for leaf in range(1, nodes)])


def caterpillar_graph(nodes: int, stream: Stream) -> Adjacency:
    """A path of b nodes, b uniform from 1 to n - 1; every other node is attached to a random node of the path."""
    body = stream.integer(1, nodes)
    return _dense(nodes, _line(body) + _hang(range(body, nodes), 0, body, stream))


def lobster_graph(nodes: int, stream: Stream) -> Adjacency:
    """A caterpillar of f nodes, f uniform from b + 1 to n; every other node is attached to a random leg of it."""
    body = stream.integer(1, nodes)
    legs = stream.integer(body + 1, nodes + 1)
    hung = _hang(range(body, legs), 0, body, stream) + _hang(range(legs, nodes), body, legs, stream)
    return _dense(nodes, _line(body) + hung)


KINDS: dict[str, tuple[float, Callable[[int, Stream], Adjacency]]] = {  # share of the mixture, generator
    "er": (0.2, er_graph),
    "ba": (0.2, ba_graph),
    "grid": (0.05, grid_graph),
    "caveman": (0.05, caveman_graph),
    "tree": (0.15, tree_graph),
    "ladder": (0.05, ladder_graph),
    "line": (0.05, line_graph),
    "star": (0.05, star_graph),
    "caterpillar": (0.1, caterpillar_graph),
    "lobster": (0.1, lobster_graph),
}


def toggled(adjacency: Adjacency, stream: Stream) -> Adjacency:
    """The graph with some edges dropped and some added.

    The benchmark means to change a tenth of the edges. But its random threshold is a sum of two numbers of U(0, 1/2).
    So an edge that should be dropped with probability 0.1 is dropped with 0.02, and an edge that should be added with a
    probability s below 1/2 is added with 2 s^2.
    """
    nodes = len(adjacency)
    edges = int(adjacency.sum()) // 2
    others = nodes * (nodes - 1) // 2 - edges
    if edges <= others:
        stay, come = 1.0 - TOGGLED, TOGGLED * edges / others
    else:
        stay, come = 1.0 - TOGGLED * others / edges, TOGGLED
    half = stream.uniform((nodes, nodes), 0.5)
    threshold = half + half.T
    result: Adjacency = np.where(adjacency, threshold < stay, threshold < come)
    np.fill_diagonal(result, val=False)
    return result


def draw_kind(stream: Stream) -> str:
    """A random kind, by its share of the mixture."""
    ends = np.cumsum([share for share, _ in KINDS.values()])
    return list(KINDS)[min(int(np.searchsorted(ends, stream.uniform(()), side="right")), len(KINDS) - 1)]


def draw_graph(kind: str, nodes: int, stream: Stream) -> Adjacency:
    """A toggled graph of a kind in which every node has an edge, its nodes in random order."""
    while True:
        found = toggled(KINDS[kind][1](nodes, stream), stream)
        if found.any(axis=0).all():
            order = stream.permutation(nodes)
            return found[order[:, None], order]


def all_hops(adjacency: Adjacency) -> Ints:
    """(n, n) number of edges of the shortest path between two nodes; -1 if there is none."""
    nodes = len(adjacency)
    step, reached = adjacency.astype(np.float32), np.eye(nodes, dtype=np.float32)
    hops = np.where(np.eye(nodes, dtype=bool), 0, -1)
    for distance in range(1, nodes):
        new = (reached @ step > 0) & (hops < 0)
        if not new.any():
            break
        hops[new] = distance
        reached = new.astype(np.float32)
    return hops


def is_bipartite(hops: Ints, adjacency: Adjacency) -> bool:
    """Whether no cycle is odd, that is, no edge joins two nodes equally far from the first node of their component."""
    far = hops[np.argmax(hops >= 0, axis=0), np.arange(len(hops))]  # from the first node of its component
    return not bool((adjacency & (far[:, None] % 2 == far % 2)).any())


def labels(adjacency: Adjacency, source: int, feature: Floats) -> tuple[Floats, Floats]:
    """(n, 3) labels of the nodes and (3,) of the graph, as the benchmark has them but not yet divided by anything.

    The benchmark decides on "connected" by even powers of the adjacency matrix, so that a bipartite graph counts as not
    connected.
    """
    hops = all_hops(adjacency)
    eccentricity = hops.max(axis=0)
    laplacian = adjacency.sum(axis=0) * feature - adjacency @ feature
    of_nodes = np.stack((np.maximum(hops[source], 0), eccentricity, laplacian), axis=1)
    connected = bool((hops >= 0).all()) and not is_bipartite(hops, adjacency)
    radius = float(np.abs(np.linalg.eigvalsh(adjacency.astype(np.float64))).max())
    return of_nodes, np.array([float(connected), float(eccentricity.max()), radius])


def multitask_errors(of_nodes: Tensor, of_graphs: Tensor, batch: Data) -> Tensor:
    r"""(6,) mean squared errors, in the order of :obj:`NODE_TASKS` and :obj:`GRAPH_TASKS`.

    Their mean is the loss of the benchmark. The mean of their logarithms to base 10 is its score.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.tasks.arena import multitask_errors
        >>> batch = Data(y_nodes=torch.zeros(4, 3).double(), y_graph=torch.ones(1, 3).double())
        >>> multitask_errors(torch.full((4, 3), 0.1), torch.zeros(1, 3), batch).log10()
        tensor([-2., -2., -2.,  0.,  0.,  0.], dtype=torch.float64)
    """
    nodes = (of_nodes.to(batch.y_nodes.dtype) - batch.y_nodes).square().mean(dim=0)
    graphs = (of_graphs.to(batch.y_graph.dtype) - batch.y_graph).square().mean(dim=0)
    return torch.cat([nodes, graphs])


PARTS = {"train": (range(15, 25), 512), "val": (range(15, 20), 128), "test": (range(15, 20), 256)} | {
    f"test_{low}": (range(low, low + 5), 256) for low in (20, 25, 30, 35, 40, 45, 60, 75, 95)
}


def _raw(part: str, count: int, streams: Streams) -> Iterator[Fields]:
    """Graphs of all sizes in turn."""
    sizes, stream = PARTS[part][0], streams("graphs")
    for number in range(count):
        nodes = sizes[number % len(sizes)]
        graph = draw_graph(draw_kind(stream), nodes, stream)
        source, feature = stream.integer(0, nodes), stream.uniform(nodes)
        of_nodes, of_graph = labels(graph, source, feature)
        edges = np.stack(np.nonzero(graph.T)[::-1])  # sorted by destination, then source
        yield {
            "x": np.stack((np.arange(nodes) == source, feature), axis=1),
            "edge_index": edges,
            "y_nodes": of_nodes,
            "y_graph": of_graph[None],
        }


@functools.lru_cache(maxsize=4)
def train_maxima(seed: int) -> tuple[Floats, Floats]:
    """The largest label of each task in the training graphs of a seed, by which all labels are divided."""
    most = [np.full(3, -math.inf), np.full(3, -math.inf)]
    sizes, each = PARTS["train"]
    for fields in _raw("train", len(sizes) * each, Streams(NAME, "train", seed)):
        for k, name in enumerate(("y_nodes", "y_graph")):
            most[k] = np.maximum(most[k], fields[name].max(axis=0))
    return most[0], most[1]


def _draw(part: str, count: int, streams: Streams) -> Iterator[Fields]:
    of_nodes, of_graph = train_maxima(streams.seed)
    for fields in _raw(part, count, streams):
        yield {**fields, "y_nodes": fields["y_nodes"] / of_nodes, "y_graph": fields["y_graph"] / of_graph}


def _dense(nodes: int, pairs: Pairs) -> Adjacency:
    adjacency = np.zeros((nodes, nodes), dtype=bool)
    if pairs:
        first, second = np.array(pairs).T
        adjacency[first, second] = adjacency[second, first] = True
    return adjacency


def _divisor(nodes: int) -> int:
    """The largest divisor that is at most the square root."""
    return max(k for k in range(1, math.isqrt(nodes) + 1) if nodes % k == 0)


def _line(nodes: int) -> Pairs:
    return [(k, k + 1) for k in range(nodes - 1)]


def _hang(leaves: range, low: int, high: int, stream: Stream) -> Pairs:
    return list(zip(stream.integers(low, high, len(leaves)).tolist(), leaves, strict=True))


def _describe(part: str) -> Part:
    sizes, each = PARTS[part]
    return Part(len(sizes) * each, f"{sizes.start} to {sizes.stop - 1} nodes, {each} of each size")


BENCHMARK = Benchmark(
    name=NAME,
    target=f"of nodes: {', '.join(NODE_TASKS)}; of graphs: {', '.join(GRAPH_TASKS)}",
    metric="log10 of the mean squared error",
    in_channels=2,
    parts={part: _describe(part) for part in PARTS},
    draw=_draw,
)
