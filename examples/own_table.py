"""Your own task, pooling and table for the command line: ``gnpool --load own_table reproduce edges``.

Can a network that was trained on random graphs of 20 to 29 nodes tell the number of edges per node of larger ones? Run
it in this folder, or with this folder on PYTHONPATH.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_geometric.nn.aggr import MedianAggregation

from gnpool.lab import Cell, Table, register_table
from gnpool.lab.recipes import Exam, Recipe
from gnpool.models import register_pooling
from gnpool.tasks import Graph, GraphTask, register_task


def edges_per_node(graph: Graph) -> float:
    """The label of a graph."""
    return graph.degree.mean() / 2


def recipe(readout: str, grid: str) -> Recipe:
    """A one-layer network that sums over neighbours, with a readout."""
    network = {"net": "graph", "aggr": "sum", "readout": readout}
    return Recipe("edges", f"sum,{readout}", (network,), grid)


def cells() -> Iterator[Cell]:
    """Three readouts, on two kinds of larger graphs."""
    for structure in ("er", "tree"):
        exam = Exam(structure=None if structure == "er" else structure)
        yield Cell("GNP", structure, recipe("gnp", "graph_gnp"), exam)
        yield Cell("median", structure, recipe("median", "graph_fixed"), exam)
        yield Cell("mean", structure, recipe("mean", "graph_fixed"), exam)


register_task(GraphTask(name="edges", target="edges per node", label=edges_per_node, aggregation="sum", readout="mean"))
register_pooling("median", lambda channels: MedianAggregation())
register_table(Table("edges", "Edges per node of larger graphs", "MAPE", tuple(cells())))
