r"""PyG's fixed poolings of rows that cannot be negative, through the kernels of the norm.

Sum, mean, max and min of non-negative rows are the points (1, 0), (1, 1), (inf, 0) and, without zeros, (-inf, 0) of
:func:`~gnpool.ops.norm_pool` at eps = 0. Its kernels hold no messages, fold replicas into channels, and give the same
bits on every run, where PyG's scatter adds in any order on a GPU. Gradients are PyG's too, except that a row of 0 gets
none; a ReLU, which is what makes rows non-negative here, passes none on to it either.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, MaxAggregation, MeanAggregation, MinAggregation, SumAggregation

POINTS: dict[type[Aggregation], tuple[float, float]] = {  # p, q
    SumAggregation: (1.0, 0.0),
    MeanAggregation: (1.0, 1.0),
    MaxAggregation: (math.inf, 0.0),
    MinAggregation: (-math.inf, 0.0),
}


def has_fused_form(pooling: object) -> bool:
    """Whether ``pooling`` is one of PyG's four classes, not a subclass, and has no hooks."""
    return type(pooling) in POINTS and not (pooling._forward_hooks or pooling._forward_pre_hooks)  # type: ignore[attr-defined]


def pool_non_negative(pooling: Aggregation, x: Tensor, norm: Callable[[Tensor, float, float], Tensor]) -> Tensor:
    """``pooling`` of ``x`` >= 0, where ``norm(x, p, q)`` pools the same rows by the norm with eps = 0."""
    p, q = POINTS[type(pooling)]
    y = norm(x, p, q)
    if p > 0:
        return y
    has_zero = norm((x <= 0).to(x.dtype), math.inf, 0.0) > 0  # the norm leaves zeros out, but a zero is the minimum
    return torch.where(has_zero, 0.0, y)
