r"""Tests which pooling of the (p, q) plane learns which target of the same family.

For scalar features the kernel of a linear head after ReLU and GNP has rank 1, so kernel regression returns
:math:`c\, \mathrm{GNP}_{p,q}` with the factor c fitted on the training graphs. The map shows how wrong that is on
graphs it was not fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gnpool.theory.graphs import NeighborSums
from gnpool.theory.readouts import NormReadout

STEPS_P = 20  # columns of a map on each side, from 1/p = 0 outwards
MAX_INVERSE = 2.0  # the map ends at p = 0.5 and p = -0.5
_POSITIVE = [math.inf, *(STEPS_P / (MAX_INVERSE * k) for k in range(1, STEPS_P + 1))]
GRID_P = [*(-p for p in reversed(_POSITIVE)), *_POSITIVE]  # even steps of 1/p, where max and min meet at 0
GRID_Q = [round(-2.0 + 0.1 * k, 10) for k in range(41)]


@dataclass(frozen=True)
class Target:
    r"""The label :math:`n^{-b} \left(\sum_v \deg(v)^a\right)^{1/a}`, or max or min of the degrees for infinite a.

    Args:
        name (str): Its name in tables.
        a (float): Exponent of the degrees.
        b (float): Exponent of the number of nodes.

    Example:
        >>> from gnpool.theory import Target
        >>> Target("root mean square", 2.0, 0.5).label([3.0, 4.0])
        3.5355
    """

    name: str
    a: float
    b: float

    def label(self, degrees: Sequence[float]) -> float:
        """The label of one graph."""
        x = np.asarray(degrees, dtype=np.float64)
        limits = {math.inf: x.max(), -math.inf: x.min()}
        norm = limits[self.a] if self.a in limits else (x**self.a).sum() ** (1.0 / self.a)
        return float(norm * x.size**-self.b)


TARGETS = (
    Target("sum", 1.0, 0.0),
    Target("mean", 1.0, 1.0),
    Target("root mean square", 2.0, 0.5),
    Target("max", math.inf, 0.0),
    Target("min", -math.inf, 0.0),
    Target("harmonic sum", -1.0, 0.0),
)


def target_labels(graphs: NeighborSums, target: Target) -> Tensor:
    """The labels (G,) of graphs whose nodes have the feature 1.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import Target, neighbor_sums, target_labels
        >>> graphs = neighbor_sums(get_task("harmonic").dataset("test", structure="ladder", sizes=(6, 7), count=1))
        >>> target_labels(graphs, Target("mean", 1.0, 1.0))  # the mean degree
        tensor([2.3333], dtype=torch.float64)
    """
    parts = graphs.h[:, 0].split(graphs.sizes.tolist())
    return torch.tensor([target.label(part.tolist()) for part in parts], dtype=torch.float64)


@dataclass(frozen=True)
class PlaneMap:
    """The worst error over all test sets, in percent, for every pooling of a grid and one target.

    Args:
        target (Target): The target.
        p (list): Exponents of the columns.
        q (list): Size exponents of the rows.
        error (torch.Tensor): (rows, columns).

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import TARGETS, neighbor_sums, plane_map
        >>> train, test = (neighbor_sums(get_task("harmonic").dataset(split, count=9)) for split in ("train", "test"))
        >>> found = plane_map(train, {"er": test}, TARGETS[0], p=[1.0, 2.0], q=[0.0, 1.0])
        >>> found.target.name, found.error.shape, bool(found.error[0, 0] < 1e-9)  # the sum is (1, 0)
        ('sum', torch.Size([2, 2]), True)
    """

    target: Target
    p: list[float]
    q: list[float]
    error: Tensor


def plane_map(
    train: NeighborSums,
    tests: Mapping[str, NeighborSums],
    target: Target,
    p: Sequence[float] = GRID_P,
    q: Sequence[float] = GRID_Q,
) -> PlaneMap:
    r"""Fit every GNP of a grid to a target by kernel regression, and test it.

    Example:
        >>> from gnpool.tasks import get_task
        >>> from gnpool.theory import TARGETS, neighbor_sums, plane_map
        >>> task = get_task("harmonic")
        >>> train, test = (neighbor_sums(task.dataset(split, count=9)) for split in ("train", "test"))
        >>> found = plane_map(train, {"er": test}, TARGETS[1], p=[1.0, 2.0], q=[0.0, 1.0])  # the mean is (1, 1)
        >>> found.error[1, 0].item() < 1e-9, found.error[0, 0].item() > 100
        (True, True)
    """
    known = target_labels(train, target)
    wanted = {name: target_labels(graphs, target) for name, graphs in tests.items()}
    exponents = torch.tensor(list(q), dtype=torch.float64)
    columns = []
    for exponent in p:
        features = _pooled(train, exponent, exponents)  # (G, rows)
        factors = (known @ features) / features.square().sum(0)  # kernel regression with a kernel of rank 1
        errors = []
        for name, graphs in tests.items():
            off = factors * _pooled(graphs, exponent, exponents) / wanted[name][:, None] - 1.0
            errors.append(100.0 * off.abs().mean(0))
        columns.append(torch.stack(errors).amax(0))
    return PlaneMap(target, list(p), list(q), torch.stack(columns, dim=1))


def _pooled(graphs: NeighborSums, p: float, q: Tensor) -> Tensor:
    """GNP of the degrees for one p and several q, (G, Q)."""
    value, _ = NormReadout(p).pool(graphs.h, graphs)
    return value * graphs.sizes.double()[:, None] ** -q
