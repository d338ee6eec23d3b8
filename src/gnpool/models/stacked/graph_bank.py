"""A data set of graphs as tensors on the device, which builds stacks of batches there."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.models.stacked.folds import Ids
from gnpool.models.stacked.replicas import Graphs, GraphStack, Neighbors

NONE = -1  # stands for a missing graph


class GraphBank:
    """All graphs of a data set, with their node features, edges (each once, and a loop at each node) and classes.

    Building a stack takes a few operations on the device, for any number of graphs. Sizes are known on the host, so
    that nothing waits.

    Args:
        graphs (Sequence[Data]): Undirected graphs, both directions of every edge, with ``x`` and a class ``y``.
        device (torch.device): Where they live.
    """

    def __init__(self, graphs: Sequence[Data], device: torch.device) -> None:
        if not graphs:
            raise ValueError("GraphBank: 'graphs' is empty")
        self.device = device
        self.nodes = np.array([graph.num_nodes for graph in graphs], dtype=np.int64)
        first = np.cumsum(self.nodes) - self.nodes
        total = int(self.nodes.sum())
        ends = torch.cat([graph.edge_index + int(f) for graph, f in zip(graphs, first, strict=True)], dim=1)
        loops = torch.arange(total)
        key = torch.cat([ends[1] * total + ends[0], loops * total + loops]).unique()  # by destination, then source
        row, col = key // total, key % total
        owner = torch.from_numpy(np.repeat(np.arange(len(graphs)), self.nodes))
        starts = torch.from_numpy(first)[owner]
        self.edges = np.bincount(owner[row].numpy(), minlength=len(graphs))
        self.row, self.col = (row - starts[row]).to(device), (col - starts[col]).to(device)
        self.x = torch.cat([_features(graph) for graph in graphs]).to(device)
        self.y = torch.tensor([int(graph.y) for graph in graphs]).to(device)
        self.first_node = torch.from_numpy(first).to(device)
        self.first_edge = torch.from_numpy(np.cumsum(self.edges) - self.edges).to(device)
        self.node_counts = torch.from_numpy(self.nodes).to(device)
        self.edge_counts = torch.from_numpy(self.edges).to(device)

    def to(self, device: torch.device) -> GraphBank:
        """The same graphs on another device."""
        found = copy.copy(self)
        found.device = device
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(found, name, value.to(device))
        return found

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def channels(self) -> int:
        """Node features."""
        return self.x.size(1)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1

    def stack(self, ids: Ids, on_device: Tensor | None = None) -> GraphStack:
        """The batches ``ids`` (R, G), one in each row, with -1 for no graph; ``on_device`` is a copy on the device."""
        there = torch.from_numpy(np.ascontiguousarray(ids)).to(self.device) if on_device is None else on_device
        there = there.reshape(-1)
        real, held = there >= 0, there.clamp(min=0)
        sizes = np.where(ids >= 0, self.nodes[ids], 0)
        graphs = Graphs(sizes, self.device, self.node_counts[held] * real)
        owner = graphs.owner
        source = self.first_node[held][owner] + torch.arange(graphs.total, device=self.device) - graphs.ptr[owner]
        x = graphs.spread(self.x[source])
        counts = self.edge_counts[held] * real
        total = int(np.where(ids >= 0, self.edges[ids], 0).sum())
        graph = torch.arange(there.numel(), device=self.device).repeat_interleave(counts, output_size=total)
        place = torch.arange(total, device=self.device) - (counts.cumsum(0) - counts)[graph]
        entry = self.first_edge[held][graph] + place
        begin = (graphs.ptr[:-1] + graphs.shift)[graph]  # the row of the first node of the edge's graph
        edges = Neighbors(self.row[entry] + begin, self.col[entry] + begin, graphs)
        return GraphStack(x, graphs, edges, self.y[held].view(ids.shape), real.view(ids.shape))


def _features(graph: Data) -> Tensor:
    if graph.x is None:
        raise ValueError("GraphBank: every graph must have node features 'x'")
    return graph.x.float()
