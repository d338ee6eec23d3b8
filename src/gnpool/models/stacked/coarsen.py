r"""The graph of clusters, :math:`S^\top A \, S`, for many graphs at once."""

from __future__ import annotations

import torch
from torch import Tensor

from gnpool.models.stacked.replicas import Graphs, Neighbors


def coarsen(edges: Neighbors, score: Tensor, kept: Graphs, rows: Tensor) -> Neighbors:
    r"""Edges between the clusters that stay, weighted by how strongly their members are joined, and loops of weight 1.

    The two products of sparse matrices are computed as sorted and summed pairs of entries. No gradient passes.

    Args:
        edges (Neighbors): The graph A, with loops.
        score (torch.Tensor): S: how much the source of each edge belongs to the cluster of its destination, (E).
        kept (Graphs): Where the remaining clusters stand.
        rows (torch.Tensor): The rows of their centres before.
    """
    number = torch.full((edges.columns,), -1, device=rows.device).index_copy(0, rows, kept.members)
    cluster = number[edges.row]
    member = (cluster >= 0).nonzero().squeeze(1)
    cluster, node, share = cluster[member], edges.col[member], score[member]  # entries of S, sorted by cluster

    # A S, as pairs (k in cluster, neighbour j of k): a row of A holds the edges into k, and A is symmetric.
    pair, entry = _pairs(edges.ptr, node)
    weight = share[pair] if edges.weight is None else share[pair] * edges.weight[entry]
    reached, joined = _merged(edges.col[entry], cluster[pair], weight, kept.rows)

    # S^T (A S), as pairs (j reached from a cluster, cluster that holds j): S sorted by node.
    by_node = node.argsort(stable=True)
    ptr = torch.searchsorted(node[by_node], torch.arange(edges.columns + 1, device=node.device))
    pair, entry = _pairs(ptr, reached[0])
    entry = by_node[entry]
    (row, col), weight = _merged(cluster[entry], reached[1][pair], share[entry] * joined[pair], kept.rows)
    off = (row != col).nonzero().squeeze(1)
    loops = kept.members
    row, col = torch.cat([row[off], loops]), torch.cat([col[off], loops])
    weight = torch.cat([weight[off], torch.ones_like(loops, dtype=weight.dtype)])
    order = (row * kept.rows + col).argsort()
    return Neighbors(row[order], col[order], kept, weight[order])


def _pairs(ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """All entries of row ``index[i]`` for every i, concatenated: i and the entry."""
    counts = ptr.diff()[index]
    pair = torch.arange(index.numel(), device=index.device).repeat_interleave(counts)
    ends = counts.cumsum(0)
    entry = torch.arange(pair.numel(), device=index.device) + (ptr[index] - ends + counts)[pair]
    return pair, entry


def _merged(first: Tensor, second: Tensor, values: Tensor, columns: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Sums of the entries at equal places, sorted by place."""
    key, order = (first * columns + second).sort()
    place, inverse = key.unique_consecutive(return_inverse=True)
    total = torch.zeros(place.numel(), dtype=values.dtype, device=values.device).index_add(0, inverse, values[order])
    return (place // columns, place % columns), total
