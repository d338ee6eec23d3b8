"""Real graphs with the labels of generated ones: what models trained on random graphs make of them."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.data.tudataset import tudataset
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import EVALUATION_BATCH, EVALUATION_PAIRS, Exam
from gnpool.lab.running.data import CACHE
from gnpool.tasks import GraphTask, Task
from gnpool.tasks.graphs import Graph
from gnpool.training import Batch, Batches

REAL = ("D&D", "PROTEINS", "NCI1")
#: Graphs in which every node has a neighbour, of all: the others have no harmonic label and are left out.
COUNTS = {"D&D": 1178, "PROTEINS": 1108, "NCI1": 3711}
SQUARES = {"D&D": 155_000, "PROTEINS": 3_600, "NCI1": 1_100}  # mean of the squared number of nodes, for estimates


@functools.cache
def real_graphs(name: str) -> tuple[Graph, ...]:
    """The graphs of a data set in which every node has a neighbour, without features."""
    found = [as_graph(data) for data in tudataset(name)]
    return tuple(graph for graph in found if graph.degree.min() > 0)


def as_graph(data: Data) -> Graph:
    """An undirected graph of PyG with its edges once per direction, sorted."""
    source, destination = data.edge_index.numpy()
    nodes = int(data.num_nodes or 0)
    keys = np.unique(destination.astype(np.int64) * nodes + source)
    return Graph(nodes, np.stack((keys % nodes, keys // nodes)))


def real_dataset(task: Task, name: str, count: int | None = None) -> list[Data]:
    """Real graphs with the labels of a graph task and the constant 1 as their feature, the smallest first.

    ``count`` takes so many of them, evenly from all sizes.
    """
    if not isinstance(task, GraphTask):
        raise ValueError(f"real graphs have labels of graph tasks alone, and {task.name!r} is none")
    graphs = sorted(real_graphs(name), key=lambda graph: graph.nodes)
    if count is not None and count < len(graphs):
        graphs = [graphs[int(k)] for k in np.linspace(0, len(graphs) - 1, count).round()]
    return [
        Data(
            x=torch.ones(graph.nodes, task.in_channels),
            edge_index=torch.from_numpy(graph.edges),
            y=torch.tensor([task.label(graph)], dtype=torch.float64),
        )
        for graph in graphs
    ]


def by_size(graphs: Sequence[Data], most: int, pairs: int) -> Iterator[list[Data]]:
    """Graphs, the smallest first, in lists of at most ``most`` whose padded squares are at most ``pairs`` together."""
    part: list[Data] = []
    for graph in graphs:
        nodes = int(graph.num_nodes or 0)
        if part and (len(part) == most or (len(part) + 1) * nodes**2 > pairs):
            yield part
            part = []
        part.append(graph)
    if part:
        yield part


def statistics_of(name: str) -> dict[str, float]:
    """The row of a data set in the table of statistics, of all its graphs."""
    graphs = [as_graph(data) for data in tudataset(name)]
    return {
        "number_of_graphs": float(len(graphs)),
        "average_nodes": statistics.fmean(graph.nodes for graph in graphs),
        "average_edges": statistics.fmean(graph.edges.shape[1] / 2 for graph in graphs),
    }


@dataclass(frozen=True)
class RealExam(Exam):
    """A data set of real graphs, called ``real``, that models are tested on."""

    real: str = REAL[0]

    @property
    def given(self) -> str | None:
        return self.real

    def name(self, task: Task) -> str:
        return self.real

    def square(self, task: Task) -> float:
        return SQUARES[self.real]

    def size(self, preset: Preset, task: Task) -> int:
        return min(COUNTS[self.real], preset.counts.get("test", COUNTS[self.real]))

    def dataset(self, task: Task, preset: Preset) -> list[Data]:
        return real_dataset(task, self.real, self.size(preset, task))

    def batches(self, task: Task, preset: Preset) -> Iterator[Batch]:
        def make() -> list[Batches]:
            # Sizes of real graphs differ by a factor of a hundred: alike ones go together.
            parts = by_size(self.dataset(task, preset), EVALUATION_BATCH, EVALUATION_PAIRS)
            return [Batches(part, len(part), seed=None, sorted_edges=True) for part in parts]

        for part in CACHE.held(repr((task.name, self.real, self.size(preset, task))), make):
            yield from part
