"""Many graphs in flat arrays, the form that all readers return."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnpool.data.errors import DataError

LARGEST_SQUARE = 3_037_000_499  # the largest number whose square fits 64 bits
LARGEST_WHOLE = 2**53  # float64 holds every whole number below
Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """Named values, one for each node or graph.

    Args:
        name (str): Its name in the user's data.
        values (array): Numbers with NaN for missing ones, or positions in ``categories`` with -1 for missing ones.
        categories (tuple[str, ...], optional): The categories of a categorical column.

    Example:
        >>> import numpy as np
        >>> from gnpool.data import Column
        >>> bond = Column("bond", np.array([1, 0, 0]), ("double", "single"))
        >>> bond.plain().tolist(), bond.take(np.array([2])).values
        (['single', 'double', 'double'], array([0]))
    """

    name: str
    values: Floats | Ints
    categories: tuple[str, ...] | None = None

    def take(self, rows: Ints) -> Column:
        """The column with only the given rows."""
        return replace(self, values=self.values[rows])

    def plain(self) -> NDArray[Any]:
        """The values as words or numbers, and as integers if all are whole; none may be missing."""
        if self.categories is not None:
            return np.array(self.categories)[self.values]
        whole = bool((np.floor(self.values) == self.values).all() and (np.abs(self.values) < LARGEST_WHOLE).all())
        return self.values.astype(np.int64) if whole else self.values


@dataclass(frozen=True)
class GraphTable:
    """G graphs (or sets) with N nodes in all.

    The nodes of a graph are consecutive, in the order of the graphs. The edges of all graphs connect positions of
    nodes, and are sorted by target and then source.

    Args:
        names (array): The user's name of each graph, (G,).
        sizes (array): Number of nodes of each graph, (G,).
        edge_index (array, optional): Source and target of each edge, (2, E); None for sets.
        features (tuple[Column, ...]): Features of the nodes, (N,) each.
        y (Column, optional): The target, (G,) or (N,).
        edge_attr (tuple[Column, ...]): Features of the edges, (E,) each, in the order of ``edge_index``.
        level (str): Whether ``y`` belongs to ``"graph"`` or ``"node"``.
        node_names (array, optional): The user's name of each node, (N,).
        notes (tuple[str, ...]): Notes for the user on how the data were read.
        more (tuple[Column, ...]): Further targets, like ``y``.
        part (array, optional): The part of each item with a target, (G,) or (N,): 0 training, 1 validation, 2 test,
            -1 none.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> table = from_list([Data(x=torch.rand(n, 2), y=float(n)) for n in (2, 3, 4)])
        >>> table, table.sizes, table.first
        (GraphTable(3 graphs, 9 nodes, no edges, 2 columns), array([2, 3, 4]), array([0, 2, 5, 9]))
        >>> table.select(np.array([2, 0])).y.values
        array([4., 2.])
    """

    names: NDArray[np.generic]
    sizes: Ints
    edge_index: Ints | None
    features: tuple[Column, ...]
    y: Column | None
    level: str = "graph"
    node_names: NDArray[np.generic] | None = None
    notes: tuple[str, ...] = field(default=())
    edge_attr: tuple[Column, ...] = field(default=())
    more: tuple[Column, ...] = field(default=())
    part: Ints | None = None

    @property
    def targets(self) -> tuple[Column, ...]:
        """All targets."""
        return () if self.y is None else (self.y, *self.more)

    @property
    def first(self) -> Ints:
        """The first node of each graph, and N, (G + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def graph_of_node(self) -> Ints:
        """(N,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def edge_counts(self) -> Ints:
        """Edges of each graph, (G,)."""
        if self.edge_index is None:
            return np.zeros(len(self.sizes), dtype=np.int64)
        return np.diff(np.searchsorted(self.edge_index[1], self.first))

    def fingerprint(self) -> str:
        """A hash of graphs, features and targets, without the names of graphs and nodes."""
        found = hashlib.blake2b(self.level.encode(), digest_size=16)
        columns = [*self.features, *self.edge_attr, *self.targets]
        for values in (self.sizes, *([] if self.edge_index is None else self.edge_index), *(c.values for c in columns)):
            found.update(np.ascontiguousarray(values).data)
        found.update(repr([(column.name, column.categories) for column in columns]).encode())
        return found.hexdigest()

    def select(self, graphs: Ints) -> GraphTable:
        """Some of the graphs, in the order given."""
        first = self.first
        nodes = _ranges(first[graphs], self.sizes[graphs])
        edge_index, edge_attr = None, self.edge_attr
        if self.edge_index is not None:
            counts = self.edge_counts
            edges = _ranges((np.cumsum(counts) - counts)[graphs], counts[graphs])
            sizes = self.sizes[graphs]
            shift = np.cumsum(sizes) - sizes - first[graphs]
            edge_index = self.edge_index[:, edges] + np.repeat(shift, counts[graphs])
            edge_attr = tuple(column.take(edges) for column in self.edge_attr)
        items = graphs if self.level == "graph" else nodes
        return replace(
            self,
            names=self.names[graphs],
            sizes=self.sizes[graphs],
            edge_index=edge_index,
            edge_attr=edge_attr,
            features=tuple(column.take(nodes) for column in self.features),
            y=None if self.y is None else self.y.take(items),
            more=tuple(column.take(items) for column in self.more),
            part=None if self.part is None else self.part[items],
            node_names=None if self.node_names is None else self.node_names[nodes],
        )

    def __repr__(self) -> str:
        edges = "no edges" if self.edge_index is None else f"{self.edge_index.shape[1]} edges"
        nodes, columns = int(self.sizes.sum()), len(self.features)
        return f"GraphTable({len(self.sizes)} graphs, {nodes} nodes, {edges}, {columns} columns)"


PART_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "testing": 2}


def parts_of(column: Column, file: str | None = None) -> Ints:
    """The part of each item, from a column of words; see :class:`GraphTable`."""
    words = column.categories or ()
    unknown = [word for word in words if word.lower() not in PART_WORDS]
    if column.categories is None or unknown:
        got = repr(unknown[0]) if unknown else "numbers"
        raise DataError(f"a part must be train, validation or test, got {got}", file=file, column=column.name)
    return np.array([*(PART_WORDS[word.lower()] for word in words), -1])[column.values]


def tidy_edges(source: Ints, target: Ints, nodes: int, directed: bool) -> Ints:
    """Edges sorted by target and source, each once; without ``directed`` in both directions."""
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    keys = np.sort(target * nodes + source)  # np.unique would hash them, which is several times slower
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
    return np.stack([keys % nodes, keys // nodes]) if nodes else np.zeros((2, 0), dtype=np.int64)


def tidy_features(
    source: Ints,
    target: Ints,
    nodes: int,
    directed: bool,
    columns: Sequence[Column],
    error: Callable[[int, str], DataError],
) -> tuple[Ints, tuple[Column, ...]]:
    """Edges as by :func:`tidy_edges`, with their features.

    Without ``directed`` an edge has the features of its opposite, unless it was given itself. An edge that is given
    twice must have equal features; ``error`` makes the error for a row.
    """
    if not columns:
        return tidy_edges(source, target, nodes, directed), ()
    given = rows = np.arange(len(source))
    if not directed:
        source, target, rows = (
            *(np.concatenate(ends) for ends in ((source, target), (target, source))),
            np.tile(given, 2),
        )
    order = np.argsort(target * nodes + source, kind="stable")  # given ones before their opposites
    source, target = source[order], target[order]
    new = np.concatenate([[True], (np.diff(source) != 0) | (np.diff(target) != 0)]) if len(order) else order > 0
    kept = rows[order][new]
    twice = np.flatnonzero(~new & (order < len(given)))
    first = kept[np.cumsum(new)[twice] - 1]
    for column in columns:
        mine, other = column.values[order[twice]], column.values[first]
        if len(bad := np.flatnonzero((mine != other) & ((mine == mine) | (other == other)))):
            row = int(order[twice][bad].min())
            raise error(row, f"the edge comes twice, with different values of {column.name!r}")
    return np.stack([source[new], target[new]]), tuple(column.take(kept) for column in columns)


def edge_order(first: Ints, second: Ints, nodes: int) -> tuple[Ints | None, NDArray[np.bool_]]:
    """The order of edges by their ``first`` and then their ``second`` end, or None if they are already sorted; and
    whether, in that order, each edge but the first equals the edge before it.
    """
    if nodes > LARGEST_SQUARE:  # the pair would not fit one number
        every, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
        first, second, nodes = codes[: len(first)], codes[len(first) :], len(every)
    keys = first * nodes + second
    steps = np.diff(keys)
    if (steps > 0).all():
        return None, np.zeros(len(steps), dtype=bool)
    order = np.argsort(keys, kind="stable")
    return order, np.diff(keys[order]) == 0


def check_complete(column: Column, file: str | None, line_of: object = None) -> None:
    """Raise an error for the first value of a target that is missing or infinite; ``line_of`` gives its line."""
    values = column.values
    bad = values < 0 if column.categories is not None else ~np.isfinite(values)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        line = line_of(row) if callable(line_of) else None
        where = "" if line is not None else f" (item {row}, from 0)"
        got = "missing" if column.categories is not None or np.isnan(values[row]) else "infinite"
        raise DataError(f"the target is {got}{where}", file=file, line=line, column=column.name)


def _ranges(first: Ints, counts: Ints) -> Ints:
    """The numbers first[k], first[k] + 1, ... (counts[k] of them), for all k end to end."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - counts), counts) + np.arange(total)
