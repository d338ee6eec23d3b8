"""The pooling slot: what it can hold, how wide its output is, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.utils.sparse import index2ptr

from gnpool.models.poolings.fused import has_fused_form, pool_non_negative
from gnpool.models.poolings.named import make_pooling
from gnpool.models.poolings.segments import Segments
from gnpool.models.poolings.set2set import Set2Set
from gnpool.models.poolings.sort import SortPooling
from gnpool.nn import GNPAggregation
from gnpool.ops import norm_pool, norm_pool_neighbors

PoolingFunction: TypeAlias = Callable[
    [Tensor, Tensor, int], Tensor
]  # (x, index, number of segments), as PyG's global_add_pool
Pooling: TypeAlias = str | Aggregation | PoolingFunction  # what a slot accepts


class GNPDefaults(NamedTuple):
    """Options that a network gives to every GNP named in one of its slots."""

    bias: bool = False
    nonneg: str | None = "relu"
    t0: float | None = None

    def of_growth(self) -> dict[str, Any]:
        """The options that growth coordinates have."""
        return {"bias": self.bias, "nonneg": self.nonneg}


def fill(
    pooling: Pooling, channels: int, options: Mapping[str, Any] | None, gnp: GNPDefaults, argument: str
) -> Aggregation | PoolingFunction:
    """The pooling of a slot, made by name or given by the user."""
    if isinstance(pooling, str):
        defaults = {"gnp": gnp._asdict(), "gnp+": gnp._asdict(), "gnpg": gnp.of_growth()}.get(pooling, {})
        return make_pooling(pooling, channels, **{**defaults, **(options or {})})
    if not callable(pooling):
        raise TypeError(f"'{argument}' must be a name, an Aggregation or a callable, got {type(pooling).__name__}")
    if options:
        raise ValueError(f"'{argument}_options' need a pooling given by name, got {pooling!r} and {dict(options)}")
    return pooling


@torch.no_grad()
def pooled_channels(pooling: Aggregation | PoolingFunction, channels: int) -> int:
    """The number of channels after ``pooling``.

    Example:
        >>> from gnpool import GNPAggregation
        >>> from gnpool.models import pooled_channels
        >>> pooled_channels(GNPAggregation(16), 16), pooled_channels(GNPAggregation(16, branches="both", mix=False), 16)
        (16, 32)
    """
    if isinstance(pooling, GNPAggregation):  # known without a call, which would compile its kernels
        both = pooling.branches == "both" or (pooling.branches == "split" and channels == 1)
        return 2 * channels if pooling.mix is None and both else channels
    known = getattr(pooling, "out_channels", None)
    if isinstance(known, int):
        return known
    like = next(pooling.parameters(), None) if isinstance(pooling, torch.nn.Module) else None
    x = torch.zeros(1, channels) if like is None else like.new_zeros(1, channels)
    index = torch.zeros(1, dtype=torch.long, device=x.device)
    return pool(pooling, x, Segments(x, index, count=1)).size(-1)


def clips(pooling: Aggregation | PoolingFunction) -> bool:
    """Whether ``pooling`` takes the ReLU of its rows, so that a ReLU before it changes no value."""
    return (
        isinstance(pooling, GNPAggregation)
        and pooling.nonneg == "relu"
        and not (pooling._forward_hooks or pooling._forward_pre_hooks)  # a hook sees the rows
    )


def pool(pooling: Aggregation | PoolingFunction, x: Tensor, segments: Segments, non_negative: bool = False) -> Tensor:
    """Pool rows: (N, D) -> (G, D'); ``non_negative`` says that no row is below 0, which allows faster kernels."""
    if isinstance(pooling, GNPAggregation):
        if segments.given_ptr is not None:  # the rows are already sorted
            return pooling(x, ptr=segments.given_ptr)
        return pooling(x, segments.index, dim_size=segments.count)
    if isinstance(pooling, (SortPooling, Set2Set)):
        return pooling.pool(x, segments)
    if non_negative and segments.given_ptr is not None and has_fused_form(pooling):
        ptr = segments.given_ptr
        return pool_non_negative(pooling, x, lambda v, p, q: norm_pool(v, p=p, q=q, ptr=ptr, eps=0.0))
    if isinstance(pooling, Aggregation):  # not by ptr: vmap runs PyG's path for that in a loop
        return pooling(x, segments.index, dim_size=segments.count)
    return pooling(x, segments.index, segments.count)


def pool_neighbors(
    pooling: Aggregation | PoolingFunction, x: Tensor, edge_index: Tensor, non_negative: bool = False
) -> Tensor:
    """Pool over the neighbours of each node: (N, D) -> (N, D'); with GNP no (E, D) tensor is held, nor with PyG's
    fixed poolings where ``non_negative`` says that no row is below 0.
    """
    if isinstance(pooling, GNPAggregation) and not (pooling._forward_hooks or pooling._forward_pre_hooks):
        return pooling.pool_neighbors(x, edge_index)
    if non_negative and has_fused_form(pooling):
        return pool_non_negative(pooling, x, lambda v, p, q: norm_pool_neighbors(v, edge_index, p=p, q=q, eps=0.0))
    source, destination = plain(edge_index)
    messages = x.index_select(0, source)
    return pool(pooling, messages, Segments(messages, destination, count=x.size(0)))


def plain(edge_index: Tensor) -> Tensor:
    """``edge_index`` without PyG's subclass, whose rows are subclasses too."""
    tensor: Tensor = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
    return tensor


class Edges(NamedTuple):
    """Edges that stand together by destination."""

    source: Tensor  # (E,)
    destination: Tensor  # (E,) sorted
    ptr: Tensor  # (N + 1,) the edges into node v are ptr[v] to ptr[v + 1]
    order: Tensor | None  # (E,) where each edge stood; None: here


def by_destination(edge_index: Tensor, nodes: int) -> Edges:
    """Group the edges by destination, without a sort where an ``EdgeIndex`` says that they are."""
    source, destination = plain(edge_index)
    order = None
    if not getattr(edge_index, "is_sorted_by_col", False):
        destination, order = destination.sort(stable=True)
        source = source[order]
    return Edges(source, destination, index2ptr(destination, nodes), order)
