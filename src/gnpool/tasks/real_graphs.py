"""Real graphs with the labels of generated ones, and their statistics."""

from __future__ import annotations

import functools
import statistics

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.data.tudataset import tudataset
from gnpool.tasks.graph_tasks import GraphTask
from gnpool.tasks.graphs import Graph
from gnpool.tasks.task import Task


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


def statistics_of(name: str) -> dict[str, float]:
    """The row of a data set in the table of statistics, of all its graphs."""
    graphs = [as_graph(data) for data in tudataset(name)]
    return {
        "number_of_graphs": float(len(graphs)),
        "average_nodes": statistics.fmean(graph.nodes for graph in graphs),
        "average_edges": statistics.fmean(graph.edges.shape[1] / 2 for graph in graphs),
    }
