"""ASAPool as its authors use it to classify graphs, and its variant with GNP."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gnpool.models.stacked.classifier import StackedClassifier, check_options
from gnpool.models.stacked.coarsen import coarsen
from gnpool.models.stacked.gnp import gnp
from gnpool.models.stacked.replicas import (
    Dice,
    Graphs,
    GraphStack,
    Neighbors,
    affine,
    dropout,
    largest,
    pick,
    propagate,
)
from gnpool.models.stacked.sag import Readout, convolve, make_conv
from gnpool.nn import GNPAggregation

SLOPE = 0.2  # slope of the leaky ReLU on attention scores


class LocalExtrema(torch.nn.Module):
    r"""LEConv in its authors' form, without self-loops: :math:`d_i \, \mathrm{lin1}(x_i) + \sum_{j \ne i} \Theta x_j +
    \mathrm{lin2}(x_i)`, for one output channel.

    PyG's layer subtracts inside the sum and keeps self-loops; both layers can represent the same functions.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.theta = torch.nn.Linear(channels, 1, bias=False)
        self.lin1 = torch.nn.Linear(channels, 1)
        self.lin2 = torch.nn.Linear(channels, 1)

    def forward(self, x: Tensor, edges: Neighbors) -> Tensor:
        degree = (edges.ptr.diff() - 1).clamp(min=0).to(x.dtype).view(x.size(0), -1, 1)
        sent = affine(self.theta, x)
        return degree * affine(self.lin1, x) + propagate(sent, edges, symmetric=True) - sent + affine(self.lin2, x)


class ASAPooling(torch.nn.Module):
    """ASAPool: a cluster around every node, attention inside it, a choice of the fittest, and the graph of clusters."""

    def __init__(self, channels: int, pooling: str, ratio: float, attention_dropout: float) -> None:
        super().__init__()
        self.ratio, self.dropout = ratio, attention_dropout
        self.gnn_intra_cluster = make_conv(pooling, channels, channels, "relu")
        self.query = GNPAggregation(channels, coordinates="published", bias=True) if pooling == "gnp" else None
        self.value = GNPAggregation(channels, coordinates="published", bias=True) if pooling == "gnp" else None
        self.lin = torch.nn.Linear(channels, channels)
        self.att = torch.nn.Linear(2 * channels, 1)
        self.fitness = LocalExtrema(channels)

    def forward(
        self, x: Tensor, graphs: Graphs, edges: Neighbors, last: bool, dice: Dice | None
    ) -> tuple[Tensor, Graphs, Neighbors]:
        """The clusters that stay, and their edges; the ``last`` block needs no edges."""
        inside = convolve(self.gnn_intra_cluster, x, edges)
        most = largest(inside, edges) if self.query is None else gnp(self.query, inside, edges)
        score = self._attention(affine(self.lin, most), inside, edges)
        score = self._drop(score, edges, dice)
        value = propagate(x, edges, score) if self.value is None else gnp(self.value, x, edges, score)
        fitness = self.fitness(value, edges).sigmoid().squeeze(-1)  # (R, N)
        kept, rows = graphs.keep(fitness, self.ratio)
        h = kept.spread(pick(value, rows) * pick(fitness, rows)[:, None])
        return h, kept, edges if last else coarsen(edges, score.detach(), kept, rows)

    def _attention(self, query: Tensor, inside: Tensor, edges: Neighbors) -> Tensor:
        """The weight of each edge (E) in its destination's cluster; two layers on nodes compute the one on pairs."""
        weight, bias = self.att.weight, self.att.bias
        channels = query.size(-1)
        of_query = _dot(query, weight[..., :channels])  # (R, N)
        of_member = _dot(inside, weight[..., channels:]) + bias
        raw = F.leaky_relu(pick(of_query, edges.row) + pick(of_member, edges.col), SLOPE)
        top = torch.full((edges.rows,), -torch.inf, device=raw.device, dtype=raw.dtype)
        top = top.scatter_reduce(0, edges.row, raw.detach(), "amax")
        power = (raw - top.index_select(0, edges.row)).exp()
        total = torch.zeros_like(top).index_add(0, edges.row, power)
        return power / total.index_select(0, edges.row)

    def _drop(self, score: Tensor, edges: Neighbors, dice: Dice | None) -> Tensor:
        if not self.training or self.dropout == 0:
            return score
        if dice is None:
            return F.dropout(score, self.dropout, True)
        keep = dice.keep(edges.place, edges.row // edges.graphs.width, self.dropout)
        return torch.where(keep, score / (1 - self.dropout), 0.0)


class ASAPClassifier(StackedClassifier):
    r"""The classifier of `"ASAP: Adaptive Structure Aware Pooling" <https://arxiv.org/abs/1911.07979>`_, or its
    variant with :class:`gnpool.GNPAggregation` for every pooling but those inside LEConv.

    Each of three blocks is a graph convolution with ReLU and ASAPool. Every node is the centre of a cluster of itself
    and its neighbours. A query, the maximum of an inner convolution over the cluster, weighs its members. The
    :math:`\lceil r n \rceil` clusters of largest fitness stay, and are joined if their members are. The readouts (mean
    and max) of the blocks are added, and two linear layers compute the logarithms of the class probabilities.

    With ``pooling="gnp"`` GNP replaces the sums of the six convolutions, the maximum in the query, the
    sum over members, :math:`\mathrm{GNP}_j (a_j \mathrm{ReLU}(x_j))`, and the readouts.

    PyG's :class:`~torch_geometric.nn.ASAPooling` differs in LEConv; see :class:`LocalExtrema`.

    Args:
        in_channels (int): Number of node features.
        classes (int): Number of classes.
        pooling (str, optional): ``"original"`` or ``"gnp"``. (default: ``"original"``)
        hidden (int, optional): Number of hidden channels. (default: ``128``)
        ratio (float, optional): The share of clusters that stays in each block. (default: ``0.5``)
        dropout (float, optional): Dropout after the first linear layer. (default: ``0.5``)
        attention_dropout (float, optional): Dropout of attention. (default: ``0.0``)

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)` of undirected graphs, batch :math:`(N)` sorted
        - **output:** :math:`(G, classes)`, log-probabilities

    Example:
        >>> import torch
        >>> from gnpool.models import ASAPClassifier
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> ASAPClassifier(2, 3, pooling="gnp")(torch.ones(4, 2), edge_index).shape
        torch.Size([1, 3])
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
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_options("ASAPClassifier", pooling, ratio, dropout)
        self.in_channels, self.classes, self.pooling = in_channels, classes, pooling
        self.hidden, self.ratio, self.dropout, self.attention_dropout = hidden, ratio, dropout, attention_dropout
        widths = [in_channels, hidden, hidden]
        self.convs = torch.nn.ModuleList(make_conv(pooling, width, hidden, "relu") for width in widths)
        self.pools = torch.nn.ModuleList(ASAPooling(hidden, pooling, ratio, attention_dropout) for _ in widths)
        self.readouts = torch.nn.ModuleList(Readout(pooling, hidden, "relu", max_first=False) for _ in widths)
        self.lin1 = torch.nn.Linear(hidden if pooling == "gnp" else 2 * hidden, hidden)
        self.lin2 = torch.nn.Linear(hidden, classes)

    def classify(self, stack: GraphStack, dice: Dice | None) -> Tensor:
        h, graphs, edges = stack.x, stack.graphs, stack.edges
        total = torch.zeros((), device=h.device)
        for block, (conv, pool, readout) in enumerate(zip(self.convs, self.pools, self.readouts, strict=True)):
            h = convolve(conv, h, edges).relu()
            h, graphs, edges = pool(h, graphs, edges, block == len(self.convs) - 1, dice)
            total = total + readout(h, graphs)
        h = dropout(affine(self.lin1, total).relu(), self.dropout, self.training, dice)
        return affine(self.lin2, h).log_softmax(-1)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.classes}, pooling={self.pooling!r}, "
            f"hidden={self.hidden}, ratio={self.ratio}, dropout={self.dropout}, "
            f"attention_dropout={self.attention_dropout})"
        )


def _dot(x: Tensor, weight: Tensor) -> Tensor:
    """x (R, N, D) times a row of weights (1, D) or (R, 1, D) -> (R, N)."""
    return torch.matmul(x, weight.transpose(-1, -2)).squeeze(-1)
