"""Laws that a network with the right poolings obeys exactly, and data drawn from them.

A law of graphs is a pooling over the neighbours of each node, followed by one over the nodes; a law of sets is one
pooling. Features are ones or uniform in (0, 1). Training and validation graphs have 20 to 29 nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Floats, Stream
from gnpool.tasks.structures import connected_er

SIZES = {"train": (20, 30), "validation": (20, 30), "50-99": (50, 100), "200": (200, 201), "1000": (1000, 1001)}
COUNTS = {"train": 2000, "validation": 500, "50-99": 500, "200": 100, "1000": 50}
TESTS = ("50-99", "200", "1000")
MOST_DENSE = 160  # nodes up to which graphs have edge probabilities of 0.1 to 0.9
MEAN_DEGREE = 20.0  # mean degree of larger graphs
PROBABILITIES = tuple(k / 10 for k in range(1, 10))


@dataclass(frozen=True)
class Law:
    """A target: ``label(x, graph)`` of the features (n,) and, for graphs, of the graph."""

    name: str
    text: str
    level: Literal["graph", "set"]
    label: Callable[[Floats, Graph | None], float]
    ones: bool = False  # whether all features are 1


def over_neighbors(reduce: np.ufunc, x: Floats, graph: Graph) -> Floats:
    """(n,) reductions of the neighbours' features of each node."""
    return np.asarray(reduce.reduceat(x[graph.edges[0]], graph.starts[:-1]))


def _graph(name: str, text: str, label: Callable[[Floats, Graph], float], ones: bool = False) -> Law:
    return Law(name, text, "graph", label, ones)  # type: ignore[arg-type]


def _set(name: str, text: str, label: Callable[[Floats], float]) -> Law:
    return Law(name, text, "set", lambda x, graph: label(x))


LAWS = {
    law.name: law
    for law in (
        _graph("max of sums", "largest sum over neighbours", lambda x, g: over_neighbors(np.add, x, g).max()),
        _graph("maxdegree", "largest degree", lambda x, g: g.degree.max(), ones=True),
        _graph("harmonic", "1 / sum of 1 / degree", lambda x, g: 1 / (1 / g.degree).sum(), ones=True),
        _graph("invsize", "1 / number of nodes", lambda x, g: 1 / g.nodes, ones=True),
        _graph("mean of mins", "mean of the smallest neighbour", lambda x, g: over_neighbors(np.minimum, x, g).mean()),
        _graph("rms degree", "root mean square of the degrees", lambda x, g: np.sqrt(np.square(g.degree).mean()), True),
        _graph("sum of maxima", "sum of the largest neighbour", lambda x, g: over_neighbors(np.maximum, x, g).sum()),
        _graph("edges", "number of edges", lambda x, g: g.degree.sum() / 2, ones=True),
        _graph("mean degree", "mean degree", lambda x, g: g.degree.mean(), ones=True),
        _set("set mean", "mean", lambda x: x.mean()),
        _set("set max", "max", lambda x: x.max()),
        _set("set L2", "L2 norm", lambda x: np.sqrt(np.square(x).sum())),
        _set("set range", "max - min", lambda x: x.max() - x.min()),
        _set("set sum/sqrt(n)", "sum / sqrt(n)", lambda x: x.sum() / np.sqrt(len(x))),
        _set("set geometric", "geometric mean", lambda x: np.exp(np.log(x).mean())),
    )
}
"""The laws that settings were chosen on."""

HELD = {
    law.name: law
    for law in (
        _graph("sum of sums", "sum of the sums over neighbours", lambda x, g: over_neighbors(np.add, x, g).sum()),
        _graph(
            "min of maxima", "smallest of the largest neighbours", lambda x, g: over_neighbors(np.maximum, x, g).min()
        ),
        _graph(
            "max of means",
            "largest mean over neighbours",
            lambda x, g: (over_neighbors(np.add, x, g) / g.degree).max(),
        ),
        _graph(
            "rms of sums",
            "root mean square of the sums over neighbours",
            lambda x, g: np.sqrt(np.square(over_neighbors(np.add, x, g)).mean()),
        ),
        _graph("L2 degree", "L2 norm of the degrees", lambda x, g: np.sqrt(np.square(g.degree).sum()), ones=True),
        _set("set sum", "sum", lambda x: x.sum()),
        _set("set min", "min", lambda x: x.min()),
        _set("set rms", "root mean square", lambda x: np.sqrt(np.square(x).mean())),
        _set("set harmonic mean", "harmonic mean", lambda x: len(x) / (1 / x).sum()),
        _set("set midrange", "(max + min) / 2", lambda x: (x.max() + x.min()) / 2),
    )
}
"""Laws kept back: no setting was chosen with them in view."""


def draw(law: Law, part: str, seed: int = 0) -> list[Data]:
    """The graphs or sets of one part of the data, determined by the seed and the names."""
    return draw_sizes(law, part, COUNTS[part], SIZES[part], seed)


def draw_sizes(law: Law, part: str, count: int, sizes: tuple[int, int], seed: int = 0) -> list[Data]:
    """``count`` graphs or sets with ``sizes`` nodes; the upper limit is excluded."""
    stream = Stream("laws", law.name, part, seed)
    found = []
    for k in range(count):
        nodes = stream.integer(*sizes)
        graph = None
        if law.level == "graph":
            small = sizes[1] <= MOST_DENSE
            probability = PROBABILITIES[k % len(PROBABILITIES)] if small else MEAN_DEGREE / (nodes - 1)
            graph = connected_er(nodes, probability, stream)
        x = np.ones(nodes) if law.ones else stream.uniform(nodes)
        y = torch.tensor([[float(law.label(x, graph))]], dtype=torch.float64)
        data = Data(x=torch.from_numpy(x[:, None]).float(), y=y)
        if graph is not None:
            data.edge_index = torch.from_numpy(graph.edges)
        found.append(data)
    return found


def relative_error(prediction: torch.Tensor, batch: object) -> torch.Tensor:
    """|prediction - y| / |y| of each graph."""
    y: torch.Tensor = batch.y  # type: ignore[attr-defined]
    return ((prediction - y) / y).abs()


def squared_error(prediction: torch.Tensor, batch: object) -> torch.Tensor:
    """(prediction - y)^2 of each graph."""
    y: torch.Tensor = batch.y  # type: ignore[attr-defined]
    return (prediction - y.to(prediction.dtype)).square()
