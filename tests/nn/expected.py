"""What the layers must give, computed a second time: loops in float64 numpy over the formula of the paper.

Plain powers, no logarithms, no centring: right for the moderate exponents and magnitudes of these tests, and
sharing nothing with the operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.nn import GNPAggregation

# Segment 2 is empty, segment 3 has one element; unsorted.
INDEX = torch.tensor([1, 0, 3, 0, 1, 0, 4, 4, 0])
SIZE = 5


def name_of(options: dict[str, Any]) -> str:
    return ",".join(f"{value}" if isinstance(value, str) else f"{key}={value}" for key, value in options.items())


def features(channels: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows with negative values, zeros and values at, below and just above the tolerance."""
    x = 3 * torch.randn(len(INDEX), channels, dtype=dtype)
    x[0], x[3, 0], x[5, -1], x[6, -1], x[7, 0] = 0.0, 1e-6, 5e-7, -1e-3, 3e-6
    return x


def pooled(values: np.ndarray, p: float, q: float, eps: float) -> float:
    """One channel of one segment; the values are not negative."""
    n = len(values)
    if p < 0:
        values = values[values > eps]
    if len(values) == 0:
        return 0.0
    return float(n**-q * np.sum((values + eps) ** p) ** (1 / p))


def gnp(layer: GNPAggregation, x: Tensor, index: Tensor, size: int) -> Tensor:
    """``layer(x, index, dim_size=size)`` for x of shape (N, ..., D), pooled along the first dimension."""
    d = layer.channels
    state = {name: value.detach().double().numpy() for name, value in layer.state_dict().items()}
    v = x.detach().double().numpy()
    v = np.maximum(v, 0) if layer.nonneg == "relu" else np.abs(v)
    half = d // 2
    everything = list(range(d))
    columns = {
        "split": (everything[:half], everything[half:]) if d > 1 else (everything, everything),
        "both": (everything, everything),
        "positive": (everything, []),
        "negative": ([], everything),
    }[layer.branches]
    out = np.zeros((size, *v.shape[1:-1], len(columns[0]) + len(columns[1])))
    position = 0
    for name, sign, chosen in zip(("pos", "neg"), (1, -1), columns, strict=True):
        for k, column in enumerate(chosen):
            t, q = (np.broadcast_to(state[f"raw_{symbol}_{name}"], len(chosen))[k] for symbol in "pq")
            p = sign * min(1 + np.log1p(np.exp(t)), layer.p_max)
            for place in np.ndindex(size, *v.shape[1:-1]):
                segment = v[(index.numpy() == place[0], *place[1:], column)]
                out[(*place, position)] = pooled(segment, p, float(q), layer.eps)
            position += 1
    if "mix.weight" in state:
        out = out @ state["mix.weight"].T
    if "mix.bias" in state:
        out = out + state["mix.bias"]
    return torch.from_numpy(out).to(x.dtype)


def scatter_exponents(layer: GNPAggregation) -> GNPAggregation:
    """Give every p and q its own moderate value, so that none can be taken for another."""
    with torch.no_grad():
        for k, parameters in enumerate(layer.exponents()):
            for j, raw in enumerate(parameters):
                steps = torch.arange(raw.numel(), dtype=raw.dtype).view_as(raw)
                raw.copy_(0.3 + 0.4 * j + 0.25 * steps if k == 0 else 0.5 - 0.8 * j + 0.1 * steps)
    return layer
