"""The network of the set tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnpool.models.networks.parts import MLP, Network, check_activation
from gnpool.models.poolings.segments import Segments
from gnpool.models.poolings.slot import GNPDefaults, Pooling, clips, fill, pool, pooled_channels


class SetNet(Network):
    r"""Fully connected layers for each element, a pooling and a linear output.

    .. math::
        \hat y = w^\top \mathrm{POOL}_i \, \mathrm{MLP}(x_i)

    Args:
        in_channels (int): Number of features of an element.
        pool (str or Aggregation or callable, optional): The pooling; see :class:`GraphNet`. (default: ``"gnp"``)
        depth (int, optional): Number of fully connected layers in front of the pooling: 1 is the basic network,
            2 the deep one. (default: ``1``)
        hidden, out_channels, activation, out_bias, gnp_bias, nonneg, t0 (optional): As in :class:`GraphNet`.
        pool_options (dict, optional): Further options of a pooling given by name.

    Shapes:
        - **input:** x :math:`(N, d)`, batch :math:`(N)` sorted, ptr :math:`(G + 1)`
        - **output:** :math:`(G, d_{out})`

    Example:
        >>> import torch
        >>> from gnpool.models import SetNet
        >>> SetNet(1, "mean", depth=2)(torch.ones(5, 1), ptr=torch.tensor([0, 2, 5])).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        in_channels: int,
        pool: Pooling = "gnp",
        *,
        depth: int = 1,
        hidden: int = 32,
        out_channels: int = 1,
        activation: str = "relu",
        out_bias: bool = False,
        gnp_bias: bool = False,
        nonneg: str | None = "relu",
        t0: float | None = None,
        pool_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise ValueError(f"SetNet: 'depth' must be a positive integer, got {depth!r}")
        self.activation = check_activation(activation, "SetNet")
        self.in_channels, self.hidden, self.depth = in_channels, hidden, depth
        self.mlp = MLP([in_channels, *[hidden] * depth], activation)
        self.pool = fill(pool, hidden, pool_options, GNPDefaults(gnp_bias, nonneg, t0), "pool")
        self.out = torch.nn.Linear(pooled_channels(self.pool, hidden), out_channels, bias=out_bias)

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
        max_nodes: int | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all elements are one set. Arguments as in :class:`GraphNet`."""
        relu = self.activation == "relu"
        sets = Segments(x, batch, ptr, batch_size, max_nodes)
        y: Tensor = self.out(pool(self.pool, self.mlp(x, last=not (relu and clips(self.pool))), sets, relu))
        return y

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, pool={self.pool}, depth={self.depth}, "
            f"hidden={self.hidden}, activation={self.activation!r})"
        )
