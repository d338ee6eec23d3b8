"""SAGPool, hierarchical, in a dense form."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import DenseGCNConv

from gnpool.models.networks.parts import Network
from gnpool.models.poolings.segments import Segments
from gnpool.models.poolings.slot import plain
from gnpool.ops.layout import checking


class SAGPoolNet(Network):
    r"""The hierarchical network of `"Self-Attention Graph Pooling" <https://arxiv.org/abs/1904.08082>`_ with a real
    output.

    Each of three blocks is a graph convolution with ReLU, then a convolution to one channel, the score: the
    :math:`\lceil r n \rceil` nodes of largest score stay, multiplied by its tanh, with the edges among them. Readouts
    of the blocks, max and mean of the nodes that stay, are added up; three fully connected layers follow.

    Graphs are laid out as (G, M) with M the largest size and adjacency as (G, M, M): the network is meant for batches
    of graphs of similar and moderate size. How many nodes stay depends on sizes alone, and so do all shapes: many
    models with different scores run at once. Values are those of PyG's
    :class:`~torch_geometric.nn.GCNConv` and :class:`~torch_geometric.nn.SAGPooling`, whose weights fit. Of nodes with
    equal scores the first stay.

    Args:
        in_channels (int): Number of node features.
        hidden (int, optional): Number of hidden channels h. (default: ``128``)
        ratio (float, optional): The share r of the nodes that stays in each block. (default: ``0.5``)
        blocks (int, optional): Number of blocks. (default: ``3``)
        out_channels (int, optional): Number of outputs. (default: ``1``)
        dropout (float, optional): Dropout after the first fully connected layer. Its authors' classifier has 0.5; for a
            regression it is noise on the output, so that it is off. (default: ``0.0``)

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)`, batch :math:`(N)` sorted, ptr :math:`(G + 1)`
        - **output:** :math:`(G, d_{out})`

    Example:
        >>> import torch
        >>> from gnpool.models import SAGPoolNet
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> SAGPoolNet(1)(torch.ones(4, 1), edge_index, ptr=torch.tensor([0, 2, 4])).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        in_channels: int,
        *,
        hidden: int = 128,
        ratio: float = 0.5,
        blocks: int = 3,
        out_channels: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 < ratio <= 1:
            raise ValueError(f"SAGPoolNet: 'ratio' must lie in (0, 1], got {ratio}")
        if not 0 <= dropout < 1:
            raise ValueError(f"SAGPoolNet: 'dropout' must lie in [0, 1), got {dropout}")
        self.in_channels, self.hidden, self.ratio, self.dropout = in_channels, hidden, ratio, dropout
        widths = [in_channels, *[hidden] * (blocks - 1)]
        self.convs = torch.nn.ModuleList(DenseGCNConv(width, hidden) for width in widths)
        self.scores = torch.nn.ModuleList(DenseGCNConv(hidden, 1) for _ in widths)
        self.lin1 = torch.nn.Linear(2 * hidden, hidden)
        self.lin2 = torch.nn.Linear(hidden, hidden // 2)
        self.out = torch.nn.Linear(hidden // 2, out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
        max_nodes: int | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all nodes are one graph. Arguments as in :class:`GraphNet`."""
        graphs = Segments(x, batch, ptr, batch_size, max_nodes)
        adjacency = dense_adjacency(plain(edge_index), graphs, x.dtype)  # (G, M, M), with loops
        h, held, sizes = graphs.dense(x), graphs.mask, graphs.sizes
        total: Tensor | float = 0.0
        for conv, to_score in zip(self.convs, self.scores, strict=True):
            h = conv(h, adjacency, add_loop=False).relu()
            score = to_score(h, adjacency, add_loop=False).squeeze(-1)  # (G, M)
            sizes = (self.ratio * sizes.to(x.dtype)).ceil().long()
            places = _places(self.ratio, held.size(1))
            chosen = _largest(score, held, sizes, places).to(x.dtype)  # (G, P, M)
            h = chosen @ (h * score.tanh()[..., None])
            adjacency = chosen @ adjacency @ chosen.mT
            held = torch.arange(places, device=sizes.device) < sizes[:, None]  # (G, P), of all replicas
            total = total + _readout(h, held, sizes)
        h = F.dropout(self.lin1(total).relu(), self.dropout, self.training) if self.dropout else self.lin1(total).relu()
        y: Tensor = self.out(self.lin2(h).relu())
        return y

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, hidden={self.hidden}, ratio={self.ratio}, "
            f"blocks={len(self.convs)}, dropout={self.dropout})"
        )


def dense_adjacency(edge_index: Tensor, graphs: Segments, dtype: torch.dtype) -> Tensor:
    """How many edges lead from column to row, (G, M, M), and exactly one loop at each node."""
    source, destination = edge_index
    graph, M = graphs.index, graphs.longest
    if not torch.compiler.is_compiling() and checking(edge_index) and bool((graph[source] != graph[destination]).any()):
        raise ValueError("'edge_index' must not connect different graphs of 'batch'")
    place = torch.arange(graphs.rows, device=graph.device) - graphs.ptr[graph]  # of a node in its graph
    flat = (graph[destination] * M + place[destination]) * M + place[source]
    counts = torch.zeros(graphs.count * M * M, dtype=dtype, device=edge_index.device)
    counts = counts.index_add(0, flat, (source != destination).to(dtype)).view(graphs.count, M, M)
    return counts + torch.diag_embed(graphs.mask.to(dtype))


def _places(ratio: float, longest: int) -> int:
    """What the rounded ``ratio`` of no size up to ``longest`` exceeds, in whatever precision that is computed."""
    return min(longest, math.floor(ratio * longest * (1 + 1e-6)) + 1)


def _largest(score: Tensor, held: Tensor, sizes: Tensor, places: int) -> Tensor:
    """(G, P, M): which node (of M) comes to which place (of P), so that those of the ``sizes`` (G) largest scores stay,
    in their order; of equal ones the first.
    """
    mine, other = score[:, :, None], score[:, None, :]
    before = torch.ones(2 * score.shape[-1:], dtype=torch.bool, device=score.device).tril(-1)
    ahead = ((other > mine) | ((other == mine) & before)) & held[:, None, :]
    kept = held & (ahead.sum(2) < sizes[:, None])  # (G, M); to count takes less time than to sort
    place = kept.cumsum(1) - 1
    return kept[:, None, :] & (place[:, None, :] == torch.arange(places, device=score.device)[:, None])


def _readout(h: Tensor, held: Tensor, sizes: Tensor) -> Tensor:
    """Max and mean over the nodes there are, (G, P, D) -> (G, 2D); 0 for a graph without nodes."""
    largest = torch.where(held[..., None], h, -torch.inf).amax(dim=1)
    largest = torch.where(sizes[:, None] > 0, largest, 0.0)
    return torch.cat([largest, h.sum(dim=1) / sizes[:, None].clamp(min=1)], dim=-1)
