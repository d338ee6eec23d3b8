"""The network of the node-level tasks."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnpool.models.networks.parts import ACTIVATIONS, FORMS, MLP, Network, check_activation
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


class NodeNet(Network):
    r"""Layers of message passing and a linear output at each node.

    With ``form="message"`` the network of each layer comes before the aggregation:

    .. math::
        h^0 = x, \qquad h^{l}_v = \sigma\Big(\mathrm{AGG}_{u \in \mathcal{N}(v)} \,
        \mathrm{MLP}^l([h^{l-1}_u, w_{uv}])\Big), \qquad \hat y_v = w^\top h^L_v

    There is no term for the node itself; if the node should take part, the edges must contain a self-loop. With ReLU,
    the outer :math:`\sigma` makes a difference only after GNP. With ``form="gin"`` the network comes after the
    aggregation, as in the graph isomorphism network, and a fully connected layer widens the input:

    .. math::
        h^0 = \sigma(W x + b), \qquad h^{l}_v = \mathrm{MLP}^l\Big((1 + \epsilon) \, h^{l-1}_v +
        \mathrm{AGG}_{u \in \mathcal{N}(v)} \, m^l_{uv}\Big), \qquad \hat y_v = w^\top h^L_v

    with :math:`m^l_{uv} = h^{l-1}_u`, or :math:`\sigma(h^{l-1}_u + w_{uv} a^l)` if edges have weights. MLP is two fully
    connected layers with :math:`\sigma` after each. The weight of an edge is an input of its message and not a factor,
    since with factors the lengths of paths would be products.

    Args:
        in_channels (int): Number of node features.
        aggr (str or Aggregation or callable, optional): The aggregation of every layer; see :class:`GraphNet`. Each
            layer has its own; each layer copies an aggregation that is given as a module. (default: ``"gnp"``)
        edge_weights (bool, optional): Whether edges have weights. Without them a message depends on its source
            alone, so that GNP holds no tensor of messages. (default: ``False``)
        layers (int, optional): Number of layers. (default: ``3``)
        form (str, optional): ``"message"`` or ``"gin"``. (default: ``"message"``)
        eps (float, optional): The fixed :math:`\epsilon` of ``form="gin"``. (default: ``0.0``)
        hidden, out_channels, activation, out_bias, gnp_bias, nonneg, t0, aggr_options (optional): As in
            :class:`GraphNet`.

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)`, edge_weight :math:`(E)`
        - **output:** :math:`(N, d_{out})`

    Example:
        >>> import torch
        >>> from gnpool.models import NodeNet
        >>> model = NodeNet(1, "min", edge_weights=True)
        >>> edges = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 1]])
        >>> model(torch.ones(2, 1), edges, torch.tensor([0.0, 2.0, 2.0, 0.0])).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        in_channels: int,
        aggr: Pooling = "gnp",
        *,
        edge_weights: bool = False,
        layers: int = 3,
        form: str = "message",
        eps: float = 0.0,
        hidden: int = 32,
        out_channels: int = 1,
        activation: str = "relu",
        out_bias: bool = False,
        gnp_bias: bool = False,
        nonneg: str | None = "relu",
        t0: float | None = None,
        aggr_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.activation = check_activation(activation, "NodeNet")
        if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
            raise ValueError(f"NodeNet: 'layers' must be a positive integer, got {layers!r}")
        if form not in FORMS:
            raise ValueError(f"NodeNet: 'form' must be one of {FORMS}, got {form!r}")
        self.in_channels, self.hidden, self.edge_weights, self.form = in_channels, hidden, edge_weights, form
        gnp = GNPDefaults(gnp_bias, nonneg, t0)
        self.lift = MLP([in_channels, hidden], activation) if form == "gin" else None
        self.layers = torch.nn.ModuleList()
        width = in_channels
        for _ in range(layers):
            pooling = copy.deepcopy(fill(aggr, hidden, aggr_options, gnp, "aggr"))
            pooled = pooled_channels(pooling, hidden)
            if form == "gin" and pooled != hidden:
                raise ValueError(f"NodeNet: form='gin' needs an aggregation that keeps {hidden} channels, got {pooled}")
            self.layers.append(
                _MessageLayer(width, hidden, pooling, edge_weights, activation)
                if form == "message"
                else _GINLayer(hidden, pooling, edge_weights, activation, eps)
            )
            width = pooled
        self.out = torch.nn.Linear(width, out_channels, bias=out_bias)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        r"""Forward pass.

        Args:
            x (torch.Tensor): The node features.
            edge_index (torch.Tensor or torch_geometric.EdgeIndex): The edges. They are sorted by destination unless an
                ``EdgeIndex`` says that they are.
            edge_weight (torch.Tensor, optional): The weight of each edge, given exactly if ``edge_weights=True``.
        """
        if self.edge_weights == (edge_weight is None):
            given = "none was given" if edge_weight is None else "'edge_weight' was given"
            raise ValueError(f"NodeNet: the model was built with edge_weights={self.edge_weights}, but {given}")
        edges = None
        if edge_weight is not None:
            if edge_weight.shape != (edge_index.size(1),):
                raise ValueError(
                    f"NodeNet: 'edge_weight' must have one value for each of the {edge_index.size(1)} edges, "
                    f"got shape {tuple(edge_weight.shape)}"
                )
            edges = by_destination(edge_index, x.size(0))
            edge_weight = edge_weight if edges.order is None else edge_weight[edges.order]
        x = x if self.lift is None else self.lift(x)
        for layer in self.layers:
            x = layer(x, edge_index, edges, edge_weight)
        y: Tensor = self.out(x)
        return y

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, aggr={self.layers[0].aggr}, "
            f"edge_weights={self.edge_weights}, layers={len(self.layers)}, hidden={self.hidden}, "
            f"activation={self.activation!r}, form={self.form!r})"
        )


class _MessageLayer(Network):
    def __init__(self, in_channels: int, hidden: int, aggr: Any, edge_weights: bool, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.lin1 = torch.nn.Linear(in_channels + edge_weights, hidden)
        self.lin2 = torch.nn.Linear(hidden, hidden)
        self.aggr = aggr

    def forward(self, x: Tensor, edge_index: Tensor, edges: Edges | None, edge_weight: Tensor | None) -> Tensor:
        act, relu = ACTIVATIONS[self.activation], self.activation == "relu"  # then no message is negative
        if edges is None or edge_weight is None:
            return act(pool_neighbors(self.aggr, act(self.lin2(act(self.lin1(x)))), edge_index, relu))
        # lin1 of [h_u, w_uv]; the part of h_u is computed once for all edges out of the node
        of_node, of_edge = self.lin1.weight[:, :-1], self.lin1.weight[:, -1]
        first = F.linear(x, of_node, self.lin1.bias).index_select(0, edges.source)
        messages = act(self.lin2(act(first + edge_weight[:, None] * of_edge)))
        return act(pool(self.aggr, messages, Segments(messages, edges.destination, edges.ptr, x.size(0)), relu))


class _GINLayer(Network):
    adds_own = True  # (1 + eps) times the node's own value is added to what it pools

    def __init__(self, hidden: int, aggr: Any, edge_weights: bool, activation: str, eps: float) -> None:
        super().__init__()
        self.activation, self.eps = activation, eps
        self.edge = torch.nn.Linear(1, hidden, bias=False) if edge_weights else None
        self.mlp = MLP([hidden, hidden, hidden], activation)
        self.aggr = aggr

    def forward(self, x: Tensor, edge_index: Tensor, edges: Edges | None, edge_weight: Tensor | None) -> Tensor:
        relu = self.activation == "relu"  # then no message is negative
        if edges is None or edge_weight is None or self.edge is None:
            pooled = pool_neighbors(self.aggr, x, edge_index, relu)
        else:
            messages = x.index_select(0, edges.source) + self.edge(edge_weight[:, None])
            messages = ACTIVATIONS[self.activation](messages)
            pooled = pool(self.aggr, messages, Segments(messages, edges.destination, edges.ptr, x.size(0)), relu)
        h: Tensor = self.mlp((1 + self.eps) * x + pooled)
        return h
