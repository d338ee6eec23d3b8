"""Batches cut from flat arrays, without an object for each graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnpool.data import GraphTable
from gnpool.training.batches import EDGES, TRANSPOSE, Batches, _starts


class FlatBatches(Batches):
    """:class:`gnpool.Batches` of a table; the same batches as from a list of ``Data`` with ``sorted_edges=True``.

    Args:
        table (GraphTable): The graphs.
        x (torch.Tensor): Their features, (N, d).
        y (torch.Tensor, optional): Their targets, (G,) or (N,).
        batch_size (int): Graphs in a batch.
        seed (int, optional): Seed of the shuffling; ``None`` keeps the given order.
        loops (bool): Whether every node gets an edge to itself.
        edge_attr (torch.Tensor, optional): Features of the edges, (E, d), in the order of the table; not with loops.
        weight (torch.Tensor, optional): Weights of the items with a target; items of weight 0 do not count.
    """

    def __init__(
        self,
        table: GraphTable,
        x: Tensor,
        y: Tensor | None,
        batch_size: int,
        seed: int | None,
        loops: bool = False,
        edge_attr: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> None:
        self.batch_size, self.seed, self.sorted_edges = batch_size, seed, True
        self.count = len(table.sizes)
        self.nodes = torch.from_numpy(table.sizes)
        self.max_nodes = int(self.nodes.max())
        self.first_node = _starts(self.nodes)
        self.has_edges = table.edge_index is not None
        self.levels = {"x": "node"}
        self.values = {"x": x}
        if y is not None:
            self.levels["y"], self.values["y"] = table.level, y
        if weight is not None:
            self.levels["weight"], self.values["weight"] = table.level, weight
        self.edges = torch.zeros_like(self.nodes)
        if table.edge_index is not None:
            self._add_edges(table, loops)
            if edge_attr is not None:
                self.levels["edge_attr"], self.values["edge_attr"] = "edge", edge_attr
        self.first_edge = _starts(self.edges)

    def _add_edges(self, table: GraphTable, loops: bool) -> None:
        edges = table.edge_index
        assert edges is not None
        nodes = int(table.sizes.sum())
        if loops:
            edges = edges[:, edges[0] != edges[1]]
            edges = np.concatenate([edges, np.tile(np.arange(nodes), (2, 1))], axis=1)
            edges = edges[:, np.argsort(edges[1] * nodes + edges[0], kind="stable")]
        graph = np.searchsorted(table.first, edges[1], side="right") - 1
        counts = np.bincount(graph, minlength=self.count)
        order = np.argsort(edges[0] * nodes + edges[1], kind="stable")  # by source; this keeps graphs together
        first = np.cumsum(counts) - counts
        self.edges = torch.from_numpy(counts)
        self.values[EDGES] = torch.from_numpy(edges - table.first[graph])
        self.values[TRANSPOSE] = torch.from_numpy(order - first[graph])
        self.levels[EDGES] = self.levels[TRANSPOSE] = "edge"
