"""A deep network for graphs, with normalisation, residuals, jumping knowledge and dropout."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnpool.models.networks.norm import counting_nodes, make_norm
from gnpool.models.networks.parts import ACTIVATIONS, Network, check_activation
from gnpool.models.poolings.segments import Segments
from gnpool.models.poolings.slot import (
    Edges,
    GNPDefaults,
    Pooling,
    by_destination,
    fill,
    pool,
    pool_neighbors,
    pooled_channels,
)

JUMPING = (None, "cat", "max")


class DeepNet(Network):
    r"""Layers of the graph isomorphism network with normalisation, and a pooling slot for each of the two poolings.

    .. math::
        z^l_v = \mathrm{MLP}^l\Big((1 + \epsilon^l) \, h^{l-1}_v + \mathrm{AGG}_{u \in \mathcal{N}(v)} \,
        m^l_{uv}\Big), \qquad h^l_v = \mathrm{dropout}(\sigma(\mathrm{norm}(z^l_v))), \qquad
        \hat y = \mathrm{HEAD}(\mathrm{READOUT}_v \, h_v)

    with :math:`h^0 = x` and :math:`m^l_{uv} = h^{l-1}_u`, or :math:`\sigma(h^{l-1}_u + W^l e_{uv})` if edges have
    features. MLP is a linear map, norm, :math:`\sigma` and a linear map. The readout sees the last layer, or with
    jumping knowledge all layers. Without edge features a message depends only on its source, so that GNP and PyG's
    fixed poolings store no messages.

    Args:
        in_channels (int): Number of node features.
        aggr (str or Aggregation or callable, optional): The aggregation of every layer, see :class:`GraphNet`. Each
            layer has its own; each layer copies an aggregation that is given as a module. (default: ``"gnpg"``)
        readout (str or Aggregation or callable, optional): The readout, likewise. ``None`` gives an output for each
            node. (default: ``"gnpg"``)
        layers (int, optional): Number of layers. (default: ``3``)
        hidden (int, optional): Number of hidden channels. (default: ``64``)
        out_channels (int, optional): Number of outputs. (default: ``1``)
        expand (int, optional): Width of each MLP, as a multiple of ``hidden``. (default: ``2``)
        norm (str, optional): ``"batch"``, ``"layer"`` or ``None``. (default: ``"batch"``)
        residual (bool, optional): Whether a layer adds its input to its output, where both have as many
            channels. (default: ``False``)
        jumping (str, optional): ``"cat"`` puts the states of all layers side by side, ``"max"`` takes the largest of
            them, ``None`` takes the last. (default: ``None``)
        dropout (float, optional): Dropout after each layer. (default: ``0.0``)
        edge_channels (int, optional): Number of edge features. (default: ``0``)
        train_eps (bool, optional): Whether :math:`\epsilon`, which starts at 0, is learned. (default: ``False``)
        activation (str, optional): ``"relu"``, ``"leaky_relu"`` or ``"elu"``. (default: ``"relu"``)
        last_activation (bool, optional): Whether :math:`\sigma` also follows the last layer. (default: ``True``)
        head (int, optional): Width of a hidden layer before the output. (default: ``None``, no such layer)
        head_dropout (float, optional): Dropout after that layer. (default: ``0.0``)
        aggr_options (dict, optional): Options of an aggregation given by name.
        readout_options (dict, optional): Options of a readout given by name.

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)`, edge_attr :math:`(E, d_e)`, batch :math:`(N)` sorted
        - **output:** :math:`(G, d_{out})`, or :math:`(N, d_{out})` without readout

    Example:
        >>> import torch
        >>> from gnpool.models import DeepNet
        >>> model = DeepNet(3, "gnpg", "gnpg", layers=5, jumping="cat", out_channels=2)
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> model(torch.rand(5, 3), edge_index, torch.tensor([0, 0, 0, 1, 1])).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        in_channels: int,
        aggr: Pooling = "gnpg",
        readout: Pooling | None = "gnpg",
        *,
        layers: int = 3,
        hidden: int = 64,
        out_channels: int = 1,
        expand: int = 2,
        norm: str | None = "batch",
        residual: bool = False,
        jumping: str | None = None,
        dropout: float = 0.0,
        edge_channels: int = 0,
        train_eps: bool = False,
        activation: str = "relu",
        last_activation: bool = True,
        head: int | None = None,
        head_dropout: float = 0.0,
        aggr_options: Mapping[str, Any] | None = None,
        readout_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.activation = check_activation(activation, "DeepNet")
        for name, count in (("layers", layers), ("hidden", hidden), ("expand", expand)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"DeepNet: '{name}' must be a positive integer, got {count!r}")
        if jumping not in JUMPING:
            raise ValueError(f"DeepNet: 'jumping' must be one of {JUMPING}, got {jumping!r}")
        self.in_channels, self.hidden, self.edge_channels = in_channels, hidden, edge_channels
        self.norm, self.residual, self.jumping = norm, residual, jumping
        self.dropout, self.last_activation = dropout, last_activation
        widths = [in_channels, *[hidden] * (layers - 1)]
        self.layers = torch.nn.ModuleList(
            _Layer(width, hidden, expand * hidden, _aggregation(aggr, width, aggr_options), norm, activation,
                   edge_channels, train_eps)
            for width in widths
        )  # fmt: skip
        self.drop = _dropout(dropout)
        width = layers * hidden if jumping == "cat" else hidden
        self.readout = None if readout is None else fill(readout, width, readout_options, GNPDefaults(), "readout")
        width = width if self.readout is None else pooled_channels(self.readout, width)
        self.head = None if head is None else torch.nn.Linear(width, head)
        self.head_drop = _dropout(head_dropout)
        self.out = torch.nn.Linear(width if head is None else head, out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
        max_nodes: int | None = None,
        edge_attr: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all nodes are one graph.

        Args:
            x (torch.Tensor): The node features.
            edge_index (torch.Tensor or torch_geometric.EdgeIndex): The edges.
            batch (torch.Tensor, optional): The graph of each node.
            ptr (torch.Tensor, optional): The first node of each graph, and N.
            batch_size (int, optional): The number of graphs.
            max_nodes (int, optional): A size that no graph exceeds.
            edge_attr (torch.Tensor, optional): The features of each edge, given exactly if there are
                ``edge_channels``.
            weight (torch.Tensor, optional): The weight of each graph or node. Batch norm leaves out what has weight 0,
                as the dummies that pad a batch have.
        """
        edges = self._edges(x, edge_index, edge_attr)
        graphs = Segments(x, batch, ptr, batch_size, max_nodes)
        counts = counting_nodes(weight, graphs)
        h, non_negative, states = x, False, []
        for number, layer in enumerate(self.layers, start=1):
            activate = self.last_activation or number < len(self.layers)
            new = layer(h, edge_index, edges, counts, non_negative)
            new = self.drop(ACTIVATIONS[self.activation](new) if activate else new)
            add = self.residual and new.shape == h.shape
            non_negative = self.activation == "relu" and activate and (non_negative or not add)
            h = h + new if add else new
            states.append(h)
        if self.jumping is not None:
            h = torch.cat(states, dim=-1) if self.jumping == "cat" else torch.stack(states).amax(0)
        if self.readout is not None:
            h = pool(self.readout, h, graphs, non_negative)
        if self.head is not None:
            h = self.head_drop(ACTIVATIONS[self.activation](self.head(h)))
        y: Tensor = self.out(h)
        return y

    def _edges(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> tuple[Edges, Tensor] | None:
        """The edges by destination and their features in that order; None where they have none."""
        if self.edge_channels == 0:
            return None
        wanted = (edge_index.size(1), self.edge_channels)
        if edge_attr is None or tuple(edge_attr.shape) != wanted:
            got = "none" if edge_attr is None else f"shape {tuple(edge_attr.shape)}"
            raise ValueError(f"DeepNet: 'edge_attr' must have shape {wanted}, got {got}")
        edges = by_destination(edge_index, x.size(0))
        return edges, edge_attr if edges.order is None else edge_attr[edges.order]

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, aggr={self.layers[0].aggr}, readout={self.readout}, "
            f"layers={len(self.layers)}, hidden={self.hidden}, norm={self.norm!r}, residual={self.residual}, "
            f"jumping={self.jumping!r}, dropout={self.dropout})"
        )


class _Layer(Network):
    adds_own = True  # (1 + eps) times the node's own value is added to what it pools

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        inner: int,
        aggr: Any,
        norm: str | None,
        activation: str,
        edge_channels: int,
        train_eps: bool,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.edge = torch.nn.Linear(edge_channels, in_channels) if edge_channels else None
        self.aggr = aggr
        self.lin1 = torch.nn.Linear(in_channels, inner)
        self.inner_norm = make_norm(norm, inner, "DeepNet")
        self.lin2 = torch.nn.Linear(inner, hidden)
        self.outer_norm = make_norm(norm, hidden, "DeepNet")
        self.eps = torch.nn.Parameter(torch.zeros(())) if train_eps else 0.0

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if isinstance(self.eps, torch.nn.Parameter):
            torch.nn.init.zeros_(self.eps)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edges: tuple[Edges, Tensor] | None,
        counts: Tensor | None,
        non_negative: bool,
    ) -> Tensor:
        act = ACTIVATIONS[self.activation]
        if edges is None or self.edge is None:
            pooled = pool_neighbors(self.aggr, x, edge_index, non_negative)
        else:
            sorted_edges, features = edges
            messages = act(x.index_select(0, sorted_edges.source) + self.edge(features))
            into = Segments(messages, sorted_edges.destination, sorted_edges.ptr, x.size(0))
            pooled = pool(self.aggr, messages, into, self.activation == "relu")
        h = self.lin1((1 + self.eps) * x + pooled)
        h = self.lin2(act(self.inner_norm(h, counts)))
        normed: Tensor = self.outer_norm(h, counts)
        return normed


def _aggregation(aggr: Pooling, channels: int, options: Mapping[str, Any] | None) -> Any:
    """An aggregation that keeps the number of channels, one of its own for each layer."""
    made = copy.deepcopy(fill(aggr, channels, options, GNPDefaults(), "aggr"))
    pooled = pooled_channels(made, channels)
    if pooled != channels:
        raise ValueError(f"DeepNet: 'aggr' must keep the {channels} channels of its layer, got {pooled}")
    return made


def _dropout(rate: float) -> torch.nn.Module:
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"DeepNet: dropout must lie in [0, 1), got {rate}")
    return torch.nn.Dropout(rate) if rate > 0 else torch.nn.Identity()
