"""Tasks with one label per graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from gnpool.tasks.graphs import Graph
from gnpool.tasks.losses import mape, squared_error
from gnpool.tasks.task import PerItem, Request, Task, register

UNIFORM_CHANNELS = 3
UNIFORM_HIGH = {"train": 5.0, "val": 5.0, "test": 10.0}  # the test extrapolates in the features too


@dataclass(frozen=True, kw_only=True)
class GraphTask(Task):
    r"""A task with one label per graph.

    Args:
        label (callable): ``label(graph)`` returns the label of a :class:`Graph`.
        **rest: See :class:`Task`; all but ``name`` and ``target`` default to what the paper's graph tasks share.

    Example:
        >>> from gnpool.tasks import GraphTask
        >>> task = GraphTask(name="edges", target="number of edges", label=lambda graph: graph.degree.sum() / 2)
        >>> task.dataset("test", count=1, structure="tree", sizes=(60, 61))[0].y
        tensor([59.], dtype=torch.float64)
    """

    level: ClassVar[Literal["graph"]] = "graph"
    options: ClassVar[tuple[str, ...]] = ("structure", "probability", "mean_degree", "features")

    label: Callable[[Graph], float]
    loss: PerItem = squared_error
    metric: PerItem = mape
    sizes: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: {"train": (20, 30), "val": (20, 30), "test": (50, 100)}
    )
    counts: Mapping[str, int] = field(default_factory=lambda: {"train": 5000, "val": 1000, "test": 2500})
    epochs: int = 200
    batch_size: int = 64

    def examples(self, request: Request) -> Iterator[dict[str, Any]]:
        stream = request.stream("features")
        for graph in request.graphs():
            if request.features is None:
                x = np.ones((graph.nodes, self.in_channels))
            else:
                channels, high = request.features
                x = stream.uniform((graph.nodes, channels), high)
            yield {"x": x, "edge_index": graph.edges, "y": [self.label(graph)]}

    def _feature_range(self, features: str | tuple[int, float] | None, split: str) -> tuple[int, float] | None:
        if features is None:
            return None
        if features == "uniform":
            return UNIFORM_CHANNELS, UNIFORM_HIGH[split]
        if isinstance(features, (tuple, list)) and len(features) == 2:
            channels, high = features
            if isinstance(channels, int) and channels > 0 and high > 0:
                return channels, float(high)
        raise ValueError(f"'features' must be 'uniform' or (channels, upper end), both positive, got {features!r}")


def max_degree(graph: Graph) -> float:
    """The largest degree."""
    return float(graph.degree.max())


def harmonic_degree(graph: Graph) -> float:
    """The inverse of the sum of the inverse degrees."""
    return float(1.0 / (1.0 / graph.degree).sum())


def inverse_size(graph: Graph) -> float:
    """One over the number of nodes."""
    return 1.0 / graph.nodes


register(GraphTask(name="maxdegree", target="max of deg(v)", label=max_degree, aggregation="sum", readout="max"))
register(
    GraphTask(
        name="harmonic", target="1 / sum of 1/deg(v)", label=harmonic_degree, aggregation="sum", readout="harmonic"
    )
)
register(
    GraphTask(name="invsize", target="1 / number of nodes", label=inverse_size, aggregation="mean", readout="harmonic")
)
