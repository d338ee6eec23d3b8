"""Graphs as the input of the one-layer network: the sum of the neighbours' features at every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data


@dataclass(frozen=True)
class NeighborSums:
    r"""The vectors :math:`h_u = \sum_{v \in \mathcal{N}(u)} x_v` of several graphs, in double precision.

    The network of the theory uses nothing else of a graph. If every node has the feature 1, :math:`h_u` is the
    degree of u.

    Args:
        h (torch.Tensor): One row per node, (N, d).
        index (torch.Tensor): The graph of each node, sorted, (N,).
        sizes (torch.Tensor): The number of nodes of each graph, (G,).
        y (torch.Tensor): The label of each graph, (G,).

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import neighbor_sums
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("train", count=3))
        >>> len(graphs), graphs.channels, len(graphs.h) == int(graphs.sizes.sum())
        (3, 1, True)
    """

    h: Tensor
    index: Tensor
    sizes: Tensor
    y: Tensor

    def __len__(self) -> int:
        return self.sizes.numel()

    @property
    def channels(self) -> int:
        """The number d of node features."""
        return self.h.size(1)


def neighbor_sums(dataset: Sequence[Data]) -> NeighborSums:
    r"""Sum the features of the neighbours of every node of a list of graphs.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import neighbor_sums
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("test", structure="ladder", sizes=(6, 7), count=1))
        >>> graphs.h.flatten().tolist(), round(graphs.y.item(), 4)
        ([2.0, 3.0, 2.0, 2.0, 3.0, 2.0], 0.375)
    """
    if not dataset:
        raise ValueError("'dataset' must hold one graph at least, got none")
    sums = []
    for graph in dataset:
        source, destination = graph.edge_index
        x = graph.x.double()
        sums.append(torch.zeros_like(x).index_add_(0, destination, x[source]))
    sizes = torch.tensor([h.size(0) for h in sums])
    return NeighborSums(
        h=torch.cat(sums),
        index=torch.repeat_interleave(torch.arange(len(sums)), sizes),
        sizes=sizes,
        y=torch.cat([graph.y.double() for graph in dataset]),
    )


def join(parts: Sequence[NeighborSums]) -> NeighborSums:
    """Join several collections of graphs in the given order.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import join, neighbor_sums
        >>> task = get_task("harmonic")
        >>> small, large = (neighbor_sums(task.dataset(split, count=2)) for split in ("train", "test"))
        >>> len(join([small, large]))
        4
    """
    starts = [0]
    for part in parts[:-1]:
        starts.append(starts[-1] + len(part))
    return NeighborSums(
        h=torch.cat([part.h for part in parts]),
        index=torch.cat([part.index + start for part, start in zip(parts, starts, strict=True)]),
        sizes=torch.cat([part.sizes for part in parts]),
        y=torch.cat([part.y for part in parts]),
    )
