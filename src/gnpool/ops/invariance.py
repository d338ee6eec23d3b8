"""Tests of invariance: functions that return the largest relative change of a pooling's result.

``pool(x, index, dim_size)`` is any pooling of the rows of ``x`` by segment: ours, PyG's or your own.

Example:
    >>> import torch
    >>> from gnpool import norm_pool
    >>> from gnpool.ops import invariance
    >>> pool = lambda x, index, dim_size: norm_pool(x, index, p=3.0, q=0.5, dim_size=dim_size)
    >>> x, index = torch.rand(9, 2), torch.arange(9) % 4
    >>> invariance.permuted_rows(pool, x, index, 4) < 1e-6
    True
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Pooling = Callable[[Tensor, Tensor, int], Tensor]


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """The largest ``|actual - expected| / |expected|``; equal values (infinities, NaN, zeros) count 0."""
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    error = (actual - expected).abs() / expected.abs()
    worst = torch.where(same, 0.0, error.nan_to_num(nan=torch.inf, posinf=torch.inf))
    return float(worst.max()) if worst.numel() else 0.0


def permuted_rows(pool: Pooling, x: Tensor, index: Tensor, dim_size: int) -> float:
    """The order of the rows does not matter."""
    order = torch.randperm(index.numel(), device=index.device)
    return relative_error(pool(x[order], index[order], dim_size), pool(x, index, dim_size))


def permuted_segments(pool: Pooling, x: Tensor, index: Tensor, dim_size: int) -> float:
    """The numbering of the segments does not matter, but for the order of the output."""
    order = torch.randperm(dim_size, device=index.device)
    return relative_error(pool(x, order[index], dim_size)[order], pool(x, index, dim_size))


def padded(pool: Pooling, x: Tensor, index: Tensor, dim_size: int, more: int = 3) -> float:
    """Empty segments at the end change nothing and give 0."""
    out = pool(x, index, dim_size + more)
    return max(
        relative_error(out[:dim_size], pool(x, index, dim_size)),
        relative_error(out[dim_size:], torch.zeros_like(out[dim_size:])),
    )


def scaled(pool: Pooling, x: Tensor, index: Tensor, dim_size: int, factor: float) -> float:
    """Homogeneous of degree 1: ``factor`` > 0 times the input is ``factor`` times the output (needs eps = 0)."""
    return relative_error(pool(x * factor, index, dim_size), pool(x, index, dim_size) * factor)


def repeated(pool: Pooling, x: Tensor, index: Tensor, dim_size: int, times: int = 3) -> float:
    """A batch of copies gives copies of the result."""
    shift = torch.arange(times, device=index.device).repeat_interleave(index.numel()) * dim_size
    out = pool(x.repeat(times, 1), index.repeat(times) + shift, times * dim_size)
    return relative_error(out, pool(x, index, dim_size).repeat(times, 1))
