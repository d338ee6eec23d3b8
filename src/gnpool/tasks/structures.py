"""Kinds of random graphs, each with its generator."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Ints, Stream

# The nine edge probabilities of ER graphs. Graph k takes entry k mod 9, so that any number of graphs covers the grid;
# the order keeps the mean near 0.5 when the number is not a multiple of nine.
PROBABILITIES = (0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6)
EXPANDER_PROBABILITY = 0.8
BA_SHARE = (0.05, 0.4)  # edges of a new node, as a share of the final number of nodes
DEGREE = 4  # the degree of the regular graphs
MAX_ISOLATED = 7.0  # with more isolated nodes than this on average, hardly any drawn graph is connected
MAX_DRAWS = 100_000


@dataclass(frozen=True)
class Structure:
    r"""A kind of graphs.

    Args:
        name (str): Its name for :func:`get_structure`.
        title (str): Its name in tables.
        draw (callable): ``draw(nodes, k, probability, stream)`` returns graph number k of a dataset. An edge
            ``probability`` of ``None`` takes the default of the kind.
        min_nodes (int, optional): The smallest number of nodes. (default: ``2``)
        takes_probability (bool, optional): Whether the edge probability can be chosen. (default: ``False``)

    Example:
        >>> from gnpool.tasks import STRUCTURES, Stream
        >>> ladder = STRUCTURES["ladder"]
        >>> ladder.title, ladder.min_nodes, ladder.draw(6, 0, None, Stream("docs")).degree.tolist()
        ('Ladder', 2, [2, 3, 2, 2, 3, 2])
    """

    name: str
    title: str
    draw: Callable[[int, int, float | None, Stream], Graph]
    min_nodes: int = 2
    takes_probability: bool = False


def connected_er(nodes: int, probability: float, stream: Stream) -> Graph:
    """A connected Erdos-Renyi graph. It is drawn again, with the same number of nodes, until it is connected."""
    isolated = nodes * (1.0 - probability) ** (nodes - 1)
    if isolated <= MAX_ISOLATED:
        for _ in range(MAX_DRAWS):
            first, second = _bernoulli_pairs(nodes, probability, stream)
            degree = np.bincount(first, minlength=nodes) + np.bincount(second, minlength=nodes)
            if degree.min() == 0 and nodes > 1:  # the most common reason why a graph is not connected
                continue
            graph = Graph.from_pairs(nodes, first, second)
            if graph.is_connected():
                return graph
    raise ValueError(
        f"a random graph of {nodes} nodes with edge probability {probability:.3g} is hardly ever connected: on average "
        f"{isolated:.1f} of its nodes have no edge. Ask for a larger 'probability' or 'mean_degree'"
    )


def ba(nodes: int, stream: Stream) -> Graph:
    """A graph of Barabasi and Albert.

    It starts as a star with m rays; every further node is joined to m different nodes that are drawn in proportion to
    their degrees. m is int(u n), at least 1, with u of U(0.05, 0.4).
    """
    low, high = BA_SHARE
    m = max(1, int((low + (high - low) * float(stream.uniform(()))) * nodes))
    return preferential(nodes, m, stream)


def preferential(nodes: int, m: int, stream: Stream) -> Graph:
    """A graph of Barabasi and Albert with m edges for each new node."""
    first, second = [0] * m, list(range(1, m + 1))
    ends = first + second  # each node as often as it has edges
    drawn: list[float] = []
    for new in range(m + 1, nodes):
        chosen: dict[int, None] = {}  # a set that keeps its order
        count = len(ends)
        while len(chosen) < m:
            if not drawn:  # as many as the nodes to come need at least: none is left over
                drawn = stream.uniform(m - len(chosen) + m * (nodes - 1 - new)).tolist()[::-1]
            chosen[ends[int(drawn.pop() * count)]] = None
        first += chosen
        second += [new] * m
        ends += chosen
        ends += [new] * m
    return Graph.from_pairs(nodes, np.array(first), np.array(second))


def regular(nodes: int, stream: Stream) -> Graph:
    """A random 4-regular graph by pairing half-edges: whatever closes a loop or repeats an edge is paired again."""
    while True:
        half_edges, edges = np.repeat(np.arange(nodes), DEGREE), np.empty(0, dtype=np.int64)
        while half_edges.size:
            shuffled = half_edges[stream.permutation(half_edges.size)]
            first, second = shuffled[0::2], shuffled[1::2]
            keys = np.minimum(first, second) * nodes + np.maximum(first, second)
            order = keys.argsort(kind="stable")
            new = np.empty(keys.size, dtype=bool)
            new[order[0]] = True
            new[order[1:]] = np.diff(keys[order]) > 0  # the first of its kind
            new &= (first != second) & ~_among(edges, keys)
            edges = np.sort(np.concatenate((edges, keys[new])))
            half_edges = np.concatenate((first[~new], second[~new]))
            if not new.any() and not _can_pair(half_edges, edges, nodes):
                break  # a dead end: start again
        else:
            return Graph.from_pairs(nodes, edges // nodes, edges % nodes)


def tree(nodes: int, stream: Stream) -> Graph:
    """A tree, uniform among all labelled trees: the one that a random sequence of Pruefer stands for."""
    sequence = stream.integers(0, nodes, nodes - 2).tolist()
    missing = [1] * nodes  # edges that each node still lacks
    for node in sequence:
        missing[node] += 1
    leaves = [node for node in range(nodes) if missing[node] == 1]  # ascending, so already a heap
    first = []
    for node in sequence:
        first.append(heapq.heappop(leaves))
        missing[node] -= 1
        if missing[node] == 1:
            heapq.heappush(leaves, node)
    last, root = sorted(leaves)
    return Graph.from_pairs(nodes, np.array([*first, last]), np.array([*sequence, root]))


def ladder(nodes: int) -> Graph:
    """A ladder of nodes // 2 rungs: an odd number of nodes is rounded down."""
    rungs = nodes // 2
    left = np.arange(rungs)
    right = left + rungs
    first, second = np.concatenate((left[:-1], right[:-1], left)), np.concatenate((left[1:], right[1:], right))
    return Graph.from_pairs(2 * rungs, first, second)


def get_structure(name: str) -> Structure:
    """The kind of graphs of that name.

    Example:
        >>> from gnpool.tasks import Stream, get_structure
        >>> graph = get_structure("tree").draw(10, 0, None, Stream("docs"))
        >>> graph.nodes, graph.edges.shape[1] // 2, graph.is_connected()
        (10, 9, True)
    """
    if name not in STRUCTURES:
        raise ValueError(f"'structure' must be one of {', '.join(STRUCTURES)}, got {name!r}")
    return STRUCTURES[name]


def _bernoulli_pairs(nodes: int, probability: float, stream: Stream) -> tuple[Ints, Ints]:
    """Each pair of nodes with the given probability, by drawing the gaps between the pairs that are taken.

    The cost is in the edges, not in the pairs. Gaps are looked up in a table of their distribution, which needs
    multiplications alone: a logarithm may differ in its last bit from machine to machine.
    """
    pairs = nodes * (nodes - 1) // 2
    if probability >= 1.0:
        taken = np.arange(pairs)
    else:
        gaps = 1 - np.multiply.accumulate(np.full(_longest_gap(probability, pairs), 1.0 - probability))
        expected = pairs * probability
        block = int(expected + 4.0 * math.sqrt(expected)) + 4
        taken = np.empty(0, dtype=np.int64)
        while not taken.size or taken[-1] < pairs:
            steps = np.searchsorted(gaps, stream.uniform(block), side="right") + 1
            taken = np.concatenate((taken, (taken[-1] if taken.size else -1) + np.cumsum(steps)))
        taken = taken[: np.searchsorted(taken, pairs)]
    # Pair number t joins `larger` and t - larger (larger - 1) / 2.
    triangle = np.arange(nodes) * np.arange(-1, nodes - 1) // 2
    larger = np.searchsorted(triangle, taken, side="right") - 1
    return larger, taken - triangle[larger]


def _longest_gap(probability: float, pairs: int) -> int:
    """How far a table of gaps must reach: beyond it lies less than the resolution of a double, or no pair."""
    return min(pairs, int(37.0 / probability) + 1)


def _can_pair(half_edges: Ints, edges: Ints, nodes: int) -> bool:
    """Whether two of the half-edges can still be joined."""
    left = np.unique(half_edges)
    first, second = np.triu_indices(left.size, 1)
    return not bool(_among(edges, left[first] * nodes + left[second]).all())


def _among(edges: Ints, keys: Ints) -> NDArray[np.bool_]:
    """Which of ``keys`` are in ``edges``, which are sorted."""
    if not edges.size:
        return np.zeros(keys.size, dtype=bool)
    return edges[np.minimum(edges.searchsorted(keys), edges.size - 1)] == keys


def _er(nodes: int, k: int, probability: float | None, stream: Stream) -> Graph:
    return connected_er(nodes, PROBABILITIES[k % len(PROBABILITIES)] if probability is None else probability, stream)


def _expander(nodes: int, _: int, probability: float | None, stream: Stream) -> Graph:
    return connected_er(nodes, EXPANDER_PROBABILITY if probability is None else probability, stream)


STRUCTURES: dict[str, Structure] = {
    structure.name: structure
    for structure in (
        Structure("er", "ER", _er, takes_probability=True),
        Structure("ba", "BA", lambda nodes, _, __, stream: ba(nodes, stream)),
        Structure("regular4", "4regular", lambda nodes, _, __, stream: regular(nodes, stream), min_nodes=DEGREE + 1),
        Structure("expander", "Expander", _expander, takes_probability=True),
        Structure("tree", "Tree", lambda nodes, _, __, stream: tree(nodes, stream)),
        Structure("ladder", "Ladder", lambda nodes, _, __, ___: ladder(nodes)),
    )
}
