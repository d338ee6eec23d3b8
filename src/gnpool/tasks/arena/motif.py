"""GOOD-Motif: which motif is attached to the base graph? The base graphs of the test are larger or of another kind.

Protocol of `"GOOD: A Graph Out-of-Distribution Benchmark" <https://arxiv.org/abs/2206.08452>`_.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnpool.tasks.arena.benchmark import Benchmark, Fields, Part, Streams
from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Ints, Stream

BASES = ("wheel", "tree", "ladder", "star", "path")
MOTIFS = ("house", "cycle", "crane")
MOTIF_NODES = 5
MOTIF_PAIRS = (  # node 0 is joined to the base graph
    ((0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4)),  # the tip, joined to two adjacent corners of a square
    ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0)),
    ((0, 1), (0, 2), (3, 1), (3, 2), (4, 1), (4, 2)),  # K(2, 3)
)
SPREAD = 5  # the width differs from its centre by at most this much
BASIS_CENTRE = 10
EDGES_PER_ATTEMPT = 20  # one random edge is tried for every 20 edges
NOISE = 0.1
CEILING = 1.0 - NOISE + NOISE / len(MOTIFS)  # accuracy of the network that knows every motif


class Base(NamedTuple):
    """A base graph: its edges, each once, and the nodes to which edges may be added."""

    nodes: int
    pairs: Ints  # (E, 2)
    plain: NDArray[np.bool_]  # (nodes,)


def tree_height(width: int) -> int:
    """The height of the balanced binary tree of a width."""
    return max(1, width.bit_length() - 2)


def _path(width: int) -> Base:
    plain = np.ones(width, dtype=bool)
    plain[[0, -1]] = False
    return Base(width, _chain(0, width), plain)


def _star(width: int) -> Base:
    leaves = np.arange(1, width + 1)
    return Base(width + 1, np.stack((np.zeros_like(leaves), leaves), axis=1), np.arange(width + 1) == 0)


def _ladder(width: int) -> Base:
    rungs = np.stack((np.arange(width), np.arange(width, 2 * width)), axis=1)
    pairs = np.concatenate((_chain(0, width), _chain(width, width), rungs))
    return Base(2 * width, pairs, np.ones(2 * width, dtype=bool))


def _tree(width: int) -> Base:
    nodes = 2 ** (tree_height(width) + 1) - 1
    children = np.arange(1, nodes)
    return Base(nodes, np.stack(((children - 1) // 2, children), axis=1), np.ones(nodes, dtype=bool))


def _wheel(width: int) -> Base:
    rim = np.arange(1, width)
    spokes = np.stack((np.zeros_like(rim), rim), axis=1)
    around = np.stack((rim, np.roll(rim, -1)), axis=1)
    closed = max(0, width - 1 if width > 3 else width - 2)  # a rim of two nodes is one edge, of one node none
    return Base(width, np.concatenate((spokes, around[:closed])), np.ones(width, dtype=bool))


def _chain(first: int, nodes: int) -> Ints:
    ends = np.arange(first, first + nodes)
    return np.stack((ends[:-1], ends[1:]), axis=1)


SHAPES: tuple[Callable[[int], Base], ...] = (_wheel, _tree, _ladder, _star, _path)


@functools.cache
def base_graph(basis: int, width: int) -> Base:
    """The base graph of that number in :obj:`BASES`."""
    return SHAPES[basis](width)


def draw_graph(basis: int, width: int, motif: int, stream: Stream) -> Graph:
    """A base graph with a motif joined to it, and a few random edges between them and within the base graph."""
    base = base_graph(basis, width)
    nodes = base.nodes + MOTIF_NODES
    join = [(stream.integer(0, base.nodes), base.nodes)]
    pairs = np.concatenate((base.pairs, np.array(MOTIF_PAIRS[motif]) + base.nodes, np.array(join)))
    added = _extra_edges(base, pairs, nodes, stream)
    first, second = np.concatenate((pairs, added)).T if added else pairs.T
    return Graph.from_pairs(nodes, first, second)


def _extra_edges(base: Base, pairs: Ints, nodes: int, stream: Stream) -> list[tuple[int, int]]:
    """Random edges, one attempt for every 20 edges. An attempt to join two nodes that are not plain adds nothing."""
    attempts = len(pairs) // EDGES_PER_ATTEMPT
    if not attempts:
        return []
    joined = set(map(tuple, np.sort(pairs, axis=1).tolist()))
    added = []
    for _ in range(attempts):
        pair = (0, 0)
        while pair[0] == pair[1] or pair in joined:
            u, v = stream.integers(0, nodes, 2).tolist()
            pair = (min(u, v), max(u, v))
        if any(end < base.nodes and base.plain[end] for end in pair):
            joined.add(pair)
            added.append(pair)
    return added


def noisy(motif: int, stream: Stream) -> int:
    """The label: the motif, redrawn uniformly with probability 0.1."""
    redraw, label = stream.uniform(()) < NOISE, stream.integer(0, len(MOTIFS))
    return label if redraw else motif


@dataclass(frozen=True)
class Domain:
    """The environments of one part, and how strongly they follow the motif.

    Args:
        shift (str): What differs between environments, ``"size"`` or ``"basis"``.
        environments (tuple[int, ...]): Centres of the width, or numbers of base graphs.
        follows (tuple[float, ...], optional): For each third of the graphs the probability that environment k goes with
            motif k; elsewhere it is drawn uniformly. (default: ``(0.0,)``)
    """

    shift: str
    environments: tuple[int, ...]
    follows: tuple[float, ...] = (0.0,)

    def examples(self, count: int, streams: Streams) -> Iterator[Fields]:
        """The fields of ``count`` graphs."""
        stream = streams("graphs")
        for number in range(count):
            motif = stream.integer(0, len(MOTIFS))
            place = stream.integer(0, len(self.environments))
            if stream.uniform(()) < self.follows[number % len(self.follows)]:
                place = motif
            environment, width = self.environments[place], stream.integer(-SPREAD, SPREAD + 1)
            if self.shift == "size":
                basis, width = stream.integer(0, len(BASES)), width + environment
            else:
                basis, width = environment, width + BASIS_CENTRE
            graph = draw_graph(basis, width, motif, stream)
            yield {
                "x": np.ones((graph.nodes, 1)),
                "edge_index": graph.edges,
                "y": [noisy(motif, stream)],
                "motif": [motif],
                "basis": [basis],
                "width": [width],
            }


CONCEPT_TRAIN, CONCEPT_VAL = (0.99, 0.97, 0.95), (0.3,)
DOMAINS: dict[str, tuple[Domain, Domain, Domain]] = {  # in domain, shifted validation, shifted test
    "good_motif_size": (Domain("size", (6, 10, 15)), Domain("size", (30,)), Domain("size", (70,))),
    "good_motif_basis": (Domain("basis", (0, 1, 2)), Domain("basis", (3,)), Domain("basis", (4,))),
    "good_motif_size_concept": (
        Domain("size", (10, 40, 70), CONCEPT_TRAIN),
        Domain("size", (10, 40, 70), CONCEPT_VAL),
        Domain("size", (10, 40, 70)),
    ),
    "good_motif_basis_concept": (
        Domain("basis", (0, 1, 2), CONCEPT_TRAIN),
        Domain("basis", (0, 1, 2), CONCEPT_VAL),
        Domain("basis", (0, 1, 2)),
    ),
}
TEXTS = {
    "train": "training",
    "id_val": "validation like training",
    "id_test": "test like training",
    "val": "shifted validation",
    "test": "shifted test",
}
COUNTS = {"covariate": (18000, 3000, 3000, 3000, 3000), "concept": (12600, 2700, 2700, 6000, 6000)}


def _benchmark(name: str) -> Benchmark:
    inside, val, test = DOMAINS[name]
    of_part = dict(zip(TEXTS, (inside, inside, inside, val, test), strict=True))
    counts = COUNTS["concept" if name.endswith("concept") else "covariate"]
    return Benchmark(
        name=name,
        target="which of three motifs hangs on the base graph; a tenth of the labels is redrawn",
        metric="accuracy, %",
        in_channels=1,
        parts={part: Part(count, TEXTS[part]) for part, count in zip(TEXTS, counts, strict=True)},
        draw=lambda part, count, streams: of_part[part].examples(count, streams),
    )


BENCHMARKS = tuple(_benchmark(name) for name in DOMAINS)
