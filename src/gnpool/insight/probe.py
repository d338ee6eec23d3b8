"""What goes into the GNP layers of a model, and what each branch makes of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnpool.nn import GNPAggregation
from gnpool.ops import norm_pool

BRANCHES = {"positive": "pos", "negative": "neg"}


def gnp_layers(model: torch.nn.Module) -> dict[str, GNPAggregation]:
    """The GNP layers of a model by path, each once."""
    return {path: module for path, module in model.named_modules() if isinstance(module, GNPAggregation)}


@dataclass(frozen=True)
class Branch:
    """One branch of a GNP: its exponents, the channels it pools and the columns of the mixing layer it feeds."""

    name: str  # "positive" or "negative"
    p: float  # signed
    q: float
    inputs: slice  # of the channels of x
    outputs: slice  # of the pooled channels, in front of the mixing layer


def branches_of(layer: GNPAggregation) -> list[Branch]:
    """The branches of a layer; exponents per channel are averaged."""
    both = layer.branches == "both" or (layer.branches == "split" and layer.channels == 1)
    found, start = [], 0
    for name, short in BRANCHES.items():
        if not hasattr(layer, f"raw_p_{short}"):
            continue
        p, q = (getattr(layer, f"{exponent}_{short}").detach().double().mean().item() for exponent in "pq")
        p = p if name == "positive" else -p
        if both:
            inputs = slice(0, layer.channels)
        elif layer.branches == "split":
            half = layer.channels // 2
            inputs = slice(0, half) if name == "positive" else slice(half, layer.channels)
        else:
            inputs = slice(0, layer.channels)
        width = inputs.stop - inputs.start
        found.append(Branch(name, p, q, inputs, slice(start, start + width)))
        start += width
    return found


@dataclass(frozen=True)
class Call:
    """The rows that one call of a layer pooled, as the operator takes them."""

    rows: Tensor  # (N, d), not negative
    index: Tensor | None
    ptr: Tensor | None
    dim_size: int | None

    def pool(self, channels: slice, p: float, q: float, eps: float) -> Tensor:
        """The pooling at a point of the plane, in float64."""
        rows = self.rows[:, channels].double()
        if self.ptr is not None:
            return norm_pool(rows, p=p, q=q, ptr=self.ptr, eps=eps)
        return norm_pool(rows, self.index, p=p, q=q, dim_size=self.dim_size, eps=eps)


@contextmanager
def recording(model: torch.nn.Module) -> Iterator[dict[str, list[Call]]]:
    """Inside the block the calls of every GNP layer are kept, by path."""
    calls: dict[str, list[Call]] = {}
    handles = []
    for path, layer in gnp_layers(model).items():
        calls[path] = []
        # A hook also makes fused layers take the way through `forward`, where there is something to see.
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
        calls.append(Call(rows.flatten(1), given["index"], given["ptr"], given["dim_size"]))

    return hook
