"""A network that applies one layer repeatedly, as often as the graph needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gnpool.models.networks.parts import ACTIVATIONS, Network, check_activation
from gnpool.models.poolings.segments import Segments
from gnpool.models.poolings.slot import (
    Edges,
    GNPDefaults,
    Pooling,
    by_destination,
    fill,
    plain,
    pool,
    pool_neighbors,
    pooled_channels,
)

OUTPUTS = ("pointer", "node", "graph")
ROUNDS = ("nodes", "stable")


class RecurrentNet(Network):
    r"""One layer of message passing with shared weights, applied for as many rounds as each graph needs.

    .. math::
        e_v = \sigma(W x_v + b), \qquad h^0 = e, \qquad
        a_v = \mathrm{AGG}_{u \in \mathcal{N}(v)} \, \mathrm{MLP}([e_u, h^{t-1}_u, w_{uv}]), \qquad
        h^t_v = (1 - g_v) \, h^{t-1}_v + g_v \, c_v

    with a gate :math:`g_v = \mathrm{sigmoid}(W_g [e_v, h^{t-1}_v, a_v])` and a candidate
    :math:`c_v = \sigma(W_c [e_v, h^{t-1}_v, a_v])`. The network contains no part of an algorithm: no distance, no
    frontier, no rule for ties.

    The output is one of three:

    - ``"pointer"``: for each edge the logarithm of the probability that its destination points to its source, a
      softmax over the edges into each node, of a network of both ends and the weight. With a self-loop a node may
      point to itself.
    - ``"node"``: a linear map of each state.
    - ``"graph"``: a linear map of the pooled states.

    Args:
        in_channels (int): Number of node features.
        aggr (str or Aggregation or callable, optional): The aggregation, see :class:`GraphNet`. (default: ``"gnpg"``)
        output (str, optional): ``"pointer"``, ``"node"`` or ``"graph"``. (default: ``"pointer"``)
        readout (str or Aggregation or callable, optional): The readout of ``output="graph"``. (default: ``"gnpg"``)
        rounds (int or str, optional): A number is the same for all graphs. ``"nodes"`` takes as many rounds as the
            graph has nodes. ``"stable"`` ends when no state of the graph changes by more than ``tolerance``, after at
            most as many rounds as it has nodes. Other graphs in the batch make no difference. (default: ``"nodes"``)
        tolerance (float, optional): The tolerance of ``rounds="stable"``. (default: ``1e-3``)
        most_rounds (int, optional): The most rounds of ``"nodes"`` and ``"stable"``, for very large graphs. (default:
            the number of nodes)
        edge_weights (bool, optional): Whether edges have weights, which are a part of the messages. (default:
            ``False``)
        hidden (int, optional): Number of hidden channels. (default: ``64``)
        out_channels (int, optional): Number of outputs for a node or graph. (default: ``1``)
        activation (str, optional): ``"relu"``, ``"leaky_relu"`` or ``"elu"``. (default: ``"relu"``)
        norm (str, optional): ``"layer"`` for a layer norm of the candidate, or ``None``. (default: ``None``)
        aggr_options (dict, optional): Options of an aggregation given by name.
        readout_options (dict, optional): Options of a readout given by name.

    .. note::
        ``rounds="stable"`` depends on the states, which :func:`torch.vmap` does not allow. In :func:`gnpool.fit_many`
        pass ``vectorize=False``, or train with ``"nodes"`` and set ``model.rounds = "stable"`` afterwards.

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)`, edge_weight :math:`(E)`, batch :math:`(N)` sorted
        - **output:** :math:`(E)`, :math:`(N, d_{out})` or :math:`(G, d_{out})`

    Example:
        >>> import torch
        >>> from gnpool.models import RecurrentNet
        >>> model = RecurrentNet(2, "max", hidden=8)
        >>> edge_index = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 1]])  # two nodes with their self-loops
        >>> pointers = model(torch.eye(2), edge_index)
        >>> pointers.exp()[:2].sum().item()
        1.0
    """

    def __init__(
        self,
        in_channels: int,
        aggr: Pooling = "gnpg",
        *,
        output: str = "pointer",
        readout: Pooling = "gnpg",
        rounds: int | str = "nodes",
        tolerance: float = 1e-3,
        most_rounds: int | None = None,
        edge_weights: bool = False,
        hidden: int = 64,
        out_channels: int = 1,
        activation: str = "relu",
        norm: str | None = None,
        aggr_options: Mapping[str, Any] | None = None,
        readout_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if output not in OUTPUTS:
            raise ValueError(f"RecurrentNet: 'output' must be one of {OUTPUTS}, got {output!r}")
        if rounds not in ROUNDS and (isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1):
            raise ValueError(f"RecurrentNet: 'rounds' must be a positive integer or one of {ROUNDS}, got {rounds!r}")
        if norm not in (None, "layer"):
            raise ValueError(f"RecurrentNet: 'norm' must be 'layer' or None, got {norm!r}")
        self.activation = check_activation(activation, "RecurrentNet")
        self.in_channels, self.hidden, self.output = in_channels, hidden, output
        self.rounds, self.tolerance, self.most_rounds = rounds, tolerance, most_rounds
        self.edge_weights = edge_weights
        gnp = GNPDefaults()
        self.encode = torch.nn.Linear(in_channels, hidden)
        self.message1 = torch.nn.Linear(2 * hidden + edge_weights, hidden)
        self.message2 = torch.nn.Linear(hidden, hidden)
        self.aggr = fill(aggr, hidden, aggr_options, gnp, "aggr")
        update = 2 * hidden + pooled_channels(self.aggr, hidden)
        self.gate = torch.nn.Linear(update, hidden)
        self.candidate = torch.nn.Linear(update, hidden)
        self.norm = torch.nn.LayerNorm(hidden) if norm == "layer" else None
        self.readout = fill(readout, hidden, readout_options, gnp, "readout") if output == "graph" else None
        if output == "pointer":
            self.to_source = torch.nn.Linear(2 * hidden, hidden)
            self.to_destination = torch.nn.Linear(2 * hidden, hidden, bias=False)
            self.to_weight = torch.nn.Linear(1, hidden, bias=False) if edge_weights else None
        width = hidden if self.readout is None else pooled_channels(self.readout, hidden)
        self.out = torch.nn.Linear(width, 1 if output == "pointer" else out_channels, bias=output != "pointer")

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
        max_nodes: int | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all nodes are one graph.

        Args:
            x (torch.Tensor): The node features.
            edge_index (torch.Tensor or torch_geometric.EdgeIndex): The edges.
            edge_weight (torch.Tensor, optional): The weight of each edge, given exactly if ``edge_weights=True``.
            batch (torch.Tensor, optional): The graph of each node.
            ptr (torch.Tensor, optional): The first node of each graph, and N.
            batch_size (int, optional): The number of graphs.
            max_nodes (int, optional): A size that no graph exceeds.
        """
        weighted = self._weighted(x, edge_index, edge_weight)
        graphs = Segments(x, batch, ptr, batch_size, max_nodes)
        encoded = ACTIVATIONS[self.activation](self.encode(x))
        h = self._run(encoded, edge_index, weighted, graphs)
        if self.output == "pointer":
            return self._point(torch.cat([encoded, h], dim=-1), edge_index, edge_weight)
        if self.readout is not None:
            h = pool(self.readout, h, graphs)
        y: Tensor = self.out(h)
        return y

    def _run(self, encoded: Tensor, edge_index: Tensor, weighted: _Weighted | None, graphs: Segments) -> Tensor:
        """The states after the rounds of each graph."""
        h = encoded
        if isinstance(self.rounds, int):
            for _ in range(self.rounds):
                h = self._round(encoded, h, edge_index, weighted)
            return h
        changing = torch.ones(graphs.count, dtype=torch.bool, device=h.device)
        longest = graphs.longest if self.most_rounds is None else min(graphs.longest, self.most_rounds)
        for done in range(longest):
            changing = changing & (done < graphs.sizes)
            new = self._round(encoded, h, edge_index, weighted)
            new = torch.where(changing.index_select(0, graphs.index)[:, None], new, h)
            if self.rounds == "stable":
                change = torch.zeros(graphs.count, dtype=h.dtype, device=h.device)
                of_node = (new - h).detach().abs().amax(dim=-1)
                change = change.scatter_reduce(0, graphs.index, of_node, "amax")
                changing = changing & (change > self.tolerance)
                if not changing.any():
                    return new
            h = new
        return h

    def _round(self, encoded: Tensor, h: Tensor, edge_index: Tensor, weighted: _Weighted | None) -> Tensor:
        act, relu = ACTIVATIONS[self.activation], self.activation == "relu"  # then no message is negative
        state = torch.cat([encoded, h], dim=-1)
        if weighted is None:
            messages = act(self.message2(act(self.message1(state))))
            pooled = pool_neighbors(self.aggr, messages, edge_index, relu)
        else:
            of_node, of_edge = self.message1.weight[:, :-1], self.message1.weight[:, -1]
            first = F.linear(state, of_node, self.message1.bias).index_select(0, weighted.edges.source)
            messages = act(self.message2(act(first + weighted.weight[:, None] * of_edge)))
            into = Segments(messages, weighted.edges.destination, weighted.edges.ptr, h.size(0))
            pooled = pool(self.aggr, messages, into, relu)
        state = torch.cat([state, pooled], dim=-1)
        candidate = self.candidate(state)
        candidate = act(candidate if self.norm is None else self.norm(candidate))
        return torch.lerp(h, candidate, self.gate(state).sigmoid())

    def _point(self, state: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """(E,) log-probabilities over the edges into each node, in the order of the edges."""
        source, destination = plain(edge_index)
        pair = self.to_source(state).index_select(0, source)
        pair = pair + self.to_destination(state).index_select(0, destination)
        if edge_weight is not None and self.to_weight is not None:
            pair = pair + self.to_weight(edge_weight[:, None])
        score = self.out(ACTIVATIONS[self.activation](pair)).squeeze(-1)
        nodes = state.size(0)
        most = torch.full((nodes,), -torch.inf, dtype=score.dtype, device=score.device)
        most = most.scatter_reduce(0, destination, score.detach(), "amax")
        score = score - most.index_select(0, destination)
        total = torch.zeros(nodes, dtype=score.dtype, device=score.device).scatter_add(0, destination, score.exp())
        return score - total.index_select(0, destination).log()

    def _weighted(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> _Weighted | None:
        if self.edge_weights == (edge_weight is None):
            given = "none was given" if edge_weight is None else "'edge_weight' was given"
            raise ValueError(f"RecurrentNet: the model was built with edge_weights={self.edge_weights}, but {given}")
        if edge_weight is None:
            return None
        if edge_weight.shape != (edge_index.size(1),):
            raise ValueError(
                f"RecurrentNet: 'edge_weight' must have one value for each of the {edge_index.size(1)} edges, "
                f"got shape {tuple(edge_weight.shape)}"
            )
        edges = by_destination(edge_index, x.size(0))
        return _Weighted(edges, edge_weight if edges.order is None else edge_weight[edges.order])

    def __repr__(self) -> str:
        readout = "" if self.readout is None else f", readout={self.readout}"
        return (
            f"{self.__class__.__name__}({self.in_channels}, aggr={self.aggr}, output={self.output!r}{readout}, "
            f"rounds={self.rounds!r}, edge_weights={self.edge_weights}, hidden={self.hidden}, "
            f"activation={self.activation!r})"
        )


class _Weighted(NamedTuple):
    """Edges by destination, and their weights in that order."""

    edges: Edges
    weight: Tensor  # (E,)
