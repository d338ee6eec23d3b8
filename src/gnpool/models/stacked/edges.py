"""What both implementations of GNP on a stack share: its constants, and powers of edge weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gnpool.models.stacked.replicas import Neighbors, Pattern


class Kind(NamedTuple):
    """Constants that all rows of one pooling share."""

    positive: int  # channels of the positive branch
    eps: float
    p_max: float
    dtype: torch.dtype  # of the powers
    offset: float  # log2 of the largest power


class EdgePowers:
    """Powers of edge weights for each branch, relative to the largest power of a network."""

    def __init__(self, weight: Tensor, p: Tensor, pattern: Pattern, kind: Kind) -> None:
        assert isinstance(pattern, Neighbors)
        self.pattern, self.positive = pattern, kind.positive
        self.part = pattern.row // pattern.graphs.width
        self.there = weight > 0
        self.log2_weight = torch.where(self.there, weight, 1.0).double().log2()
        raised = torch.where(self.there[:, None], p[self.part] * self.log2_weight[:, None], -torch.inf)  # (E, 2)
        index = self.part[:, None].expand_as(raised)
        centre = torch.full_like(p, -torch.inf).scatter_reduce(0, index, raised, "amax")
        self.centre = torch.where(centre.isinf(), 0.0, centre)  # (R, 2)
        self.ratio = raised - self.centre[self.part]  # log2, -inf if an edge takes no part
        self.values = self.ratio.exp2().to(kind.dtype)

    def _branches(self, x: Tensor) -> list[Tensor]:
        return [x[:, : self.positive], x[:, self.positive :]]

    def times(self, x: Tensor) -> Tensor:
        return self._times(x, self.values)

    def transposed_times(self, x: Tensor) -> Tensor:
        return self._times(x, self.values[self.pattern.mirror])

    def log_times(self, x: Tensor, p: Tensor) -> Tensor:
        """The powers, times the logarithms of their weights, times x."""
        return self._times(x, (self.values * self._logs(p)).to(x.dtype))

    def _times(self, x: Tensor, values: Tensor) -> Tensor:
        return torch.cat([self.pattern.times(part, values[:, k]) for k, part in enumerate(self._branches(x))], dim=1)

    def _logs(self, p: Tensor) -> Tensor:
        return torch.where(self.there[:, None], self.ratio / p[self.part], 0.0)

    def dots(self, pull: Tensor, power: Tensor) -> Tensor:
        """The product of each entry's row of ``pull`` and column of ``power``, by branch: (E, 2)."""
        row, col = self.pattern.row, self.pattern.col
        pairs = zip(self._branches(pull), self._branches(power), strict=True)
        return torch.stack([(a.index_select(0, row) * b.index_select(0, col)).sum(1) for a, b in pairs], dim=1)

    def slopes(self, dots: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient in the weights (E), and the part of the gradient in p from their logarithms, (R, 2)."""
        shares = (self.values * dots).double()  # (E, 2)
        by_p = torch.zeros_like(p).index_add(0, self.part, shares * self._logs(p))
        return torch.where(self.there, shares.sum(1) / self.log2_weight.exp2(), 0.0), by_p
