"""Graphs in a stack, for the tests of networks and of GNP there."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from gnpool.models.stacked.replicas import Neighbors, stack_of_one

CHANNELS = 5


def random_batch(sizes: tuple[int, ...] = (7, 1, 12, 5), seed: int = 0) -> Batch:
    torch.manual_seed(seed)
    graphs = []
    for n in sizes:
        edges = to_undirected(erdos_renyi_graph(n, 0.4), num_nodes=n) if n > 1 else torch.empty(2, 0, dtype=torch.long)
        graphs.append(Data(x=torch.rand(n, CHANNELS, dtype=torch.float64), edge_index=edges, num_nodes=n))
    return Batch.from_data_list(graphs)


def neighbors() -> tuple[Tensor, Neighbors]:
    torch.manual_seed(4)
    batch = random_batch((6, 9))
    x = torch.randn(15, 6, dtype=torch.float64)
    x[batch.batch == 1] *= 1e-3  # the smallest values of the network are far from the largest
    x[:6, 5] = -1.0  # a graph without anything above the tolerance in a negative channel
    return x, stack_of_one(x, batch.edge_index, batch.batch).edges
