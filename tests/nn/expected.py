"""What the layers must give, computed a second time: loops in float64 numpy over the formulas of both coordinates.

Plain powers, no logarithms, no centring: right for the moderate exponents and magnitudes of these tests, and
sharing nothing with the operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gnpool.nn import GNPAggregation

COORDINATES = ("growth", "published")
P_MAX = {"growth": 500.0, "published": 50.0}
in_both_coordinates = pytest.mark.parametrize("coordinates", COORDINATES)

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
    """One channel of one segment in the published form; the values are not negative."""
    n = len(values)
    if p < 0:
        values = values[values > eps]
    if len(values) == 0:
        return 0.0
    return float(n**-q * np.sum((values + eps) ** p) ** (1 / p))


def grown(values: np.ndarray, p: float, growth: float, eps: float, zeros: str = "keep") -> float:
    """One channel of one segment in the growth form; the values are not negative."""
    n = len(values)
    if zeros == "remove":
        values = values[values > eps]
    if len(values) == 0:
        return 0.0
    u = values + eps
    mean = np.exp(np.mean(np.log(u))) if p == 0 else np.mean(u**p) ** (1 / p)
    return float(n**growth * mean)


def gnp(layer: GNPAggregation, x: Tensor, index: Tensor, size: int) -> Tensor:
    """``layer(x, index, dim_size=size)`` for x of shape (N, ..., D), pooled along the first dimension."""
    d = layer.channels
    state = {name: value.detach().double().numpy() for name, value in layer.state_dict().items()}
    v = x.detach().double().numpy()
    v = np.maximum(v, 0) if layer.nonneg == "relu" else np.abs(v)
    half = d // 2
    everything = list(range(d))
    columns = {
        "one": {"": everything},
        "split": {"_pos": everything[:half], "_neg": everything[half:]} if d > 1 else {"_pos": [0], "_neg": [0]},
        "both": {"_pos": everything, "_neg": everything},
        "positive": {"_pos": everything},
        "negative": {"_neg": everything},
    }[layer.branches]
    out = np.zeros((size, *v.shape[1:-1], sum(map(len, columns.values()))))
    factor = np.ones(out.shape[-1])  # of the usual size
    position = 0
    for branch, chosen in columns.items():
        for k, column in enumerate(chosen):
            names = ("raw_p" + branch, ("raw_growth" if layer.coordinates == "growth" else "raw_q") + branch)
            t, exponent_of_size = (float(np.broadcast_to(state[name], len(chosen))[k]) for name in names)
            if branch == "":
                p = min(max(np.sinh(t), -layer.p_max), layer.p_max)
            else:
                p = {"_pos": 1, "_neg": -1}[branch] * min(1 + np.log1p(np.exp(t)), layer.p_max)
            for place in np.ndindex(size, *v.shape[1:-1]):
                segment = v[(index.numpy() == place[0], *place[1:], column)]
                if layer.coordinates == "growth":
                    value = grown(segment, p, exponent_of_size, layer.eps, layer.zeros)
                else:
                    value = pooled(segment, p, exponent_of_size, layer.eps)
                out[(*place, position)] = value
            if layer.coordinates == "growth":
                factor[position] = layer.size**-exponent_of_size
            position += 1
    if "mix.weight" in state:
        out = (out * factor) @ state["mix.weight"].T
    if "mix.bias" in state:
        out = out + state["mix.bias"]
    return torch.from_numpy(out).to(x.dtype)


def scatter_exponents(layer: GNPAggregation) -> GNPAggregation:
    """Give every p, q and growth its own moderate value, so that none can be taken for another."""
    with torch.no_grad():
        for kind, parameters in layer.exponents().items():
            for j, raw in enumerate(parameters):
                steps = torch.arange(raw.numel(), dtype=raw.dtype).view_as(raw)
                step = -0.5 if layer.branches == "one" else 0.25  # one branch: exponents of both signs
                raw.copy_(0.3 + 0.4 * j + step * steps if kind == "p" else 0.5 - 0.8 * j + 0.1 * steps)
    return layer


def set_exponents(layer: GNPAggregation, p: float, size: float) -> GNPAggregation:
    """Set the first p and the last exponent of the size."""
    for name, value in zip(names_of(layer), (p, size), strict=True):
        setattr(layer, name, value)
    return layer


def names_of(layer: GNPAggregation) -> tuple[str, str]:
    """The properties of the first p and of the last exponent of the size."""
    symbol = "growth" if layer.coordinates == "growth" else "q"
    if layer.branches == "one":
        return "p", symbol
    return ("p_neg" if layer.branches == "negative" else "p_pos"), (
        f"{symbol}_pos" if layer.branches == "positive" else f"{symbol}_neg"
    )
