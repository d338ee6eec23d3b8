"""Normalisation of node states, over the nodes that count."""

from __future__ import annotations

import torch
from torch import Tensor

from gnpool.models.poolings.segments import Segments


class BatchNorm(torch.nn.BatchNorm1d):
    """Batch norm over the rows that count. Dummies that pad a batch change neither its output nor its statistics."""

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        if counts is None or not self.training:
            return super().forward(x)
        share = counts.to(x.dtype)[:, None]
        rows = share.sum()
        mean = (x * share).sum(0) / rows
        variance = ((x - mean).square() * share).sum(0) / rows
        self._follow(mean, variance * rows / (rows - 1))
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None  # noqa: PT018
        assert self.momentum is not None and self.num_batches_tracked is not None  # noqa: PT018
        self.num_batches_tracked.add_(1)
        # not lerp_, for which torch.vmap has no rule
        self.running_mean.add_((mean - self.running_mean) * self.momentum)
        self.running_var.add_((variance - self.running_var) * self.momentum)


class LayerNorm(torch.nn.LayerNorm):
    """Layer norm, called like :class:`BatchNorm`; it uses one row at a time."""

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        return super().forward(x)


class NoNorm(torch.nn.Module):
    """No normalisation, called like the others."""

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        return x


NORMS = {"batch": BatchNorm, "layer": LayerNorm, None: NoNorm}


def make_norm(name: str | None, channels: int, model: str) -> torch.nn.Module:
    """The normalisation of that name."""
    if name not in NORMS:
        raise ValueError(f"{model}: 'norm' must be one of {tuple(NORMS)}, got {name!r}")
    return NORMS[name](channels) if name is not None else NoNorm()


def counting_nodes(weight: Tensor | None, graphs: Segments) -> Tensor | None:
    """(N,) which nodes count, from the weights of nodes or of graphs; None if all count."""
    if weight is None:
        return None
    counts = weight.flatten() > 0
    if counts.numel() not in (graphs.rows, graphs.count):
        raise ValueError(
            f"'weight' must have one value for each of the {graphs.rows} nodes or {graphs.count} graphs, "
            f"got {counts.numel()}"
        )
    return counts if counts.numel() == graphs.rows else counts.index_select(0, graphs.index)
