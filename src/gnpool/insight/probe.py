"""Records the input of the GNP layers of a model, and pools it as each branch does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnpool.display.poolings import published_q
from gnpool.nn import GNPAggregation
from gnpool.ops import norm_pool

BRANCHES = {"one": "", "positive": "pos", "negative": "neg"}  # each with the suffix of its parameters' names


def gnp_layers(model: torch.nn.Module) -> dict[str, GNPAggregation]:
    """The GNP layers of a model by path, each once."""
    return {path: module for path, module in model.named_modules() if isinstance(module, GNPAggregation)}


def curve_name(kind: str, branch: str) -> str:
    """The name of an exponent of a branch, as an attribute of its layer and as a curve: ``p``, ``q_pos``, ..."""
    return f"{kind}_{BRANCHES[branch]}".rstrip("_")


@dataclass(frozen=True)
class Branch:
    """One branch of a GNP: its point in the plane, the channels it pools, and its columns of the mixing layer."""

    name: str  # "one", "positive" or "negative"
    p: float  # signed
    growth: float
    inputs: slice  # of the channels of x
    outputs: slice  # of the pooled channels, in front of the mixing layer

    @property
    def q(self) -> float:
        """The exponent of the size in published coordinates; NaN if p is 0."""
        return published_q(self.p, self.growth)


def branches_of(layer: GNPAggregation) -> list[Branch]:
    """The branches of a layer; exponents per channel are averaged."""
    halves = layer.branches == "split" and layer.channels > 1
    found, start = [], 0
    for name in BRANCHES:
        raw = curve_name("raw_p", name)
        if not hasattr(layer, raw):
            continue
        kind = "growth" if layer.coordinates == "growth" else "q"
        p, size = (
            getattr(layer, curve_name(exponent, name)).detach().double().mean().item() for exponent in ("p", kind)
        )
        p = -p if name == "negative" else p
        inputs = slice(0, layer.channels)
        if halves:
            half = layer.channels // 2
            inputs = slice(0, half) if name == "positive" else slice(half, layer.channels)
        width = inputs.stop - inputs.start
        growth = size if kind == "growth" else 1 / p - size
        found.append(Branch(name, p, growth, inputs, slice(start, start + width)))
        start += width
    return found


@dataclass(frozen=True)
class Call:
    """The rows that one call of a layer pooled, as the operator takes them."""

    rows: Tensor  # (N, d), not negative
    index: Tensor | None
    ptr: Tensor | None
    dim_size: int | None
    eps: float
    zeros: str | None  # what the layer does with rows of 0; None for published coordinates

    def pool(self, channels: slice, p: float, growth: float) -> Tensor:
        """The pooling at a point of the plane, in float64, with rows of 0 treated as the layer treats them."""
        rows = self.rows[:, channels].double()
        options: dict[str, Any] = {"p": p, "eps": self.eps}
        if self.zeros is None:
            options["q"] = published_q(p, growth)
        else:
            options |= {"growth": growth, "zeros": self.zeros}
        if self.ptr is not None:
            return norm_pool(rows, ptr=self.ptr, **options)
        return norm_pool(rows, self.index, dim_size=self.dim_size, **options)


@contextmanager
def recording(model: torch.nn.Module) -> Iterator[dict[str, list[Call]]]:
    """Inside the block the calls of every GNP layer are kept, by path."""
    calls: dict[str, list[Call]] = {}
    handles = []
    for path, layer in gnp_layers(model).items():
        calls[path] = []
        # A hook also makes fused layers use the path through `forward`, where their input can be recorded.
        handles.append(layer.register_forward_pre_hook(_recorder(layer, calls[path]), with_kwargs=True))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _recorder(layer: GNPAggregation, calls: list[Call]) -> Callable[..., None]:
    signature = inspect.signature(layer.forward)

    def hook(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        rows = given["x"].detach().movedim(given["dim"], 0)
        rows = rows.relu() if layer.nonneg == "relu" else rows.abs()
        zeros = layer.zeros if layer.coordinates == "growth" else None
        calls.append(Call(rows.flatten(1), given["index"], given["ptr"], given["dim_size"], layer.eps, zeros))

    return hook
