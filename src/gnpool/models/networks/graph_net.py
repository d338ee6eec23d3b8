"""The network of the graph-level tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnpool.models.networks.parts import ACTIVATIONS, FORMS, MLP, Network, check_activation
from gnpool.models.poolings.segments import Segments
from gnpool.models.poolings.slot import GNPDefaults, Pooling, clips, fill, pool, pool_neighbors, pooled_channels


class GraphNet(Network):
    r"""One layer of message passing, a readout and a linear output, with a pooling slot for each of the two poolings.

    With ``form="message"`` the network of each node comes before the aggregation:

    .. math::
        m_u = \mathrm{MLP}(x_u), \qquad a_v = \mathrm{AGG}_{u \in \mathcal{N}(v)} \, m_u, \qquad
        \hat y = w^\top \mathrm{READOUT}_v \, \sigma(a_v)

    With ``form="gin"`` it comes after the aggregation, as in the graph isomorphism network, and a fully connected layer
    widens the input:

    .. math::
        h_v = \sigma(W x_v + b), \qquad
        \hat y = w^\top \mathrm{READOUT}_v \, \mathrm{MLP}\Big((1 + \epsilon) \, h_v +
        \mathrm{AGG}_{u \in \mathcal{N}(v)} \, h_u\Big)

    MLP is two fully connected layers with :math:`\sigma` after each. Without biases in the output layer and in GNP, the
    part after the messages is homogeneous, and therefore extrapolates. A message depends only on its source, so that
    GNP pools neighbours without storing messages.

    Args:
        in_channels (int): Number of node features.
        aggr (str or Aggregation or callable, optional): The aggregation: a name of
            :func:`~gnpool.models.make_pooling`, an aggregation of PyG, or a function of (x, index, number of segments)
            such as :func:`torch_geometric.nn.global_add_pool`. (default: ``"gnp"``)
        readout (str or Aggregation or callable, optional): The readout, likewise. (default: ``"gnp"``)
        hidden (int, optional): Number of hidden channels. (default: ``32``)
        out_channels (int, optional): Number of outputs. (default: ``1``)
        activation (str, optional): ``"relu"``, ``"leaky_relu"`` or ``"elu"``. (default: ``"relu"``)
        form (str, optional): ``"message"`` or ``"gin"``. (default: ``"message"``)
        eps (float, optional): The fixed :math:`\epsilon` of ``form="gin"``. (default: ``0.0``)
        out_bias (bool, optional): Whether the output layer has a bias. (default: ``False``)
        gnp_bias (bool, optional): Whether the mixing layer of each named GNP has a bias. (default: ``False``)
        nonneg (str, optional): ``nonneg`` of each named GNP. (default: ``"relu"``)
        t0 (float, optional): ``t0`` of each named GNP. (default: ``None``)
        aggr_options (dict, optional): Further options of an aggregation given by name; they override the three above.
        readout_options (dict, optional): Further options of a readout given by name, likewise.

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)`, batch :math:`(N)` sorted, ptr :math:`(G + 1)`
        - **output:** :math:`(G, d_{out})`

    Example:
        >>> import torch
        >>> from gnpool.models import GraphNet
        >>> model = GraphNet(1, "sum", "max")
        >>> x, edge_index = torch.ones(5, 1), torch.tensor([[0, 2, 3, 4], [1, 1, 1, 1]])
        >>> ratio = model(x, edge_index) / model(x, edge_index[:, :1])  # four neighbours against one, untrained
        >>> ratio.detach()
        tensor([[4.00]])
    """

    def __init__(
        self,
        in_channels: int,
        aggr: Pooling = "gnp",
        readout: Pooling = "gnp",
        *,
        hidden: int = 32,
        out_channels: int = 1,
        activation: str = "relu",
        form: str = "message",
        eps: float = 0.0,
        out_bias: bool = False,
        gnp_bias: bool = False,
        nonneg: str | None = "relu",
        t0: float | None = None,
        aggr_options: Mapping[str, Any] | None = None,
        readout_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if form not in FORMS:
            raise ValueError(f"GraphNet: 'form' must be one of {FORMS}, got {form!r}")
        self.activation = check_activation(activation, "GraphNet")
        self.in_channels, self.hidden, self.form, self.eps = in_channels, hidden, form, eps
        gnp = GNPDefaults(gnp_bias, nonneg, t0)
        self.lift = MLP([in_channels, hidden], activation) if form == "gin" else None
        self.mlp = MLP([in_channels if form == "message" else hidden, hidden, hidden], activation)
        self.aggr = fill(aggr, hidden, aggr_options, gnp, "aggr")
        width = pooled_channels(self.aggr, hidden)
        if form == "gin" and width != hidden:
            raise ValueError(f"GraphNet: form='gin' needs an aggregation that keeps {hidden} channels, got {width}")
        self.readout = fill(readout, width, readout_options, gnp, "readout")
        self.out = torch.nn.Linear(pooled_channels(self.readout, width), out_channels, bias=out_bias)

    @property
    def adds_own(self) -> bool:
        """Whether (1 + eps) times the node's own value is added to what it pools."""
        return self.form == "gin"

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
        max_nodes: int | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all nodes are one graph.

        Args:
            x (torch.Tensor): The node features.
            edge_index (torch.Tensor or torch_geometric.EdgeIndex): The edges.
            batch (torch.Tensor, optional): The graph of each node.
            ptr (torch.Tensor, optional): The first node of each graph, and N.
            batch_size (int, optional): The number of graphs. With ``ptr``, ``batch`` and, for sort and set2set,
                ``max_nodes``, nothing waits for a GPU.
            max_nodes (int, optional): A size that no graph exceeds.
        """
        relu = self.activation == "relu"  # then no pooled row is negative
        activate = not (relu and clips(self.readout))  # saves two passes over all rows, forward and backward
        graphs = Segments(x, batch, ptr, batch_size, max_nodes)
        if self.lift is None:
            h = self.mlp(x, last=not (relu and clips(self.aggr)))
            h = pool_neighbors(self.aggr, h, edge_index, relu)
            h = ACTIVATIONS[self.activation](h) if activate else h
        else:
            h = self.lift(x)
            h = self.mlp((1 + self.eps) * h + pool_neighbors(self.aggr, h, edge_index, relu), last=activate)
        y: Tensor = self.out(pool(self.readout, h, graphs, relu))
        return y

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, aggr={self.aggr}, readout={self.readout}, "
            f"hidden={self.hidden}, activation={self.activation!r}, form={self.form!r})"
        )
