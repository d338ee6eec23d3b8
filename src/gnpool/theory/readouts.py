r"""Readouts with derivatives that are written by hand.

The library's operator is not used here. The checks compare these formulas with it and with automatic differentiation.

Shapes: N nodes, G graphs, K directions w, so that ``z`` (N, K) holds :math:`z_{uk} = w_k^\top h_u`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from gnpool.theory.graphs import NeighborSums

PLAIN = ("sum", "mean", "max", "min")


class Readout(ABC):
    """A pooling of all nodes of a graph, channel by channel, that is homogeneous of degree 1.

    Example:
        >>> import torch
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, PlainReadout, neighbor_sums
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("test", structure="ladder", sizes=(6, 7), count=1))
        >>> for readout in (PlainReadout("sum"), NormReadout(2.0)):
        ...     value, slope = readout.pool(graphs.h, graphs)
        ...     print(readout.name, value.item(), tuple(slope.shape))
        sum 14.0 (6, 1)
        GNP (2, 0) 5.830951894845301 (6, 1)
    """

    name: str

    @abstractmethod
    def pool(self, z: Tensor, graphs: NeighborSums) -> tuple[Tensor, Tensor]:
        r"""The pooled value P (G, K), and its derivative :math:`\partial P / \partial z` at every node, (N, K)."""


@dataclass(frozen=True)
class NormReadout(Readout):
    r"""ReLU, then GNP with fixed exponents and no tolerance.

    .. math::
        P = n^{-q} S^{1/p}, \quad S = \sum_{u:\, z_u > 0} z_u^p, \qquad
        \frac{\partial P}{\partial z_u} = n^{-q} \left( \frac{z_u}{S^{1/p}} \right)^{p-1} \mathbb{1}[z_u > 0]

    where n counts all nodes. Without a positive :math:`z_u` the value is 0. At :math:`p = \pm\infty` it is the largest
    or smallest positive value, and ties share the derivative.

    Args:
        p (float): Exponent, positive or negative, infinite or not.
        q (float): Exponent of the number of nodes. (default: ``0.0``)

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import NormReadout, neighbor_sums
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("test", structure="ladder", sizes=(6, 7), count=1))
        >>> NormReadout(-1.0).pool(graphs.h, graphs)[0].item(), graphs.y.item()  # the harmonic sum of the degrees
        (0.375, 0.375)
    """

    p: float
    q: float = 0.0

    def __post_init__(self) -> None:
        if self.p == 0 or math.isnan(self.p):
            raise ValueError(f"NormReadout: 'p' must be a number other than 0, got {self.p}")

    @property
    def name(self) -> str:  # type: ignore[override]  # the others store theirs
        """Its name in tables."""
        return f"GNP ({self.p:g}, {self.q:g})"

    def pool(self, z: Tensor, graphs: NeighborSums) -> tuple[Tensor, Tensor]:
        size_factor = graphs.sizes.double()[:, None] ** -self.q
        kept = z > 0
        log_z = torch.where(kept, z, 1.0).log()
        towards = math.copysign(1.0, self.p)
        extreme = towards * _reduce(torch.where(kept, towards * log_z, -torch.inf), graphs, "amax")  # log scale
        alive = extreme.isfinite()
        extreme = torch.where(alive, extreme, 0.0)
        relative = log_z - extreme[graphs.index]
        if math.isinf(self.p):
            tie = torch.where(kept & (relative == 0), 1.0, 0.0)
            log_norm, weight = extreme, tie / _reduce(tie, graphs, "sum").clamp(min=1.0)[graphs.index]
        else:
            total = _reduce(torch.where(kept, (self.p * relative).exp(), 0.0), graphs, "sum")
            shift = torch.where(alive, total, 1.0).log() / self.p
            log_norm, weight = extreme + shift, ((self.p - 1.0) * (relative - shift[graphs.index])).exp()
        value = torch.where(alive, size_factor * log_norm.exp(), 0.0)
        return value, torch.where(kept, size_factor[graphs.index] * weight, 0.0)


@dataclass(frozen=True)
class PlainReadout(Readout):
    r"""Sum, mean, max or min of all nodes, after a ReLU or without one. Ties of a max or min share its derivative.

    Args:
        name (str): ``"sum"``, ``"mean"``, ``"max"`` or ``"min"``.
        relu (bool, optional): Whether a ReLU stands before the pooling. (default: ``True``)

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import PlainReadout, neighbor_sums
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("test", structure="ladder", sizes=(6, 7), count=1))
        >>> value, slope = PlainReadout("max").pool(graphs.h, graphs)
        >>> value.item(), slope.flatten().tolist()  # the two largest degrees share the derivative
        (3.0, [0.0, 0.5, 0.0, 0.0, 0.5, 0.0])
    """

    name: str
    relu: bool = True

    def __post_init__(self) -> None:
        if self.name not in PLAIN:
            raise ValueError(f"PlainReadout: 'name' must be one of {', '.join(PLAIN)}, got {self.name!r}")

    def pool(self, z: Tensor, graphs: NeighborSums) -> tuple[Tensor, Tensor]:
        slope = (z > 0).double() if self.relu else torch.ones_like(z)
        v = z.relu() if self.relu else z
        if self.name in ("sum", "mean"):
            sizes = graphs.sizes.double()[:, None]
            share = torch.ones_like(sizes) if self.name == "sum" else 1.0 / sizes
            return share * _reduce(v, graphs, "sum"), share[graphs.index] * slope
        extreme = _reduce(v, graphs, "amax" if self.name == "max" else "amin")
        tie = (v == extreme[graphs.index]).double()
        return extreme, slope * tie / _reduce(tie, graphs, "sum")[graphs.index]


def _reduce(values: Tensor, graphs: NeighborSums, how: str) -> Tensor:
    """Combine the rows of each graph: (N, K) -> (G, K)."""
    out = values.new_zeros(len(graphs), values.size(1))
    return out.scatter_reduce(0, graphs.index[:, None].expand_as(values), values, how, include_self=False)
