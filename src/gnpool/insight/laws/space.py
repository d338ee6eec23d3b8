"""The space of laws: its terms, each of which pools one feature once or several times, and their values on graphs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.insight.laws.points import COMMON, POINTS, Floats, Ints, Point, pool, power_of

Level = Literal["graph", "set", "node"]
ONE = -1  # the feature that is 1 everywhere; its sum over neighbours is the degree
MOST_VALUES = 20_000_000  # if the matrix of all terms would be larger, fewer points are tried for the first pooling
MOST_INNER = 50_000_000  # the most intermediate values of one feature
NEIGHBOURHOODS = math.log(2)  # nats for whether the node is among its neighbours
PLAIN = tuple(Point(p, growth) for p, growth in COMMON)
DEPTHS = 4  # none to three hops


@dataclass(frozen=True)
class Term:
    """One term of a law: ``poolings``, from the inside out, of the feature number ``feature`` (:data:`ONE`: the 1).

    ``closed`` says whether a node counts among its own neighbours. ``readout`` says whether the last pooling goes over
    the nodes of a graph or the elements of a set; the poolings before it go over neighbours. Without any pooling the
    term is the node's own feature.

    Example:
        >>> from gnpool.insight.laws import Point, Term
        >>> term = Term(0, (Point(1.0, 1.0), Point(float("inf"), 0.0)))
        >>> term.describe(["mass"]), term.hops
        ('max_v(sum_u(mass_u))', 1)
    """

    feature: int
    poolings: tuple[Point, ...] = ()
    closed: bool = False
    readout: bool = True

    @property
    def hops(self) -> int:
        """How often it pools over neighbours."""
        return len(self.poolings) - self.readout

    def cost(self, features: int) -> float:
        """Length of its description in nats: which feature, how many hops, and which pooling in each place."""
        hops = math.log(DEPTHS) + (NEIGHBOURHOODS if self.hops else 0.0)
        return math.log(features + 1) + hops + sum(point.cost for point in self.poolings)

    def to_dict(self) -> dict[str, Any]:
        """The term in a form that JSON can hold; an infinite p is written as a word."""
        poolings = [
            [str(point.p) if math.isinf(point.p) else point.p, point.growth, point.joined] for point in self.poolings
        ]
        return {"feature": self.feature, "poolings": poolings, "closed": self.closed, "readout": self.readout}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Term:
        """The term that :meth:`to_dict` gave."""
        poolings = tuple(Point(float(p), float(growth), bool(joined)) for p, growth, joined in found["poolings"])
        return cls(int(found["feature"]), poolings, bool(found["closed"]), bool(found["readout"]))

    def places(self, element: str = "v") -> list[str]:
        """The letter that each pooling runs over, from the inside out."""
        hops = list("utsr"[: self.hops][::-1])
        return [*hops, element] if self.readout else hops

    def describe(self, names: Sequence[str], element: str = "v") -> str:
        """The term as in a formula, ``max_v(sum_u(x_u))``."""
        letters = self.places(element)
        around = [*letters[1:], "v"]  # the node whose neighbours each hop pools
        text = "1" if self.feature == ONE else f"{names[self.feature]}_{letters[0] if letters else 'v'}"
        for place, (point, letter) in enumerate(zip(self.poolings, letters, strict=True)):
            hop = place < self.hops
            if text == "1" and not point.joined:  # pooling ones gives a power of their number
                size = f"degree_{around[place]}" if hop else "n"
                text = power_of(f"({size} + 1)" if hop and self.closed else size, point.growth)
            else:
                text = f"{point.name}_{letter}{'*' if self.closed and hop else ''}({text})"
        return text


@dataclass(frozen=True)
class Sample:
    """Graphs as flat arrays: features (N, D + 1) with a 1 as the last, first nodes of graphs, and neighbours.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.insight.laws import Sample
        >>> sample = Sample.of([Data(x=torch.tensor([[5.0], [6.0]])), Data(x=torch.tensor([[7.0]]))])
        >>> sample.x.tolist(), sample.starts.tolist()
        ([[5.0, 1.0], [6.0, 1.0], [7.0, 1.0]], [0, 2, 3])
    """

    x: Floats
    starts: Ints
    sources: Ints  # of edges, sorted by their destination
    edge_starts: Ints  # first edge of each destination, and E
    loops: bool  # whether there are edges at all

    @classmethod
    def of(cls, graphs: Sequence[Data]) -> Sample:
        """The arrays of a list of PyG graphs."""
        sizes = np.array([graph.num_nodes for graph in graphs], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        widths = [0 if graph.x is None else math.prod(graph.x.shape[1:]) for graph in graphs]
        width = widths[0]
        if len(set(widths)) > 1:
            raise ValueError(f"all graphs must have the same features, got {sorted(set(widths))} columns of 'x'")
        columns = [
            np.ones((int(n), 0)) if width == 0 else graph.x.detach().cpu().double().reshape(int(n), width).numpy()
            for graph, n in zip(graphs, sizes, strict=True)
        ]  # fmt: skip
        edges = [
            np.zeros((2, 0), np.int64) if graph.edge_index is None else graph.edge_index.cpu().numpy() + start
            for graph, start in zip(graphs, starts[:-1], strict=True)
        ]
        every = np.concatenate(edges, axis=1)
        return cls.of_arrays(np.concatenate(columns), sizes, every)

    @classmethod
    def of_arrays(cls, x: Floats, sizes: Ints, edge_index: Ints | None) -> Sample:
        """From features (N, D), the sizes of the graphs, and their edges (2, E), numbered over all nodes."""
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        edges = np.zeros((2, 0), np.int64) if edge_index is None else edge_index
        order = np.argsort(edges[1], kind="stable")
        edge_starts = np.searchsorted(edges[1][order], np.arange(int(starts[-1]) + 1))
        rows = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        return cls(rows, starts, edges[0][order], edge_starts, edges.shape[1] > 0)

    def select(self, graphs: Ints) -> Sample:
        """Some of the graphs, in the order given."""
        nodes = np.concatenate([np.arange(self.starts[g], self.starts[g + 1]) for g in graphs])
        place = np.full(self.nodes, -1)
        place[nodes] = np.arange(len(nodes))
        edges = np.concatenate([np.arange(self.edge_starts[v], self.edge_starts[v + 1]) for v in nodes.tolist()])
        targets = np.repeat(np.arange(len(nodes)), np.diff(self.edge_starts)[nodes])
        index = np.stack([place[self.sources[edges]], targets]) if self.loops else None
        return Sample.of_arrays(self.x[nodes, :-1], np.diff(self.starts)[graphs], index)

    @property
    def nodes(self) -> int:
        """Number of nodes of all graphs."""
        return int(self.starts[-1])

    def gather(self, values: Floats, closed: bool) -> tuple[Floats, Ints]:
        """The neighbours' rows, sorted by node, and where those of each node begin; ``closed`` adds its own row."""
        if not closed:
            return values[self.sources], self.edge_starts
        own = np.insert(self.sources, self.edge_starts[:-1], np.arange(self.nodes))
        return values[own], self.edge_starts + np.arange(self.nodes + 1)


Add = Callable[[list[Term], Floats], None]


def features_of(sample: Sample) -> list[int]:
    """:data:`ONE`, which replaces every constant feature, and the numbers of the other features."""
    return [ONE, *range(sample.x.shape[1] - 1)]


def terms_and_values(sample: Sample, level: Level, most: int | None = None) -> tuple[list[Term], Floats]:
    """Every term of the space, and its values: a row for each target, a column for each term.

    ``most`` keeps only the first rows, for a large graph of which only some nodes have a target.
    """
    terms: list[Term] = []
    columns: list[Floats] = []

    def add(found: list[Term], values: Floats) -> None:
        terms.extend(found)
        columns.append(values[:most].reshape(len(values[:most]), -1).copy())

    rows = min(most or sample.nodes, sample.nodes) if level == "node" else len(sample.starts) - 1
    inner_points, outer_points = _points(sample, level, rows)
    for feature in features_of(sample):
        x = sample.x[:, [feature]]
        if level == "node":
            if feature != ONE:
                add([Term(feature, readout=False)], x)
        else:
            add([Term(feature, (point,)) for point in POINTS], pool(x, sample.starts, POINTS)[:, 0])
        if not sample.loops or level == "set":
            continue
        for closed in (False, True):
            gathered, starts = sample.gather(x, closed)
            inner = pool(gathered, starts, inner_points)[:, 0]  # (N, points)
            if level == "node":
                add([Term(feature, (point,), closed, readout=False) for point in inner_points], inner)
                if not closed:
                    _further(sample, feature, inner, inner_points, outer_points, add)
                    _deep(sample, feature, x, level, add)
            else:
                outer = pool(inner, sample.starts, outer_points)  # (G, points, points)
                add([Term(feature, (a, b), closed) for a in inner_points for b in outer_points], outer)
                if not closed:
                    _deep(sample, feature, x, level, add)
    return terms, np.concatenate(columns, axis=1)


def _further(
    sample: Sample, feature: int, inner: Floats, points: Sequence[Point], outer: Sequence[Point], add: Add
) -> None:
    """The terms of nodes with two hops."""
    gathered, starts = sample.gather(inner, False)
    twice = pool(gathered, starts, outer)
    add([Term(feature, (a, b), readout=False) for a in points for b in outer], twice)


def _deep(sample: Sample, feature: int, x: Floats, level: Level, add: Add) -> None:
    """The terms with one more hop, with common poolings only."""
    values = x
    for _ in range(3 if level == "node" else 2):
        gathered, starts = sample.gather(values, False)
        values = pool(gathered, starts, PLAIN).reshape(len(x), -1)
    chains = list(itertools.product(PLAIN, repeat=3))
    if level == "node":
        add([Term(feature, chain, readout=False) for chain in chains], values)
    else:
        add([Term(feature, chain) for chain in chains], pool(values, sample.starts, PLAIN))


def _points(sample: Sample, level: Level, rows: int) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """The points of the two poolings: all of them, or only the common ones if there would be too many values."""
    features = sample.x.shape[1]
    for inner, outer in ((POINTS, POINTS), (_plain(), POINTS), (_plain(), _plain())):
        pairs = len(inner) * len(outer)
        on_the_way = sample.nodes * pairs if level == "node" else 0
        if rows * features * 2 * pairs <= MOST_VALUES and on_the_way <= MOST_INNER:
            return inner, outer
    return _plain()[:4], _plain()[:4]


def _plain() -> tuple[Point, ...]:
    return tuple(sorted((point for point in POINTS if "^" not in point.name), key=lambda point: point.cost))


def values_of(term: Term, sample: Sample) -> Floats:
    """The values of one term on other graphs."""
    return _apply(term, sample, sample.x[:, [term.feature]], 0, len(term.poolings))[:, 0]


def values_at(term: Term, place: int, points: Sequence[Point], sample: Sample) -> Floats:
    """The values of a term with each of the points as its pooling number ``place``, a column for each point."""
    values = _apply(term, sample, sample.x[:, [term.feature]], 0, place)
    if place < term.hops:
        gathered, starts = sample.gather(values, term.closed)
    else:
        gathered, starts = values, sample.starts
    values = pool(gathered, starts, points)[:, 0]
    return _apply(term, sample, values, place + 1, len(term.poolings))


def _apply(term: Term, sample: Sample, values: Floats, first: int, stop: int) -> Floats:
    """Apply the poolings ``first`` to ``stop`` - 1 of a term to columns."""
    for place in range(first, stop):
        if place < term.hops:
            gathered, starts = sample.gather(values, term.closed)
            values = pool(gathered, starts, (term.poolings[place],))[:, :, 0]
        else:
            values = pool(values, sample.starts, (term.poolings[place],))[:, :, 0]
    return values


def level_of(graphs: Sequence[Data]) -> Level:
    """The level of the targets: graphs, sets (there are no edges) or nodes."""
    if not graphs:
        raise ValueError("find_law: 'graphs' is empty")
    if any(not isinstance(graph.y, torch.Tensor) for graph in graphs):
        raise ValueError("find_law: every graph needs a target 'y'")
    if all(graph.y.numel() == 1 for graph in graphs):
        return "set" if all(graph.edge_index is None or graph.edge_index.size(1) == 0 for graph in graphs) else "graph"
    if all(graph.y.numel() == graph.num_nodes for graph in graphs):
        return "node"
    raise ValueError("find_law: 'y' must be one number for each graph, or one for each node")
