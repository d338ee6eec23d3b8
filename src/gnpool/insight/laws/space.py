"""The space of laws: terms, each a pooling of one feature in one or more places, and their values on given graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.insight.laws.points import POINTS, Floats, Ints, Point, pool

Level = Literal["graph", "set", "node"]
ONE = -1  # the feature that is 1 everywhere: its sum over neighbours is the degree
MOST_VALUES = 40_000_000  # numbers in the matrix of all terms; beyond, fewer points are tried in front
NEIGHBOURHOODS = math.log(2)  # nats: neighbours alone, or the node itself among them


@dataclass(frozen=True)
class Term:
    """One term of a law: ``poolings`` from the inside out, over the feature number ``feature`` (:data:`ONE`: the 1).

    ``closed`` says whether a node counts among its own neighbours. ``readout`` says whether the last pooling goes over
    the nodes of a graph or the elements of a set; the ones before it go over neighbours. Without any pooling the term
    is the node's own feature.
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
        hops = math.log(3) + (NEIGHBOURHOODS if self.hops else 0.0)
        return math.log(features + 1) + hops + sum(point.cost for point in self.poolings)

    def describe(self, names: Sequence[str], element: str = "v") -> str:
        """As in a formula, ``max_v(sum_u x_u)``."""
        inside = "1" if self.feature == ONE else names[self.feature]
        letters = [*"utsr"[: self.hops], element] if self.readout else [*"utsr"[: self.hops]]
        letters = letters[::-1] if not self.readout else letters
        text = inside if inside == "1" or not letters else f"{inside}_{letters[0]}"
        if not self.poolings:
            return inside if inside == "1" else f"{inside}_v"
        for place, point in enumerate(self.poolings):
            text = f"{point.name}_{letters[place]}{'*' if self.closed and place < self.hops else ''}({text})"
        return text


@dataclass(frozen=True)
class Sample:
    """Graphs as flat arrays: features (N, D + 1) with a 1 as the last, first nodes of graphs, and neighbours."""

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
        width = 0 if graphs[0].x is None else graphs[0].x.view(int(sizes[0]), -1).size(1)
        columns = [
            np.ones((int(n), 1)) if width == 0
            else np.concatenate([graph.x.detach().cpu().double().view(int(n), -1).numpy(), np.ones((int(n), 1))], 1)
            for graph, n in zip(graphs, sizes, strict=True)
        ]  # fmt: skip
        edges = [
            np.zeros((2, 0), np.int64) if graph.edge_index is None else graph.edge_index.cpu().numpy() + start
            for graph, start in zip(graphs, starts[:-1], strict=True)
        ]
        every = np.concatenate(edges, axis=1)
        order = np.argsort(every[1], kind="stable")
        edge_starts = np.searchsorted(every[1][order], np.arange(int(starts[-1]) + 1))
        return cls(np.concatenate(columns), starts, every[0][order], edge_starts, every.shape[1] > 0)

    @property
    def nodes(self) -> int:
        """Number of nodes of all graphs."""
        return int(self.starts[-1])

    def gather(self, values: Floats, closed: bool) -> tuple[Floats, Ints]:
        """The neighbours' rows, sorted by node, and where each node's begin; ``closed``: its own row too."""
        if not closed:
            return values[self.sources], self.edge_starts
        own = np.insert(self.sources, self.edge_starts[:-1], np.arange(self.nodes))
        return values[own], self.edge_starts + np.arange(self.nodes + 1)


def features_of(sample: Sample) -> list[int]:
    """Numbers of the features, and :data:`ONE`."""
    return [*range(sample.x.shape[1] - 1), ONE]


def terms_and_values(sample: Sample, level: Level) -> tuple[list[Term], Floats]:
    """Every term of the space, and its values: a row for each target, a column for each term."""
    terms: list[Term] = []
    columns: list[Floats] = []

    def add(found: list[Term], values: Floats) -> None:
        terms.extend(found)
        columns.append(values.reshape(len(values), -1))

    rows = sample.nodes if level == "node" else len(sample.starts) - 1
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
                    _second_hop(sample, feature, inner, inner_points, outer_points, add)
            else:
                outer = pool(inner, sample.starts, outer_points)  # (G, points, points)
                add([Term(feature, (a, b), closed) for a in inner_points for b in outer_points], outer)
    return terms, np.concatenate(columns, axis=1)


def _second_hop(
    sample: Sample, feature: int, inner: Floats, points: Sequence[Point], outer: Sequence[Point], add: object
) -> None:
    gathered, starts = sample.gather(inner, False)
    twice = pool(gathered, starts, outer)
    found = [Term(feature, (a, b), readout=False) for a in points for b in outer]
    add(found, twice)  # type: ignore[operator]


def _points(sample: Sample, level: Level, rows: int) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """The points of the two places: all of them, or the better known where there are too many numbers."""
    features = sample.x.shape[1]
    for inner, outer in ((POINTS, POINTS), (_plain(), POINTS), (_plain(), _plain())):
        if rows * features * 2 * len(inner) * len(outer) <= MOST_VALUES:
            return inner, outer
    return _plain()[:4], _plain()[:4]


def _plain() -> tuple[Point, ...]:
    return tuple(sorted((point for point in POINTS if "^" not in point.name), key=lambda point: point.cost))


def values_of(term: Term, sample: Sample) -> Floats:
    """The values of one term on other graphs."""
    values = sample.x[:, [term.feature]]
    for place, point in enumerate(term.poolings):
        if place < term.hops:
            gathered, starts = sample.gather(values, term.closed)
            values = pool(gathered, starts, (point,))[:, :, 0]
        else:
            values = pool(values, sample.starts, (point,))[:, :, 0]
    return values[:, 0]


def level_of(graphs: Sequence[Data]) -> Level:
    """What the targets belong to: graphs, sets (no edges anywhere) or nodes."""
    if not graphs:
        raise ValueError("find_law: there are no graphs")
    if any(not isinstance(graph.y, torch.Tensor) for graph in graphs):
        raise ValueError("find_law: every graph needs a target 'y'")
    if all(graph.y.numel() == 1 for graph in graphs):
        return "set" if all(graph.edge_index is None or graph.edge_index.size(1) == 0 for graph in graphs) else "graph"
    if all(graph.y.numel() == graph.num_nodes for graph in graphs):
        return "node"
    raise ValueError("find_law: 'y' must be one number for each graph, or one for each node")
