"""COLORS-3 and TRIANGLES: count the green nodes, or the triangles, of graphs larger than those of the training.

Protocol of `"Understanding Attention and Generalization in Graph Neural Networks"
<https://arxiv.org/abs/1905.02850>`_.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from gnpool.tasks.arena.benchmark import Benchmark, Fields, Part, Streams
from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Floats, Ints, Stream

LARGEST_LABEL = 10
GREEN, COLOR_CHANNELS = 1, 4  # red, green, blue, and a channel that only the new colours use
SMALL_SIZES, SMALL_PER_SIZE = range(4, 26), 253
COLOR_SIZES, COLOR_PER_SIZE = range(26, 201), 22
TRIANGLE_SIZES = range(26, 101)
DEGREE_CHANNELS = 14
WAITING = 200  # at most this many graphs are kept for each label that is not due yet


def draw_gnm(nodes: int, stream: Stream) -> Graph:
    """A uniform graph of n nodes and floor((1 + u) n) edges, u of U(0, 1); at most the complete one."""
    pairs = nodes * (nodes - 1) // 2
    edges = min(pairs, int((1.0 + float(stream.uniform(()))) * nodes))
    taken = np.arange(pairs) if edges == pairs else _distinct(pairs, edges, stream)
    triangle = np.arange(nodes) * np.arange(-1, nodes - 1) // 2  # pair t joins `larger` and t - triangle[larger]
    larger = np.searchsorted(triangle, taken, side="right") - 1
    return Graph.from_pairs(nodes, larger, taken - triangle[larger])


def _distinct(high: int, count: int, stream: Stream) -> Ints:
    """``count`` different numbers below ``high``, uniform among all choices."""
    if 3 * count > high:
        return np.sort(stream.permutation(high)[:count])
    taken: dict[int, None] = {}
    while len(taken) < count:
        taken.update(dict.fromkeys(stream.integers(0, high, count - len(taken)).tolist()))
    return np.sort(np.fromiter(taken, dtype=np.int64, count=count))


def count_triangles(graph: Graph) -> int:
    """The number of triangles."""
    adjacency = np.zeros((graph.nodes, graph.nodes), dtype=np.float32)
    adjacency[graph.edges[0], graph.edges[1]] = 1.0
    return round(float(((adjacency @ adjacency) * adjacency).sum()) / 6)


def draw_colors(nodes: int, green: int, new: bool, stream: Stream) -> Floats:
    """(n, 4) colours of nodes of which ``green`` are green. The others are red or blue, or, with ``new``, of mixed
    colours without green: three fair bits, all of them 0 included.
    """
    x = np.zeros((nodes, COLOR_CHANNELS))
    order = stream.permutation(nodes)
    x[order[:green], GREEN] = 1.0
    others = order[green:]
    if new:
        x[others] = stream.integers(0, 2, COLOR_CHANNELS * others.size).reshape(-1, COLOR_CHANNELS)
        x[others, GREEN] = 0.0
    else:
        x[others, 2 * stream.integers(0, 2, others.size)] = 1.0
    return x


def _color_plan(part: str, streams: Streams) -> list[tuple[int, int]]:
    """(nodes, green nodes) of all graphs of a pool in random order, with equally many graphs of every size."""
    stream, small = streams("labels"), part in ("train", "val", "test")
    plan = []
    for nodes in SMALL_SIZES if small else COLOR_SIZES:
        labels: list[int] = []
        wanted = SMALL_PER_SIZE if small else COLOR_PER_SIZE
        while len(labels) < wanted:
            labels += stream.permutation(min(LARGEST_LABEL, nodes) + 1).tolist()
        plan += [(nodes, label) for label in labels[:wanted]]
    return [plan[k] for k in stream.permutation(len(plan))]


def _colors(part: str, count: int, streams: Streams) -> Iterator[Fields]:
    seen: set[bytes] = set()
    stream = streams("graphs")
    plan = _color_plan(part, streams)
    for number in range(count):
        nodes, green = plan[number % len(plan)]
        key = b""
        while not key or key in seen:
            x, graph = draw_colors(nodes, green, part == "large_c", stream), draw_gnm(nodes, stream)
            key = x.tobytes() + graph.edges.tobytes()
        seen.add(key)
        yield {"x": x, "edge_index": graph.edges, "y": [float(green)]}


def _triangles(part: str, count: int, streams: Streams) -> Iterator[Fields]:
    """Labels in blocks of ten, each label once. A graph whose label is not due waits until it is."""
    stream, order = streams("graphs"), streams("labels")
    sizes = TRIANGLE_SIZES if part == "large" else SMALL_SIZES
    waiting: dict[int, deque[Graph]] = {label: deque() for label in range(1, LARGEST_LABEL + 1)}
    seen: set[bytes] = set()
    due: list[int] = []
    for _ in range(count):
        due = due or (order.permutation(LARGEST_LABEL) + 1).tolist()
        label = due.pop()
        while not waiting[label]:
            graph = draw_gnm(stream.integer(sizes.start, sizes.stop), stream)
            found, key = count_triangles(graph), graph.edges.tobytes()
            if found in waiting and len(waiting[found]) < WAITING and key not in seen:
                seen.add(key)
                waiting[found].append(graph)
        graph = waiting[label].popleft()
        x = np.eye(DEGREE_CHANNELS)[np.minimum(graph.degree, DEGREE_CHANNELS - 1)]
        yield {"x": x, "edge_index": graph.edges, "y": [float(label)]}


def _benchmark(name: str, **rest: Any) -> Benchmark:
    return Benchmark(name=name, metric="accuracy, % (output rounded to a whole number)", **rest)


BENCHMARKS = (
    _benchmark(
        "colors",
        target="number of green nodes",
        in_channels=COLOR_CHANNELS,
        parts={
            "train": Part(500, "4 to 25 nodes"),
            "val": Part(2500, "4 to 25 nodes"),
            "test": Part(2500, "4 to 25 nodes"),
            "large": Part(2500, "26 to 200 nodes"),
            "large_c": Part(2500, "26 to 200 nodes, other colours than in training"),
        },
        draw=_colors,
    ),
    _benchmark(
        "triangles",
        target="number of triangles",
        in_channels=DEGREE_CHANNELS,
        parts={
            "train": Part(30000, "4 to 25 nodes"),
            "val": Part(5000, "4 to 25 nodes"),
            "test": Part(5000, "4 to 25 nodes"),
            "large": Part(5000, "26 to 100 nodes"),
        },
        draw=_triangles,
    ),
)
