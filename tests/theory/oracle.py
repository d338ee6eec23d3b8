"""The theory once more, in NumPy and plain loops, from the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from gnpool.theory import NeighborSums

Array = NDArray[np.float64]
Pool = Callable[[Array], float]


def gnp(p: float, q: float) -> Pool:
    """GNP of the positive values of z; n counts all."""

    def pool(z: Array) -> float:
        kept = z[z > 0]
        if kept.size == 0:
            return 0.0
        limits = {math.inf: kept.max(), -math.inf: kept.min()}
        norm = limits[p] if p in limits else (kept**p).sum() ** (1 / p)
        return float(z.size**-q * norm)

    return pool


def plain(name: str, relu: bool = True) -> Pool:
    """Sum, mean, max or min of z, with a ReLU before it or without."""
    how = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}[name]
    return lambda z: float(how(np.maximum(z, 0) if relu else z))


def slope(pool: Pool, h: Array, w: Array, step: float = 1e-6) -> Array:
    """The derivative in w of the pooled value of z = h w, by central differences."""
    found = []
    for c in range(w.size):
        shift = np.zeros_like(w)
        shift[c] = step
        found.append((pool(h @ (w + shift)) - pool(h @ (w - shift))) / (2 * step))
    return np.array(found)


def graphs_of(rows: Sequence[Sequence[Sequence[float]]], y: Sequence[float] | None = None) -> NeighborSums:
    """Graphs given by the vectors h of their nodes."""
    sizes = torch.tensor([len(part) for part in rows])
    return NeighborSums(
        h=torch.tensor([h for part in rows for h in part], dtype=torch.float64),
        index=torch.repeat_interleave(torch.arange(len(rows)), sizes),
        sizes=sizes,
        y=torch.tensor(y if y is not None else [1.0] * len(rows), dtype=torch.float64),
    )


def split(graphs: NeighborSums) -> list[Array]:
    """The vectors h of each graph."""
    return [part.numpy() for part in graphs.h.split(graphs.sizes.tolist())]
