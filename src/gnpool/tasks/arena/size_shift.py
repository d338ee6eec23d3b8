"""Splits of a set of real graphs by size: train on the small half, test on the largest tenth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnpool.data import GraphTable
from gnpool.tasks.streams import Ints, Stream

SMALL, LARGE = 0.5, 0.9  # quantiles of the number of nodes
HELD_OUT = 0.1  # share of the small graphs that is used for validation


@dataclass(frozen=True)
class SizeShift:
    """The three parts of :func:`size_shift`.

    Args:
        train, val, test (GraphTable): The parts.
        smallest_half (float): No graph of ``train`` and ``val`` has more nodes.
        largest_tenth (float): No graph of ``test`` has fewer nodes.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> from gnpool.tasks.arena import size_shift
        >>> parts = size_shift(from_list([Data(x=torch.ones(n, 1)) for n in range(1, 101)], labelled=False))
        >>> parts.smallest_half, int(parts.train.sizes.max()), int(parts.test.sizes.min())
        (50.5, 50, 91)
    """

    train: GraphTable
    val: GraphTable
    test: GraphTable
    smallest_half: float
    largest_tenth: float


def size_shift(table: GraphTable, seed: int = 0) -> SizeShift:
    r"""Splits graphs by size, in the way that is common for sets of the TUDataset collection.

    Graphs with at most as many nodes as the median are shuffled. A tenth of them is for validation and the others are
    for training. Graphs with at least as many nodes as the 0.9 quantile are the test. The graphs between are left out.

    The published splits are a fixed draw of this kind. The split with ``seed=0`` is another one.

    Args:
        table (GraphTable): The graphs, from :func:`gnpool.data.read_graphs`.
        seed (int, optional): Seed of the validation part. (default: ``0``)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> from gnpool.tasks.arena import size_shift
        >>> graphs = [Data(x=torch.ones(n, 1), y=torch.tensor([n % 2])) for n in range(1, 101)]
        >>> parts = size_shift(from_list(graphs))
        >>> len(parts.train.sizes), len(parts.val.sizes), len(parts.test.sizes), parts.test.sizes.min().item()
        (45, 5, 10, 91)
    """
    small, large = (float(cut) for cut in np.quantile(table.sizes, (SMALL, LARGE)))
    if not small < large:
        raise ValueError(
            f"size_shift: half of the graphs have at most {small:g} nodes and a tenth at least {large:g}; "
            "a split by size needs graphs of different sizes"
        )
    inside = np.flatnonzero(table.sizes <= small)
    inside = inside[Stream("arena", "size_shift", seed).permutation(inside.size)]
    held = int(HELD_OUT * inside.size)
    return SizeShift(
        train=table.select(inside[: inside.size - held]),
        val=table.select(inside[inside.size - held :]),
        test=table.select(np.flatnonzero(table.sizes >= large)),
        smallest_half=small,
        largest_tenth=large,
    )


def class_shares(table: GraphTable) -> tuple[float, ...]:
    """The share of each class among the graphs of a table, in the order of its categories.

    Example:
        >>> import numpy as np
        >>> from gnpool.data import Column, GraphTable
        >>> from gnpool.tasks.arena import class_shares
        >>> y = Column("y", np.array([0, 1, 1, 1]), ("inactive", "active"))
        >>> class_shares(GraphTable(np.arange(4), np.ones(4, dtype=int), None, (), y))
        (0.25, 0.75)
    """
    if table.y is None or table.y.categories is None:
        raise ValueError("class_shares: the target of the table must be classes")
    counts: Ints = np.bincount(table.y.values.astype(np.int64), minlength=len(table.y.categories))
    return tuple((counts / counts.sum()).tolist())
