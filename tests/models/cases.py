"""Batches for the networks, and their expected outputs, computed a second time by loops in numpy."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state

from gnpool.models import make_pooling
from gnpool.nn import GNPAggregation
from tests.nn.expected import gnp, scatter_exponents

FIXED = ("sum", "max", "mean", "min")
GNPS = ("gnp", "gnp+", "gnpg")
POOLINGS = (*FIXED, *GNPS, "sort", "set2set")
SIZES = (4, 1, 5, 3)  # the second graph is a single node, and two nodes of the last have no edges
EDGES = ((0, 1), (1, 2), (2, 3), (0, 2), (5, 6), (6, 7), (7, 8), (8, 9), (5, 9), (5, 8))
CHANNELS = 2


def graphs(dummy: tuple[int, ...] = ()) -> dict[str, Any]:
    """The arguments of a network for four graphs, and after them a dummy of each given size."""
    sizes = torch.tensor([*SIZES, *dummy])
    ptr = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    real, rows = sum(SIZES), int(sizes.sum())
    pairs = list(EDGES) + [(i, i + 1) for i in range(real, real + sum(dummy) // 2)]
    edge_index = torch.tensor(pairs + [(b, a) for a, b in pairs]).T
    edge_index = edge_index[:, (edge_index[1] * rows + edge_index[0]).argsort()]
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(real, CHANNELS, dtype=torch.float64, generator=generator) * 4 - 1
    x = torch.cat([x, torch.zeros(rows - real, CHANNELS, dtype=torch.float64)])
    return {
        "x": x,
        "edge_index": edge_index,
        "batch": torch.arange(len(sizes)).repeat_interleave(sizes),
        "ptr": ptr,
        "batch_size": len(sizes),
        "max_nodes": int(sizes.max()) + 1,
    }


def nodes(weighted: bool, dummy: tuple[int, ...] = ()) -> dict[str, Any]:
    """The arguments of a network for nodes: every real node has a loop of weight 0."""
    inputs = graphs(dummy)
    real, rows = sum(SIZES), inputs["x"].size(0)
    edges = torch.cat([inputs["edge_index"], torch.arange(real).expand(2, real)], dim=1)
    edges = edges[:, (edges[1] * rows + edges[0]).argsort()]
    weight = (edges.prod(dim=0) % 7).double() / 3 * (edges[0] != edges[1])
    return {"x": inputs["x"], "edge_index": edges, **({"edge_weight": weight} if weighted else {})}


def sets(dummy: tuple[int, ...] = ()) -> dict[str, Any]:
    inputs = graphs(dummy)
    del inputs["edge_index"]
    return inputs


def alive(make: Callable[[], torch.nn.Module], seed: int = 0) -> torch.nn.Module:
    """A model in float64 with spread weights, exponents that differ, and few dead units."""
    torch.manual_seed(seed)
    model = make().double()
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.3, 0.7)
    for module in model.modules():
        if isinstance(module, GNPAggregation):
            scatter_exponents(module)
    return model


def gradients(model: torch.nn.Module, inputs: dict[str, Any], items: int) -> tuple[Tensor, dict[str, Tensor]]:
    """The first ``items`` outputs, and the gradient of a sum over them that gives each its own weight."""
    y = model(**inputs)[:items]
    weights = torch.linspace(1, 2, y.numel(), dtype=y.dtype).view_as(y)
    found = torch.autograd.grad((weights * y.square()).sum(), list(model.parameters()), allow_unused=True)
    zeros = [torch.zeros_like(p) if g is None else g for p, g in zip(model.parameters(), found, strict=True)]
    return y.detach(), dict(zip(dict(model.named_parameters()), zeros, strict=True))


@contextmanager
def no_fallback() -> Iterator[None]:
    """Fail where an operator has no batching rule and vmap falls back to a loop."""
    torch._C._functorch._set_vmap_fallback_warning_enabled(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*performance drop.*")
            yield
    finally:
        torch._C._functorch._set_vmap_fallback_warning_enabled(False)  # torch's default


def assert_replicas_agree(make: Callable[[], torch.nn.Module], inputs: dict[str, Any]) -> None:
    """Three models at once by vmap equal the three alone, in value and gradient, without a loop inside."""
    models = [alive(make, seed) for seed in range(3)]
    stacked, _ = stack_module_state(models)
    base = copy.deepcopy(models[0])
    with no_fallback():
        y = torch.vmap(lambda parameters: functional_call(base, parameters, (), inputs))(stacked)
        weights = torch.linspace(1, 2, y[0].numel(), dtype=y.dtype).view_as(y[0])
        found = torch.autograd.grad((weights * y.square()).sum(), list(stacked.values()), allow_unused=True)
    for k, model in enumerate(models):
        alone, wanted = gradients(model, inputs, y.size(1))
        torch.testing.assert_close(y[k], alone)
        assert sum(float(g.abs().sum()) for g in wanted.values()) > 0
        for name, gradient in zip(stacked, found, strict=True):
            got = torch.zeros_like(wanted[name]) if gradient is None else gradient[k]
            torch.testing.assert_close(got, wanted[name], msg=lambda text, name=name: f"{name}: {text}")


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def dense(layer: torch.nn.Linear, x: np.ndarray) -> np.ndarray:
    y = x @ array(layer.weight).T
    return y if layer.bias is None else y + array(layer.bias)


def activate(name: str, x: np.ndarray) -> np.ndarray:
    slope = {"relu": 0.0, "leaky_relu": 0.01}
    return np.where(x > 0, x, slope[name] * x if name in slope else np.exp(np.minimum(x, 0)) - 1)


def pooled(pooling: Any, rows: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    """``pooling`` over the rows of each segment; 0 where there is none."""
    if isinstance(pooling, GNPAggregation):
        return array(gnp(pooling, torch.from_numpy(rows), torch.from_numpy(index), size))
    name = type(pooling).__name__.removesuffix("Aggregation").lower()
    out = np.zeros((size, rows.shape[1]))
    for segment in range(size):
        chosen = rows[index == segment]
        if len(chosen):
            out[segment] = getattr(np, name)(chosen, axis=0)
    return out


def pooling_of(name: str, channels: int, **options: Any) -> Any:
    return alive(lambda: make_pooling(name, channels, **options))
