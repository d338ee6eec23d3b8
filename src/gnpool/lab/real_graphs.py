"""Real graphs with the labels of the synthetic tasks: what models trained on random graphs make of them."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.data.tudataset import tudataset
from gnpool.tasks import GraphTask, Task
from gnpool.tasks.graphs import Graph

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


CHOSEN = ("ours", "setting", "validation", "search", "form")  # what a cell tells of the models behind it


def with_best(cells: Sequence[Mapping[str, Any]], paper: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """The rows of real_baselines that the paper shows, each the baseline of lowest test error, before all others.

    ``cells`` have rows "task/model". "Best" is among all baselines of a task; for maxdegree the ideal combination is
    sum, max, and the second best is among the other combinations of a fixed aggregation and a fixed readout. While
    one of them is still to be run there is no best.
    """
    shown: list[dict[str, Any]] = []
    for row in dict.fromkeys(row for row, _ in paper):
        task = row.split(" ")[0]
        for column in REAL:
            mine = [c for c in cells if c["column"] == column and c["row"].split("/")[0] == task]
            if "ideal" in row:
                mine = [c for c in mine if c["row"].endswith("/sum,max")]
            elif "2nd" in row:
                mine = [c for c in mine if "," in c["row"] and not c["row"].endswith("/sum,max")]
            done = [c for c in mine if c["ours"] and c["ours"]["mean"] is not None]
            complete = all(c["ours"] for c in mine)
            best = min(done, key=lambda c: float(c["ours"]["mean"]), default=None) if complete else None
            entry: dict[str, Any] = {"row": row, "column": column, "ours": None, "metric": "MAPE", "gnp": False}
            entry["paper"] = paper.get((row, column))
            if best is not None:
                entry |= {name: best[name] for name in CHOSEN if name in best}
                entry["combination"] = best["row"].split("/", 1)[1]
            shown.append(entry)
    return [*shown, *map(dict, cells)]
