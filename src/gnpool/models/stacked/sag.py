"""Hierarchical SAGPool as its authors use it to classify graphs, and its variant with GNP."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from gnpool.models.stacked.classifier import StackedClassifier, check_options
from gnpool.models.stacked.gnp import gnp
from gnpool.models.stacked.replicas import (
    Dice,
    Graphs,
    GraphStack,
    Neighbors,
    affine,
    dropout,
    largest,
    matmul,
    pick,
    propagate,
)
from gnpool.nn import GNPAggregation

# Remaining nodes are multiplied by the tanh of their score. If it is negative for all of them, a ReLU would silence the
# network for good, so the definition takes the absolute value.
NONNEG = "abs"


class GNPLayer(torch.nn.Module):
    r"""A graph convolution with GNP in place of its sum: :math:`W \, \mathrm{GNP}_{u \in N(v) \cup v} (w_{uv} x_u)
    + b`, with x made non-negative as ``nonneg`` of :class:`gnpool.GNPAggregation` says.

    GNP stands before the linear map, so that a convolution with a single output channel still pools all input channels.
    """

    def __init__(self, in_channels: int, out_channels: int, nonneg: str) -> None:
        super().__init__()
        self.aggr = GNPAggregation(in_channels, coordinates="published", bias=True, nonneg=nonneg)
        self.lin = torch.nn.Linear(in_channels, out_channels)

    def pooled(self, x: Tensor, edges: Neighbors) -> Tensor:
        """Apply the convolution to a stack, (R, N, D) -> (R, N, D')."""
        return affine(self.lin, gnp(self.aggr, x, edges, edges.weight))


def make_conv(pooling: str, in_channels: int, out_channels: int, nonneg: str) -> torch.nn.Module:
    """The convolution of a variant: PyG's, whose weights are used on stacks, or the one with GNP."""
    return GNPLayer(in_channels, out_channels, nonneg) if pooling == "gnp" else GCNConv(in_channels, out_channels)


def convolve(conv: torch.nn.Module, x: Tensor, edges: Neighbors) -> Tensor:
    """Apply a convolution to a stack; it sums before or after the product, on whichever has fewer channels."""
    if isinstance(conv, GNPLayer):
        return conv.pooled(x, edges)
    assert isinstance(conv, GCNConv)
    weight, bias = conv.lin.weight, conv.bias
    if weight.size(-1) < weight.size(-2):
        return matmul(propagate(x, edges, edges.normalized, symmetric=True), weight, bias)
    out = propagate(matmul(x, weight), edges, edges.normalized, symmetric=True)
    return out + (bias if bias.dim() == 1 else bias[:, None])


class Readout(torch.nn.Module):
    """Mean and max of the nodes of each graph, concatenated, or one GNP."""

    def __init__(self, pooling: str, channels: int, nonneg: str, max_first: bool) -> None:
        super().__init__()
        self.max_first = max_first
        self.aggr = (
            GNPAggregation(channels, coordinates="published", bias=True, nonneg=nonneg) if pooling == "gnp" else None
        )

    def forward(self, x: Tensor, graphs: Graphs) -> Tensor:
        if self.aggr is not None:
            return gnp(self.aggr, x, graphs.pattern)
        mean = propagate(x, graphs.pattern) / graphs.counts.clamp(min=1).view(graphs.parts, -1, 1)
        most = largest(x, graphs.pattern)
        return torch.cat([most, mean] if self.max_first else [mean, most], dim=-1)


class SAGClassifier(StackedClassifier):
    r"""The hierarchical classifier of `"Self-Attention Graph Pooling" <https://arxiv.org/abs/1904.08082>`_, or its
    variant with :class:`gnpool.GNPAggregation` for every pooling.

    Each of three blocks is a graph convolution with ReLU and a convolution to one channel, the score. The
    :math:`\lceil r n \rceil` nodes of largest score stay, multiplied by its tanh, with the edges among them. The
    readouts of the blocks are added, and three linear layers compute the logarithms of the class probabilities.

    With ``pooling="gnp"`` GNP replaces the sum in all six convolutions (a linear map follows it, and there is
    no normalisation by degrees, which :math:`n^{-q}` can learn). It also replaces max and mean in the readouts, so that
    the first linear layer has half the inputs.

    The original computes the same values as PyG's :class:`~torch_geometric.nn.GCNConv` and
    :class:`~torch_geometric.nn.SAGPooling`. The network also runs on a
    :class:`~gnpool.models.stacked.replicas.GraphStack`, with parameters that have a leading dimension for the networks.

    Args:
        in_channels (int): Number of node features.
        classes (int): Number of classes.
        pooling (str, optional): ``"original"`` or ``"gnp"``. (default: ``"original"``)
        hidden (int, optional): Number of hidden channels. (default: ``128``)
        ratio (float, optional): The share of the nodes that stays in each block. (default: ``0.5``)
        dropout (float, optional): Dropout after the first linear layer. (default: ``0.5``)

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)` of undirected graphs, batch :math:`(N)` sorted
        - **output:** :math:`(G, classes)`, log-probabilities

    Example:
        >>> import torch
        >>> from gnpool.models import SAGClassifier
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> out = SAGClassifier(2, 3)(torch.ones(4, 2), edge_index, torch.tensor([0, 0, 1, 1]))
        >>> out.shape, out[0].exp().sum().item()
        (torch.Size([2, 3]), 1.0)
    """

    def __init__(
        self,
        in_channels: int,
        classes: int,
        *,
        pooling: str = "original",
        hidden: int = 128,
        ratio: float = 0.5,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        check_options("SAGClassifier", pooling, ratio, dropout)
        self.in_channels, self.classes, self.pooling = in_channels, classes, pooling
        self.hidden, self.ratio, self.dropout = hidden, ratio, dropout
        widths = [in_channels, hidden, hidden]
        self.convs = torch.nn.ModuleList(make_conv(pooling, width, hidden, NONNEG) for width in widths)
        self.scores = torch.nn.ModuleList(make_conv(pooling, hidden, 1, NONNEG) for _ in widths)
        self.readouts = torch.nn.ModuleList(Readout(pooling, hidden, NONNEG, max_first=True) for _ in widths)
        self.lin1 = torch.nn.Linear(hidden if pooling == "gnp" else 2 * hidden, hidden)
        self.lin2 = torch.nn.Linear(hidden, hidden // 2)
        self.lin3 = torch.nn.Linear(hidden // 2, classes)

    def classify(self, stack: GraphStack, dice: Dice | None) -> Tensor:
        h, graphs, edges = stack.x, stack.graphs, stack.edges
        total = torch.zeros((), device=h.device)
        for block, (conv, to_score, readout) in enumerate(zip(self.convs, self.scores, self.readouts, strict=True)):
            h = convolve(conv, h, edges).relu()
            score = convolve(to_score, h, edges).squeeze(-1)  # (R, N)
            kept, rows = graphs.keep(score, self.ratio)
            chosen = pick(h, rows) * pick(score, rows).tanh()[:, None]
            if block < len(self.convs) - 1:
                edges = edges.among(kept, rows)
            h, graphs = kept.spread(chosen), kept
            total = total + readout(h, graphs)
        h = dropout(affine(self.lin1, total).relu(), self.dropout, self.training, dice)
        return affine(self.lin3, affine(self.lin2, h).relu()).log_softmax(-1)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.classes}, pooling={self.pooling!r}, "
            f"hidden={self.hidden}, ratio={self.ratio}, dropout={self.dropout})"
        )
