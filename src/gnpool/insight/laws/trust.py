"""Finds up to which size equally good laws agree, by running them on grown graphs, for which no label is needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gnpool.insight.laws.law import Law
from gnpool.insight.laws.points import Floats
from gnpool.insight.laws.space import Level, Sample, Term, values_of

FACTORS = (2, 4, 8, 16)
GROWN = 8  # graphs of each size
GROWN_CLASSES = 100  # where each of them has a class, and differences are shares of them
MOST_NODES = 20_000  # the most nodes of a grown graph
MOST_DENSE = 1000  # graphs with at most this many nodes on average are also grown with the same density
FEWER_NODES = 2000  # the most nodes of a graph whose neighbourhoods grow
WAYS = ("degree", "density")  # what is kept when a graph grows
NEIGHBOURHOODS = "neighbourhoods"  # the neighbourhoods grow, and the graph does not


@dataclass(frozen=True)
class Trust:
    """Up to ``size`` nodes (in a single graph, neighbours of a node) all rivals are within the tolerance; ``apart`` is
    their largest difference up to that size.

    ``parted`` holds the difference of each rival from the law at the largest size that was tried.
    """

    size: int
    apart: float
    parted: tuple[float, ...]


def grown(sample: Sample, factor: int, way: str, seed: int = 0, count: int = GROWN) -> Sample:
    """Random graphs ``factor`` times as large: edges of the same degree or density, nodes drawn from given ones. With
    :data:`NEIGHBOURHOODS` nodes have ``factor`` times as many neighbours instead.

    Half of the graphs draw their nodes from one given graph each, the others from all of them.
    """
    random = np.random.default_rng([seed, factor, (*WAYS, NEIGHBOURHOODS).index(way)])
    sizes = np.diff(sample.starts)
    chosen = random.choice(len(sizes), count)
    new = np.minimum(sizes[chosen] * factor, MOST_NODES)
    if way == NEIGHBOURHOODS:
        new = np.minimum(sizes[chosen], FEWER_NODES)
    starts = np.concatenate([[0], np.cumsum(new)])
    nodes, edges = [], []
    for k, (graph, size, start) in enumerate(zip(chosen, new, starts[:-1], strict=True)):
        from_all = k % 2 == 0
        low, high = (0, sample.nodes) if from_all else (int(sample.starts[graph]), int(sample.starts[graph + 1]))
        nodes.append(random.integers(low, high, size))
        edges.append(_edges(sample, int(graph), int(size), factor, way, random) + start)
    return Sample.of_arrays(
        sample.x[np.concatenate(nodes), :-1], new, np.concatenate(edges, axis=1) if sample.loops else None
    )


def _edges(
    sample: Sample, graph: int, size: int, factor: int, way: str, random: np.random.Generator
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Random edges of a grown graph, in both directions. No node is isolated unless a node of the given graph is."""
    first, last = sample.starts[graph], sample.starts[graph + 1]
    degrees = np.diff(sample.edge_starts[first : last + 1])
    wanted = int(degrees.sum() * (size / (last - first)) ** (2 if way == "density" else 1) / 2)
    if way == NEIGHBOURHOODS:
        wanted *= factor
    pairs = random.integers(0, size, (2, wanted))
    pairs = pairs[:, pairs[0] != pairs[1]]
    if len(degrees) and degrees.min() > 0:
        alone = np.setdiff1d(np.arange(size), pairs)
        pairs = np.concatenate(
            [pairs, np.stack([alone, (alone + random.integers(1, size, len(alone))) % size])], axis=1
        )
    pairs = np.unique(np.sort(pairs, axis=0), axis=1)
    return np.concatenate([pairs, pairs[::-1]], axis=1)


def certify(
    sample: Sample,
    level: Level,
    law: Law,
    rivals: Sequence[Law],
    tolerance: float,
    error: float = 0.0,
    slope: float = 0.0,
) -> Trust:
    """The largest size up to which all rivals are within ``tolerance`` of the law.

    The sizes tried are 2, 4, 8 and 16 times those of the given graphs, grown with the same degrees and, for graphs that
    are not too large, with the same density. A difference is the mean relative difference over the grown graphs; for
    classes it is the share of graphs that get another class. ``error`` is the error of the law on the given graphs, and
    ``slope`` the power of the size with which it grew there. Trust also ends where this error would exceed the
    tolerance. If the targets are those of the nodes of a single graph, the neighbourhoods grow and not the graph.
    """
    count = GROWN_CLASSES if law.cuts and level != "node" else GROWN
    differences = functools.partial(_apart, law=law, rivals=rivals)
    return agreement(sample, level, differences, len(rivals), tolerance, error, slope, count)


def agreement(
    sample: Sample,
    level: Level,
    differences: Callable[[Sample], Floats],
    rivals: int,
    tolerance: float,
    error: float = 0.0,
    slope: float = 0.0,
    count: int = GROWN,
) -> Trust:
    """:func:`certify` of anything that predicts; ``differences`` gives those of the rivals on grown graphs."""
    largest = largest_of(sample, level)
    size, apart, holds = largest, 0.0, True
    parted = np.zeros(rivals)
    for factor in FACTORS:
        ways = ways_of(sample, level, factor)
        here = np.max([differences(grown(sample, factor, way, count=count)) for way in ways], axis=0)
        parted = np.maximum(parted, here)
        worst = float(here.max(initial=0.0))
        holds = holds and worst <= tolerance and error * factor**slope <= tolerance
        if holds:
            size, apart = largest * factor, max(apart, worst)
    return Trust(size, apart, tuple(parted.tolist()))


def ways_of(sample: Sample, level: Level, factor: int) -> tuple[str, ...]:
    """How to grow these graphs by a factor."""
    if is_single(sample, level):
        return (NEIGHBOURHOODS,)
    usual = float(np.diff(sample.starts).mean())
    return WAYS if sample.loops and level != "set" and usual * factor <= MOST_DENSE else WAYS[:1]


def is_single(sample: Sample, level: Level) -> bool:
    """Whether the targets are those of the nodes of one graph, so that sizes are numbers of neighbours."""
    return level == "node" and len(sample.starts) == 2


def largest_of(sample: Sample, level: Level) -> int:
    """The nodes of the largest graph, or the neighbours of the node with most of them in a single graph."""
    counts = sample.edge_starts if is_single(sample, level) else sample.starts
    return int(np.diff(counts).max())


def _apart(graphs: Sample, law: Law, rivals: Sequence[Law]) -> Floats:
    """How far each rival is from the law on these graphs."""
    values = _Values(graphs)
    truth = law.predict_from(values.of(term) for term in law.terms)
    found = []
    for rival in rivals:
        other = rival.predict_from(values.of(term) for term in rival.terms)
        with np.errstate(all="ignore"):
            far = (other != truth).mean() if law.cuts else np.abs(other - truth).mean() / np.abs(truth).mean()
        found.append(float(far) if np.isfinite(far) else np.inf)
    return np.array(found)


class _Values:
    """The values of terms on some graphs, each computed once."""

    def __init__(self, graphs: Sample) -> None:
        self.graphs, self.known = graphs, dict[Term, Floats]()

    def of(self, term: Term) -> Floats:
        if term not in self.known:
            self.known[term] = values_of(term, self.graphs)
        return self.known[term]
