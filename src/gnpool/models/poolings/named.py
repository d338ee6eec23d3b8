"""The poolings by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_geometric.nn.aggr import (
    Aggregation,
    MaxAggregation,
    MeanAggregation,
    MinAggregation,
    PowerMeanAggregation,
    SoftmaxAggregation,
    SumAggregation,
)

from gnpool.models.poolings.gnp import StudyGNPAggregation
from gnpool.models.poolings.pna import PNAAggregation
from gnpool.models.poolings.set2set import Set2Set
from gnpool.models.poolings.sort import SortPooling
from gnpool.nn import GNPAggregation


def make_pooling(name: str, channels: int, **options: Any) -> Aggregation:
    r"""The pooling called ``name`` for ``channels`` channels, as an aggregation of PyTorch Geometric.

    ====================  =========================================================  ===============
    name                  pooling                                                    output channels
    ====================  =========================================================  ===============
    sum, max, mean, min   PyG's; an empty segment gives 0                            d
    gnp                   :class:`gnpool.GNPAggregation` as published                d
    gnp+                  the same with all channels through the positive branch     d
    gnpg                  :class:`gnpool.GNPAggregation` in growth coordinates       d
    sort                  :class:`SortPooling`, k = 20                               k d
    set2set               :class:`Set2Set`, one iteration                            2 d
    pna                   :class:`PNAAggregation`                                    d
    powermean, softmax    PyG's, with one learned exponent or temperature            d
    ====================  =========================================================  ===============

    The options of gnp and gnp+ are those of :class:`gnpool.GNPAggregation` and of :class:`StudyGNPAggregation`
    (``mask``, ``t0``, ``q0``), those of gnpg the former alone; those of sort are ``k`` and ``sort_channels``; that of
    set2set is ``processing_steps``, that of pna ``scale``.

    .. note::
        Where several elements are the largest (or smallest), the gradient of PyG's max (min) is shared evenly among
        them.

    Args:
        name (str): One of the names above.
        channels (int): Number of input channels d.
        **options (optional): Options of that pooling.

    Example:
        >>> from gnpool.models import make_pooling
        >>> make_pooling("gnp", 32, mask="negative")
        StudyGNPAggregation(32, coordinates='published', mask='negative')
        >>> make_pooling("sort", 32, k=10)
        SortPooling(32, k=10, sort_channels=True)
    """
    if name not in POOLINGS:
        raise ValueError(f"make_pooling: 'name' must be one of {tuple(POOLINGS)}, got {name!r}")
    kind = POOLINGS[name]
    unknown = [option for option in options if option not in kind.options]
    if unknown:
        takes = f"the options {kind.options}" if kind.options else "no options"
        raise TypeError(f"make_pooling: {name!r} takes {takes}, got {unknown[0]!r}")
    return kind.build(channels, **options)


def register_pooling(name: str, build: Callable[..., Aggregation], options: Sequence[str] = ()) -> None:
    """Register your own pooling under a name that every network accepts.

    Args:
        name (str): Its name.
        build (callable): ``build(channels, **options)`` makes the aggregation.
        options (Sequence[str], optional): Names of the options that it takes. (default: none)

    Example:
        >>> from torch_geometric.nn.aggr import MedianAggregation
        >>> from gnpool.models import make_pooling, register_pooling
        >>> register_pooling("middle", lambda channels: MedianAggregation())
        >>> make_pooling("middle", 32)
        MedianAggregation()
    """
    if name in POOLINGS:
        raise ValueError(f"there is already a pooling {name!r}; choose another 'name'")
    POOLINGS[name] = Kind(build, tuple(options))


def _gnp(channels: int, **options: Any) -> GNPAggregation:
    options = {"coordinates": "published", **options}
    if any(options.get(name) is not None for name in STUDY_OPTIONS):
        return StudyGNPAggregation(channels, **options)
    return GNPAggregation(channels, **{name: value for name, value in options.items() if name not in STUDY_OPTIONS})


@dataclass(frozen=True)
class Kind:
    """How a named pooling is built, and the options it takes."""

    build: Callable[..., Aggregation]
    options: tuple[str, ...] = ()


STUDY_OPTIONS = ("mask", "t0", "q0")
GROWTH_OPTIONS = tuple(inspect.signature(GNPAggregation).parameters)[1:]
GNP_OPTIONS = (*GROWTH_OPTIONS, *STUDY_OPTIONS)
POOLINGS = {
    "sum": Kind(lambda channels: SumAggregation()),
    "max": Kind(lambda channels: MaxAggregation()),
    "mean": Kind(lambda channels: MeanAggregation()),
    "min": Kind(lambda channels: MinAggregation()),
    "gnp": Kind(_gnp, GNP_OPTIONS),
    "gnp+": Kind(
        lambda channels, **options: _gnp(channels, branches="positive", **options),
        tuple(name for name in GNP_OPTIONS if name not in ("branches", "mask")),
    ),
    "gnpg": Kind(GNPAggregation, GROWTH_OPTIONS),
    "sort": Kind(SortPooling, ("k", "sort_channels")),
    "set2set": Kind(Set2Set, ("processing_steps",)),
    "pna": Kind(PNAAggregation, ("scale",)),
    "powermean": Kind(lambda channels: PowerMeanAggregation(learn=True)),
    "softmax": Kind(lambda channels: SoftmaxAggregation(learn=True)),
}
