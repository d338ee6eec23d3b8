"""Tasks with one label per node: how far each node is from a target node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from gnpool.tasks.graphs import Graph
from gnpool.tasks.losses import mae, squared_error
from gnpool.tasks.streams import Floats, Stream
from gnpool.tasks.task import PerItem, Request, Task, register

HOPS = 3  # the number of layers of the networks
FAR = 10.0  # times the number of nodes is the initial distance of every node but the target


@dataclass(frozen=True, eq=False)
class Rooted:
    r"""A graph with a target node.

    Args:
        graph (Graph): The graph, with one self-loop on every node.
        target (int): The node from which distances are measured.
        lengths (ndarray, optional): (E,) length of each edge, 0 for self-loops. (default: ``None``)

    Example:
        >>> import numpy as np
        >>> from gnpool.tasks import Graph, Rooted
        >>> path = Graph.from_pairs(3, np.array([0, 1]), np.array([1, 2])).with_self_loops()
        >>> rooted = Rooted(path, target=2)
        >>> rooted.graph.hops(rooted.target).tolist()
        [2, 1, 0]
    """

    graph: Graph
    target: int
    lengths: Floats | None = None


@dataclass(frozen=True, kw_only=True)
class NodeTask(Task):
    r"""A task with one label per node, in graphs with a target node, drawn uniformly.

    Args:
        feature (callable): ``feature(rooted)`` returns the (n,) input of the nodes of a :class:`Rooted` graph.
        label (callable): ``label(rooted, reading)`` returns (n,) labels, and (n,) weights or ``None`` if all nodes
            count.
        max_length (dict, optional): The c of each split, if edges have lengths of U(0, c). (default: ``None``, no
            lengths)
        **rest: See :class:`Task`; all but ``name`` and ``target`` default to what the paper's node tasks share.

    Example:
        >>> from gnpool.tasks import get_task
        >>> task = get_task("shortest")
        >>> (graph,) = task.dataset("train", count=1, structure="tree", sizes=(20, 21))
        >>> graph.x.shape, graph.edge_weight.shape == (graph.num_edges,), graph.y.shape
        (torch.Size([20, 1]), True, torch.Size([20]))
    """

    level: ClassVar[Literal["node"]] = "node"
    options: ClassVar[tuple[str, ...]] = ("structure", "probability", "mean_degree")

    feature: Callable[[Rooted], Floats]
    label: Callable[[Rooted, str | None], tuple[Floats, Floats | None]]
    max_length: Mapping[str, float] | None = None
    loss: PerItem = squared_error
    metric: PerItem = mae
    sizes: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: {"train": (20, 40), "val": (20, 40), "test": (50, 70)}
    )
    counts: Mapping[str, int] = field(default_factory=lambda: {"train": 5000, "val": 1000, "test": 2500})
    epochs: int = 200
    batch_size: int = 32

    def examples(self, request: Request) -> Iterator[dict[str, Any]]:
        stream = request.stream("targets")
        for bare in request.graphs():
            graph, target = bare.with_self_loops(), stream.integer(0, bare.nodes)
            high = None if self.max_length is None else self.max_length[request.split]
            rooted = Rooted(graph, target, None if high is None else edge_lengths(graph, high, stream))
            y, weight = self.label(rooted, request.reading)
            fields = {"x": self.feature(rooted)[:, None], "edge_index": graph.edges, "y": y}
            if rooted.lengths is not None:
                fields["edge_weight"] = rooted.lengths
            if weight is not None:
                fields["weight"] = weight
            yield fields

    def describe(self, split: str) -> str:
        words = super().describe(split)
        return words if self.max_length is None else f"{words}, lengths U(0, {self.max_length[split]:g})"


def edge_lengths(graph: Graph, high: float, stream: Stream) -> Floats:
    """(E,) one length of U(0, high) per undirected edge, the same in both directions, and 0 for self-loops.

    Lengths are rounded to single precision, in which networks see them, so that labels fit them exactly.
    """
    source, destination = graph.edges
    lengths = np.zeros(source.size)
    down, up = np.flatnonzero(source < destination), np.flatnonzero(source > destination)
    lengths[down] = stream.uniform(down.size, high).astype(np.float32)
    # Both directions are sorted by (larger end, smaller end), which is already the order of `down`.
    lengths[up[np.argsort(source[up] * graph.nodes + destination[up])]] = lengths[down]
    return lengths


def reached(rooted: Rooted, _: str | None) -> tuple[Floats, None]:
    """1 for nodes within three hops of the target, 0 for the others."""
    return (rooted.graph.hops(rooted.target, HOPS) >= 0).astype(np.float64), None


def distance(rooted: Rooted, reading: str | None) -> tuple[Floats, Floats]:
    """The distance from the target, and which nodes count; nodes that do not count have the label 0.

    There are three readings. ``"three_edges"`` takes the shortest path of at most three edges, for nodes that have one.
    ``"exact_within_three"`` takes the shortest of all paths, for nodes where this path has at most three edges.
    ``"exact"`` takes the shortest of all paths, for nodes within three hops.
    """
    graph, target, lengths = rooted.graph, rooted.target, rooted.lengths
    assert lengths is not None
    near = graph.distances(target, lengths, HOPS)
    if reading == "three_edges":
        y, counts = near, np.isfinite(near)
    else:
        y = graph.distances(target, lengths)
        counts = near == y if reading == "exact_within_three" else np.isfinite(near)
    return np.where(counts, y, 0.0), counts.astype(np.float64)


def target_is_one(rooted: Rooted) -> Floats:
    """1 for the target, 0 for the others."""
    x = np.zeros(rooted.graph.nodes)
    x[rooted.target] = 1.0
    return x


def others_are_far(rooted: Rooted) -> Floats:
    """0 for the target, ten times the number of nodes for the others."""
    x = np.full(rooted.graph.nodes, FAR * rooted.graph.nodes)
    x[rooted.target] = 0.0
    return x


register(
    NodeTask(
        name="bfs",
        target="1 within 3 hops of the target node, else 0",
        feature=target_is_one,
        label=reached,
        aggregation="max",
        epochs=100,
    )
)
register(
    NodeTask(
        name="shortest",
        target="distance from the target node, over 3 edges at most",
        feature=others_are_far,
        label=distance,
        max_length={"train": 5.0, "val": 5.0, "test": 10.0},
        aggregation="min",
        readings=("three_edges", "exact_within_three", "exact"),
    )
)
