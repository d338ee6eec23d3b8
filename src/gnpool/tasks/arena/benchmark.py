"""The class of benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.tasks.streams import Stream

Fields: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Streams:
    """The random numbers of one part of a benchmark under one seed: a stream for each purpose."""

    benchmark: str
    part: str
    seed: int

    def __call__(self, purpose: str) -> Stream:
        return Stream("arena", self.benchmark, self.part, self.seed, purpose)


DTYPES = {"x": torch.float32, "edge_weight": torch.float32}  # as networks take them; labels keep their precision


@dataclass(frozen=True)
class Part:
    """One set of graphs of a benchmark.

    Args:
        count (int): The published number of graphs.
        text (str): A short description of the graphs.

    Example:
        >>> from gnpool.tasks.arena import get_benchmark
        >>> part = get_benchmark("colors").parts["large"]
        >>> part.count, part.text
        (2500, '26 to 200 nodes')
    """

    count: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    r"""A public benchmark of size generalisation, drawn anew by our generator.

    Args:
        name (str): Its name for :func:`get_benchmark`.
        target (str): The label in one line.
        metric (str): The metric of published tables.
        in_channels (int): Number of node features.
        parts (dict): Its sets of graphs by name; the first one is for training.
        draw (callable): ``draw(part, count, streams)`` yields the fields of ``count`` graphs as arrays.
            ``streams(purpose)`` gives random numbers.

    Example:
        >>> from gnpool.tasks.arena import get_benchmark
        >>> benchmark = get_benchmark("good_motif_size")
        >>> benchmark.dataset("test", count=2)[0]
        Data(x=[149, 1], edge_index=[2, 464], y=[1], motif=[1], basis=[1], width=[1])
    """

    name: str
    target: str
    metric: str
    in_channels: int
    parts: Mapping[str, Part]
    draw: Callable[[str, int, Streams], Iterator[Fields]]

    def dataset(self, part: str, *, seed: int = 0, count: int | None = None) -> list[Data]:
        r"""The graphs of one part.

        Equal arguments give equal data on every machine, except for rounding of labels. Each (benchmark, part, seed)
        has its own random numbers, and a smaller ``count`` gives the first graphs of a larger one.

        Args:
            part (str): One of ``parts``.
            seed (int, optional): Seed of the data. (default: ``0``)
            count (int, optional): Number of graphs. (default: the published one)

        Returns:
            One :class:`torch_geometric.data.Data` per graph. ``x`` and ``edge_weight`` are float32, other fractions
            float64, whole numbers int64. ``edge_index`` holds both directions of every edge, sorted by destination,
            then source.
        """
        if part not in self.parts:
            raise ValueError(f"'part' of '{self.name}' must be one of {', '.join(self.parts)}, got {part!r}")
        if count is None:
            count = self.parts[part].count
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"'count' must be a whole number from 1, got {count!r}")
        return [_to_data(fields) for fields in self.draw(part, count, Streams(self.name, part, seed))]


def _to_data(fields: Fields) -> Data:
    return Data(**{name: _tensor(name, np.asarray(value)) for name, value in fields.items()})


def _tensor(name: str, value: np.ndarray[Any, Any]) -> torch.Tensor:
    whole = np.issubdtype(value.dtype, np.integer) or value.dtype == bool
    return torch.as_tensor(value, dtype=DTYPES.get(name, torch.int64 if whole else torch.float64))
