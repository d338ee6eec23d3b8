"""Reads graphs of networkx, whose attributes of nodes and edges become columns."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gnpool.data.csv_columns import MISSING
from gnpool.data.errors import DataError, several
from gnpool.data.table import Column, GraphTable, check_complete, parts_of, tidy_features

MOST_PARTS = 10_000  # the most numbers in one attribute


def is_networkx(value: Any) -> bool:
    """Whether a value is a graph of networkx, which is not imported for this test."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(value, networkx.Graph)


def from_networkx(
    graphs: Sequence[Any],
    level: str = "graph",
    *,
    y: str | Sequence[str] = "y",
    labelled: bool = True,
    part: str | None = None,
) -> GraphTable:
    """Read graphs of networkx. Attributes of nodes and edges are their features: numbers, texts, or lists of numbers.

    The target is the attribute ``y`` of each graph (``graph.graph[y]``) or of each node; several targets are several
    attributes. ``part`` names the attribute that says train, validation or test. If some nodes lack an attribute, its
    value is missing there. The edges of a ``Graph`` go both ways, those of a ``DiGraph`` one way.

    Example:
        >>> import networkx as nx
        >>> from gnpool.data import from_networkx
        >>> star = nx.star_graph(3)
        >>> star.graph["y"] = 3.0
        >>> nx.set_node_attributes(star, {0: 1.0, 1: 0.5, 2: 0.5, 3: 0.5}, "mass")
        >>> table = from_networkx([star])
        >>> table, table.features[0].name, table.y.values
        (GraphTable(1 graphs, 4 nodes, 6 edges, 1 columns), 'mass', array([3.]))
    """
    if not graphs:
        raise DataError("there are no graphs")
    for number, graph in enumerate(graphs):
        _check_graph(number, graph)
    sizes = np.array([graph.number_of_nodes() for graph in graphs], dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    names = [node for graph in graphs for node in graph]
    graph_of_node = np.repeat(np.arange(len(graphs)), sizes)
    of_nodes = [attributes for graph in graphs for _, attributes in graph.nodes(data=True)]
    columns = list(_columns(of_nodes, graph_of_node, "a node"))
    ends, of_edges = _edges(graphs, first)
    edge_index, edge_attr = tidy_features(
        ends[0],
        ends[1],
        len(names),
        True,
        list(_columns(of_edges, graph_of_node[ends[0]], "an edge")),
        lambda row, what: DataError(f"{what} (graph {graph_of_node[ends[0][row]]}, from 0)"),
    )
    wanted = (y,) if isinstance(y, str) else tuple(y)
    aside = [*wanted, *([] if part is None else [part])]
    if level == "graph":
        given = [_target([graph.graph.get(name) for graph in graphs], name) for name in aside] if labelled else []
        found = {column.name: column for column in given if column is not None}
    else:
        found = {column.name: column for column in columns if column.name in aside}
        columns = [column for column in columns if column.name not in aside]
    if labelled and (missing := [name for name in aside if name not in found]):
        where = "graphs have no attribute" if level == "graph" else "nodes have no attribute of one number or text"
        raise DataError(f"the {where} {missing[0]!r} with the {'part' if missing[0] == part else 'target'}")
    targets = [found[name] for name in wanted] if labelled else []
    for target in targets:
        check_complete(target, None)
    return GraphTable(
        names=_objects([str(graph.name) or number for number, graph in enumerate(graphs)]),
        sizes=sizes,
        edge_index=edge_index,
        features=tuple(columns),
        y=targets[0] if targets else None,
        more=tuple(targets[1:]),
        part=parts_of(found[part]) if labelled and part is not None else None,
        level=level,
        node_names=_objects(names),
        edge_attr=edge_attr,
    )


def _check_graph(number: int, graph: Any) -> None:
    if not is_networkx(graph):
        raise DataError(f"expected graphs of networkx, got {type(graph).__name__} as graph {number} (from 0)")
    if graph.is_multigraph():
        raise DataError(
            f"graph {number} (from 0) is a multigraph; join its parallel edges first, as by nx.Graph(graph)"
        )
    if not graph.number_of_nodes():
        raise DataError(f"graph {number} (from 0) has no nodes")


def _edges(graphs: Sequence[Any], first: Any) -> tuple[Any, list[Mapping[str, Any]]]:
    """Source and target of each edge, and its attributes; an edge that goes both ways comes twice."""
    ends: list[tuple[int, int]] = []
    attributes: list[Mapping[str, Any]] = []
    for graph, start in zip(graphs, first.tolist(), strict=True):
        place = {node: start + number for number, node in enumerate(graph)}
        for source, target, found in graph.edges(data=True):
            pair = (place[source], place[target])
            both = [pair] if graph.is_directed() or source == target else [pair, pair[::-1]]
            ends += both
            attributes += [found] * len(both)
    return np.array(ends, dtype=np.int64).reshape(-1, 2).T, attributes


def _columns(rows: Sequence[Mapping[str, Any]], graph_of_row: Any, what: str) -> Iterator[Column]:
    """The attributes of all nodes or edges, each as one column or, where they are lists, as several."""
    for name in dict.fromkeys(str(name) for row in rows for name in row):
        yield from _column(name, [row.get(name) for row in rows], graph_of_row, what)


def _column(name: str, values: list[Any], graph_of_row: Any, what: str) -> Iterator[Column]:
    def wrong(row: int, message: str) -> DataError:
        return DataError(f"the attribute {name!r} of {what} of graph {graph_of_row[row]} (from 0) {message}")

    kinds = {row: _kind(value) for row, value in enumerate(values) if value is not None}
    known = set(kinds.values())
    if odd := [row for row, kind in kinds.items() if kind == "other"]:
        raise wrong(odd[0], f"must be a number, a text or a list of numbers, got {type(values[odd[0]]).__name__}")
    if len(known) > 1:
        row = next(row for row, kind in kinds.items() if kind != kinds[min(kinds)])
        raise wrong(row, f"is a {kinds[row]}, but others are a {kinds[min(kinds)]}")
    if known == {"text"}:
        yield _categories(name, values)
        return
    if known == {"list"}:
        parts = {row: np.asarray(values[row], dtype=np.float64).reshape(-1) for row in kinds}
        width = len(parts[min(parts)])
        if bad := [row for row, part in parts.items() if len(part) != width]:
            raise wrong(bad[0], f"has {len(parts[bad[0]])} numbers, but others have {width}")
        table = np.full((len(values), width), np.nan)
        table[list(parts)] = list(parts.values())
    else:
        table = np.array([[np.nan if value is None else float(value)] for value in values]).reshape(len(values), 1)
    if len(infinite := np.argwhere(np.isinf(table))):
        raise wrong(int(infinite[0, 0]), "is infinite")
    for k in range(table.shape[1]):
        yield Column(f"{name}{k}" if known == {"list"} else name, np.ascontiguousarray(table[:, k]))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, (numbers.Real, np.bool_)):
        return "number"
    if not isinstance(value, (list, tuple, np.ndarray)) and not hasattr(value, "numpy"):
        return "other"
    try:
        array: Any = np.asarray(value)
    except ValueError:  # lists of different lengths in a list
        return "other"
    return "list" if array.ndim == 1 and 0 < array.size <= MOST_PARTS and array.dtype.kind in "biuf" else "other"


def _categories(name: str, values: Sequence[str | None]) -> Column:
    words = [None if value is None or value.strip().lower() in MISSING else value.strip() for value in values]
    kept = sorted({word for word in words if word is not None})
    rank = {word: place for place, word in enumerate(kept)}
    codes = np.array([-1 if word is None else rank[word] for word in words], dtype=np.int64)
    return Column(name, codes, tuple(kept))


def _target(values: list[Any], y: str) -> Column | None:
    if all(value is None for value in values):
        return None
    found = list(_column(y, values, np.arange(len(values)), "the whole"))
    if len(found) != 1:
        raise DataError(
            f"the attribute {y!r} of a graph must be one number or text, got {several([c.name for c in found])}"
        )
    return found[0]


def _objects(names: list[Any]) -> Any:
    """Names of nodes, which may be anything, tuples too."""
    found = np.empty(len(names), dtype=object)
    found[:] = [name if isinstance(name, (int, str)) else str(name) for name in names]
    return found
