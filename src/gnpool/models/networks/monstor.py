"""MONSTOR, a network that predicts one step of a cascade and, when stacked, its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnpool.models.poolings.named import make_pooling
from gnpool.nn import GNPAggregation
from gnpool.ops.functional import pool_neighbors

HISTORY = 4  # features of a node: three increments of its probability, and the probability
INF = math.inf
# The norm takes no negative messages, so their positive and negative parts are pooled apart, each by (p, q).
FIXED = {
    "sum": ((1.0, 0.0), (1.0, 0.0)),
    "mean": ((1.0, 1.0), (1.0, 1.0)),
    "max": ((INF, 0.0), (-INF, 0.0)),
    "min": ((-INF, 0.0), (INF, 0.0)),
}


class MONSTOR(torch.nn.Module):
    r"""The base model of `"MONSTOR: An Inductive Approach for Estimating and Maximizing Influence over Unseen Networks"
    <https://arxiv.org/abs/2001.08853>`_ with a slot for the aggregation.

    From the probabilities :math:`\pi_{i-3}, ..., \pi_i` that each node is active by step i it predicts those of step
    i + 1:

    .. math::
        h^{l}_v = \mathrm{ReLU}\Big(\mathbf{W}^l \big[h^{l-1}_v \,\Vert\, \mathrm{AGG}_{u \to v} \, p_{uv}
        (\mathbf{P}^l h^{l-1}_u + b^l)\big] + c^l\Big), \qquad
        \hat\pi_{i+1} = \min\Big(\pi_i + h^L, \; \min\big(\pi_i + \textstyle\sum_{u \to v} p_{uv}
        (\pi_i - \pi_{i-1})_u, 1\big)\Big)

    so that a prediction never falls, and never exceeds the union bound. With GNP the messages go through a ReLU, since
    the norm takes no negative ones. Feeding predictions back (:meth:`stacked`) estimates the whole cascade.

    All edges of a batch are the same: several states of one graph are channels of its nodes, and no message is held.

    Args:
        aggr (str, optional): ``"max"`` (the original), ``"sum"``, ``"mean"``, ``"min"``, ``"gnp"`` or ``"gnp+"``. For
            max and min a message of exactly 0 is ignored if there are others. A node without in-edges gets 0.
            (default: ``"max"``)
        hidden (int, optional): Channels between layers. (default: ``16``)
        layers (int, optional): Number of layers. (default: ``3``)
        aggr_options (Mapping, optional): Options of GNP, as in :func:`make_pooling`.

    Shapes:
        - **input:** x :math:`(N, B, 4)`, or :math:`(N, 4)`: of B states of the graph, the last three increments and
          the probability of each node; edge_index :math:`(2, E)`, edge_weight :math:`(E)`
        - **output:** :math:`(N, B)` or :math:`(N)`

    Example:
        >>> import torch
        >>> from gnpool.models import MONSTOR
        >>> model = MONSTOR("gnp")
        >>> edges, probability = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0.5, 0.25])
        >>> seeds = torch.tensor([[1.0], [0.0], [0.0]])
        >>> found = model.stacked(seeds, edges, probability, 2)
        >>> bool((found <= torch.tensor([[1.0], [0.5], [0.125]])).all())
        True
    """

    def __init__(
        self,
        aggr: str = "max",
        *,
        hidden: int = 16,
        layers: int = 3,
        aggr_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        names = (*FIXED, "gnp", "gnp+")
        if aggr not in names:
            raise ValueError(f"MONSTOR: 'aggr' must be one of {', '.join(names)}, got {aggr!r}")
        for name, value in (("hidden", hidden), ("layers", layers)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"MONSTOR: '{name}' must be a positive integer, got {value!r}")
        if aggr in FIXED and aggr_options:
            raise ValueError(f"MONSTOR: 'aggr_options' are those of GNP, got {dict(aggr_options)} with aggr={aggr!r}")
        if dict(aggr_options or {}).get("coordinates", "published") != "published":
            raise ValueError("MONSTOR: 'coordinates' in 'aggr_options' must be 'published', the only ones it pools by")
        self.aggr, self.hidden, self.aggr_options = aggr, hidden, dict(aggr_options or {})
        widths = [HISTORY, *[hidden] * (layers - 1)]
        self.layers = torch.nn.ModuleList(
            _Layer(width, out, aggr, self.aggr_options) for width, out in zip(widths, [*widths[1:], 1], strict=True)
        )

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        r"""Forward pass.

        Args:
            x (torch.Tensor): The states.
            edge_index (torch.Tensor or torch_geometric.EdgeIndex): The edges; an ``EdgeIndex`` keeps its lists.
            edge_weight (torch.Tensor): The activation probabilities.
        """
        if x.size(-1) != HISTORY or x.dim() not in (2, 3):
            raise ValueError(f"MONSTOR: 'x' must have shape (N, B, {HISTORY}) or (N, {HISTORY}), got {tuple(x.shape)}")
        if x.dim() == 2:
            return self.forward(x[:, None], edge_index, edge_weight).squeeze(1)
        h = x
        for layer in self.layers:
            h = layer(h, edge_index, edge_weight)
        rise = pool_neighbors(
            x[..., 2].contiguous(),
            edge_index,
            p=1.0,
            q=0.0,
            edge_weight=edge_weight,
            dim_size=None,
            eps=0.0,
            relu=True,
        )
        now = x[..., 3]
        return torch.minimum(now + h.squeeze(-1), (now + rise).clamp(0.0, 1.0))

    def stacked(
        self, seeds: Tensor, edge_index: Tensor, edge_weight: Tensor, steps: int, tolerance: float = 0.0
    ) -> Tensor:
        r"""The probabilities after ``steps`` predictions, each from the previous one.

        Args:
            seeds (torch.Tensor): 1 for seeds and 0 for others, (N, B).
            edge_index (torch.Tensor or torch_geometric.EdgeIndex): The edges.
            edge_weight (torch.Tensor): The activation probabilities.
            steps (int): Predictions.
            tolerance (float, optional): Stop if the influence of no state rises by more than this. (default: ``0.0``,
                never)
        """
        x = start(seeds)
        for _ in range(steps):
            after = self(x, edge_index, edge_weight)
            x = advance(x, after)
            if tolerance > 0 and bool(x[..., 2].sum(0).max() <= tolerance):
                break
        return x[..., 3]

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.aggr!r}, hidden={self.hidden}, layers={len(self.layers)})"


def start(seeds: Tensor) -> Tensor:
    """The state at step 0, (N, B) -> (N, B, 4)."""
    nothing = torch.zeros_like(seeds)
    return torch.stack([nothing, nothing, seeds, seeds], dim=-1)


def advance(x: Tensor, after: Tensor) -> Tensor:
    """The state one step later, when the probabilities are ``after``."""
    return torch.stack([x[..., 1], x[..., 2], after - x[..., 3], after], dim=-1)


class _Layer(torch.nn.Module):
    def __init__(self, in_channels: int, out_channels: int, aggr: str, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.fc_pool = torch.nn.Linear(in_channels, in_channels)
        self.fc_neigh = torch.nn.Linear(2 * in_channels, out_channels)
        self.name = aggr
        self.aggr = None if aggr in FIXED else make_pooling(aggr, in_channels, **options)
        for name, values in zip(("point_p", "point_q"), zip(*FIXED.get(aggr, ()), strict=True), strict=False):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.fc_pool, self.fc_neigh):
            linear.reset_parameters()
            torch.nn.init.xavier_uniform_(linear.weight, gain=torch.nn.init.calculate_gain("relu"))
        if self.aggr is not None:
            self.aggr.reset_parameters()

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        N, B, C = h.shape

        def pool(x: Tensor, p: Tensor, q: Tensor, eps: float = 0.0, relu: bool = True) -> Tensor:
            options: dict[str, Any] = {"edge_weight": edge_weight, "dim_size": None, "eps": eps, "relu": relu}
            found = pool_neighbors(x.view(N, -1), edge_index, p=p.repeat(B), q=q.repeat(B), **options)
            return found.view(N, B, -1)  # each state with the same exponents

        own, other = self.fc_neigh.weight.split(C, dim=1)
        if isinstance(self.aggr, GNPAggregation):
            messages, eps, relu = self.fc_pool(h), self.aggr.eps, self.aggr.nonneg == "relu"
            pooled = self.aggr._branches(lambda p, q: pool(messages, p.expand(C), q.expand(C), eps, relu))
        else:
            pooled = self._fixed(h, pool)
            if pooled.size(2) > C:
                other = torch.cat([other, -other], dim=1)
        return F.relu(F.linear(h, own, self.fc_neigh.bias) + F.linear(pooled, other))

    point_p: Tensor  # of the positive and of the negative parts
    point_q: Tensor

    def _fixed(self, h: Tensor, pool: Any) -> Tensor:
        """A fixed pooling of messages of any sign: their positive and their negative parts through the norm.

        Where these are to be subtracted, (N, B, 2 C): the layer that follows can do so.
        """
        C = h.size(2)
        weight, bias = self.fc_pool.weight, self.fc_pool.bias
        messages = F.linear(h, torch.cat([weight, -weight]), torch.cat([bias, -bias]))  # both signs in one product
        found: Tensor = pool(
            messages, *(point[:, None].expand(2, C).flatten() for point in (self.point_p, self.point_q))
        )
        above, below = found.split(C, dim=2)
        if self.name == "max":
            return torch.where(above > 0, above, -below)
        if self.name == "min":
            return torch.where(below > 0, -below, above)
        return found
