"""Many graphs in flat arrays: the one form that all readers give."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnpool.data.errors import DataError

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """Named values, one for each node or graph.

    Args:
        name (str): What the user calls it.
        values (array): Numbers with NaN for missing ones, or positions in ``categories`` with -1 for missing ones.
        categories (tuple[str, ...], optional): Of a categorical column.
    """

    name: str
    values: Floats | Ints
    categories: tuple[str, ...] | None = None

    def take(self, rows: Ints) -> Column:
        """The same column of other rows."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True)
class GraphTable:
    """G graphs (or sets) of N nodes in all.

    Nodes of a graph stand together, in the order of the graphs. Edges are those of all graphs, between positions of
    nodes, sorted by target and then source.

    Args:
        names (array): What the user calls each graph, (G,).
        sizes (array): Nodes of each graph, (G,).
        edge_index (array, optional): Source and target of each edge, (2, E); None for sets.
        features (tuple[Column, ...]): Of the nodes, (N,) each.
        y (Column, optional): What is to be predicted, (G,) or (N,).
        level (str): Whether ``y`` belongs to ``"graph"`` or ``"node"``.
        node_names (array, optional): What the user calls each node, (N,).
        notes (tuple[str, ...]): What a user should know about how the data was read.
    """

    names: NDArray[np.generic]
    sizes: Ints
    edge_index: Ints | None
    features: tuple[Column, ...]
    y: Column | None
    level: str = "graph"
    node_names: NDArray[np.generic] | None = None
    notes: tuple[str, ...] = field(default=())

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

    def select(self, graphs: Ints) -> GraphTable:
        """Some of the graphs, in the order given."""
        first = self.first
        nodes = _ranges(first[graphs], self.sizes[graphs])
        edge_index = None
        if self.edge_index is not None:
            counts = self.edge_counts
            edges = _ranges((np.cumsum(counts) - counts)[graphs], counts[graphs])
            sizes = self.sizes[graphs]
            shift = np.cumsum(sizes) - sizes - first[graphs]
            edge_index = self.edge_index[:, edges] + np.repeat(shift, counts[graphs])
        return replace(
            self,
            names=self.names[graphs],
            sizes=self.sizes[graphs],
            edge_index=edge_index,
            features=tuple(column.take(nodes) for column in self.features),
            y=None if self.y is None else self.y.take(graphs if self.level == "graph" else nodes),
            node_names=None if self.node_names is None else self.node_names[nodes],
        )

    def __repr__(self) -> str:
        edges = "no edges" if self.edge_index is None else f"{self.edge_index.shape[1]} edges"
        nodes, columns = int(self.sizes.sum()), len(self.features)
        return f"GraphTable({len(self.sizes)} graphs, {nodes} nodes, {edges}, {columns} columns)"


def tidy_edges(source: Ints, target: Ints, nodes: int, directed: bool) -> Ints:
    """Edges sorted by target and source, each once; without ``directed`` in both directions."""
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    keys = np.sort(target * nodes + source)  # np.unique would hash them, which takes several times as long
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
    return np.stack([keys % nodes, keys // nodes]) if nodes else np.zeros((2, 0), dtype=np.int64)


def check_complete(column: Column, file: str | None, line_of: object = None) -> None:
    """Complain about the first value of a target that is missing or infinite; ``line_of`` gives its line."""
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
