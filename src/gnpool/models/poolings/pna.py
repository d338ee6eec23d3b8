"""Principal neighbourhood aggregation that keeps the number of channels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

VARIANCE = 1e-5  # added to the variance: its root has a gradient at 0


class PNAAggregation(Aggregation):
    r"""Mean, maximum, minimum and deviation of each segment under three scalers, mixed by a linear layer, from
    `"Principal Neighbourhood Aggregation for Graph Nets" <https://arxiv.org/abs/2004.05718>`_.

    .. math::
        \mathbf{W} \big[1, \; \delta^{-1} \log(n + 1), \; \delta \, / \log(n + 1)\big] \otimes
        \big[\mathrm{mean}, \max, \min, \mathrm{std}\big] + \mathbf{b}

    Unlike PyG's :class:`~torch_geometric.nn.aggr.DegreeScalerAggregation` it has as many outputs as inputs, so that it
    fits every slot, needs no histogram of degrees, and vmaps. An empty segment gives the bias.

    Args:
        channels (int): Number of channels d.
        scale (float, optional): :math:`\delta`, the mean of :math:`\log(n + 1)` over the training data. The right order
            of magnitude is enough, since W can take it as well. (default: ``1.4``, three elements)

    Shapes:
        - **input:** x :math:`(N, d)`, index :math:`(N)` or ptr :math:`(S + 1)`
        - **output:** :math:`(S, d)`

    Example:
        >>> import torch
        >>> from gnpool.models import PNAAggregation
        >>> PNAAggregation(8)(torch.rand(5, 8), torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([2, 8])
    """

    def __init__(self, channels: int, scale: float = 1.4) -> None:
        super().__init__()
        self.channels, self.out_channels, self.scale = channels, channels, scale
        self.lin = torch.nn.Linear(12 * channels, channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.lin.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        if index is None:
            if ptr is None:
                index = torch.zeros(x.size(0), dtype=torch.long, device=x.device)
            else:
                count = ptr.numel() - 1
                index = torch.repeat_interleave(torch.arange(count, device=x.device), ptr.diff())
                dim_size = count if dim_size is None else dim_size
        index = index.as_subclass(Tensor)
        mean = self.reduce(x, index, None, dim_size, dim, reduce="mean")
        square = self.reduce(x * x, index, None, dim_size, dim, reduce="mean")
        deviation = ((square - mean * mean).relu() + VARIANCE).sqrt()
        largest = self.reduce(x, index, None, dim_size, dim, reduce="max")
        smallest = self.reduce(x, index, None, dim_size, dim, reduce="min")
        counts = torch.zeros(mean.size(0), dtype=x.dtype, device=x.device)
        counts = counts.index_add(0, index, torch.ones(index.numel(), dtype=x.dtype, device=x.device))
        logarithm = (counts + 1).log()[:, None]
        there = (counts > 0).to(x.dtype)[:, None]
        four = torch.cat([mean, largest, smallest, deviation], dim=-1) * there
        growing, falling = logarithm / self.scale, self.scale / (logarithm + (1 - there))
        out: Tensor = self.lin(torch.cat([four, four * growing, four * falling], dim=-1))
        return out

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels})"
