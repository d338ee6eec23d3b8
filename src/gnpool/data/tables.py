"""Reads graphs from the tables ``graphs``, ``nodes`` and ``edges``, as CSV (plain or gzipped) or Parquet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gnpool.data.csv_columns import Identifiers, Sheet, read_csv
from gnpool.data.errors import DataError, several
from gnpool.data.files import Files
from gnpool.data.parquet_columns import read_parquet
from gnpool.data.table import Column, GraphTable, Ints, check_complete, parts_of, tidy_features

READERS = {  # by ending
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), read_csv),
    ".parquet": read_parquet,
}
IDS = {"graphs": ("graph",), "nodes": ("graph", "node"), "edges": ("graph", "source", "target")}


def has_tables(files: Files) -> bool:
    """Whether the files are tables of graphs."""
    return any(_file(files, table) is not None for table in IDS)


def read_tables(
    files: Files,
    level: str,
    *,
    y: Sequence[str] = ("y",),
    labelled: bool = True,
    directed: bool = False,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    part: str | None = None,
) -> GraphTable:
    r"""Read the tables ``graphs``, ``nodes`` and, except for sets, ``edges``.

    ========  ===========================  ==================================================================
    table     must have                    may have
    ========  ===========================  ==================================================================
    graphs    ``graph``, the target [1]_   numbers and categories, which become features of all its nodes
    nodes     ``graph``, ``node`` [2]_     numbers and categories
    edges     ``graph, source, target``    numbers and categories, which become features of the edges
    ========  ===========================  ==================================================================

    .. [1] The column called ``y``; for level ``"node"`` it stands in ``nodes``, and ``graphs`` may be missing.
    .. [2] Not needed without edges.
    """
    # otherwise parts such as 0 and 1 would be read as numbers
    options = (frozenset((*categorical, *([] if part is None else [part]))), frozenset(ignore))
    nodes = _sheet(files, "nodes", options)
    assert nodes is not None
    edges = _sheet(files, "edges", options, needed=False)
    graphs = _sheet(files, "graphs", options, needed=level == "graph" and labelled)
    return assemble(
        str(files.path),
        (graphs, nodes, edges),
        level,
        y=y,
        labelled=labelled,
        directed=directed,
        named=(*categorical, *ignore),
        part=part,
    )


def assemble(
    source_file: str | None,
    tables: tuple[Sheet | None, Sheet, Sheet | None],
    level: str,
    *,
    y: Sequence[str],
    labelled: bool,
    directed: bool,
    named: Sequence[str],
    part: str | None,
) -> GraphTable:
    """The graphs of the tables ``graphs``, ``nodes`` and ``edges``; ``named`` are columns that must be somewhere."""
    graphs, nodes, edges = tables
    _need(nodes, ["graph"] if edges is None else ["graph", "node"])
    if edges is not None:
        _need(edges, ["graph", "source", "target"])
    if graphs is not None:
        _need(graphs, ["graph"])
    sheets = [sheet for sheet in (graphs, nodes, edges) if sheet is not None]
    known = {name for sheet in sheets for name in (*sheet.columns, *sheet.ids, *sheet.ignored)}
    if unknown := sorted(set(named) - known):
        raise DataError(f"no table has the column {several(unknown)}", file=source_file)
    targets = graphs if level == "graph" else nodes
    found = _targets(targets, y, labelled)
    parts = _part(targets, part) if labelled else None
    aside = set() if targets is None else {*y, *([] if part is None else [part])}  # no features
    for sheet in (nodes, graphs, edges):
        _check_finite(sheet, but=aside if sheet is targets else set())

    names, graph_of_node = _graphs(graphs, nodes)
    order = np.argsort(graph_of_node, kind="stable")
    sizes = np.bincount(graph_of_node, minlength=len(names))
    if graphs is not None and (sizes == 0).any():
        row = int(np.flatnonzero(sizes == 0)[0])
        raise graphs.error(f"the graph {graphs.ids['graph'][row]!r} has no nodes in {nodes.file}", row, "graph")
    edge_index: Ints | None = None
    edge_attr: tuple[Column, ...] = ()
    if edges is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        source, target = _endpoints(names, nodes, graph_of_node, edges, place)
        edge_index, edge_attr = tidy_features(
            source, target, len(order), directed, list(edges.columns.values()), lambda row, what: edges.error(what, row)
        )
    features = [
        column.take(order) for name, column in nodes.columns.items() if nodes is not targets or name not in aside
    ]
    own = [] if graphs is None else [c for n, c in graphs.columns.items() if graphs is not targets or n not in aside]
    of_node = graph_of_node[order]
    features += [Column(f"graph.{column.name}", column.values[of_node], column.categories) for column in own]
    if level == "node":
        found = [column.take(order) for column in found]
        parts = None if parts is None else parts[order]
    node_names = nodes.ids.get("node")
    return GraphTable(
        names=_shown(names),
        sizes=sizes,
        edge_index=edge_index,
        features=tuple(features),
        y=found[0] if found else None,
        more=tuple(found[1:]),
        part=parts,
        level=level,
        node_names=None if node_names is None else _shown(node_names)[order],
        edge_attr=edge_attr,
    )


def _file(files: Files, table: str) -> str | None:
    found = [f"{table}{ending}" for ending in READERS if f"{table}{ending}" in files]
    if len(found) > 1:
        raise DataError(f"there are both {found[0]} and {found[1]}", file=str(files.path))
    return found[0] if found else None


def _sheet(
    files: Files, table: str, options: tuple[frozenset[str], frozenset[str]], needed: bool = True
) -> Sheet | None:
    name = _file(files, table)
    if name is None:
        if needed:
            raise DataError(f"there is no {table}.csv (or .parquet)", file=str(files.path))
        return None
    sheet = READERS[name[len(table) :]](files, name, IDS[table], *options)
    if sheet.rows == 0 and table != "edges":
        raise DataError("it has no rows", file=sheet.file)
    return sheet


def _need(sheet: Sheet, columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in sheet.ids]
    if missing:
        has = several([*sheet.ids, *sheet.columns]) if sheet.ids or sheet.columns else "none"
        raise DataError(f"the column {missing[0]!r} is missing; the columns are {has}", file=sheet.file, line=1)


def _check_finite(sheet: Sheet | None, but: set[str]) -> None:
    """Raise an error for the first infinite number of a sheet, except in the columns ``but``."""
    if sheet is None:
        return
    for name, column in sheet.columns.items():
        if name not in but and column.categories is None and len(rows := np.flatnonzero(np.isinf(column.values))):
            raise sheet.error("the value is infinite", int(rows[0]), name)


def _targets(sheet: Sheet | None, y: Sequence[str], labelled: bool) -> list[Column]:
    if sheet is None or (missing := [name for name in y if name not in sheet.columns]):
        if not labelled:
            return []
        assert sheet is not None
        has = several([*sheet.ids, *sheet.columns])
        raise DataError(
            f"the column {missing[0]!r} with the target is missing; the columns are {has}", file=sheet.file, line=1
        )
    found = [sheet.columns[name] for name in y]
    if labelled:
        for column in found:
            check_complete(column, sheet.file, sheet.line_of)
    return found


def _part(sheet: Sheet | None, name: str | None) -> Ints | None:
    """The part of each row, if there is a column for it."""
    if sheet is None or name is None:
        return None
    if name not in sheet.columns:
        has = several([*sheet.ids, *sheet.columns])
        raise DataError(
            f"the column {name!r} with the parts is missing; the columns are {has}", file=sheet.file, line=1
        )
    return parts_of(sheet.columns[name], sheet.file)


def _graphs(graphs: Sheet | None, nodes: Sheet) -> tuple[Identifiers, Ints]:
    """The names of the graphs, and the graph of each node."""
    if graphs is None:
        of_node = nodes.ids["graph"]
        kept, first, inverse = np.unique(of_node.values, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))  # graphs in the order in which they come
        return Identifiers(kept[np.argsort(first)], of_node.words), rank[inverse]
    names, of_node_values = _common(graphs.ids["graph"], nodes.ids["graph"])
    order = np.argsort(names.values, kind="stable")
    ordered = names.values[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        row = int(order[twice + 1].min())
        raise graphs.error(f"the graph {names[row]!r} is repeated here", row, "graph")
    return names, _find(order, ordered, of_node_values.values, nodes, "graph", graphs.file)


def _find(order: Ints, ordered: Ints, wanted: Ints, sheet: Sheet, column: str, file: str) -> Ints:
    """The positions of the ``wanted`` names among the ``ordered`` ones, before sorting."""
    place = np.searchsorted(ordered, wanted)
    found = place < len(ordered)
    found &= ordered[np.minimum(place, len(ordered) - 1)] == wanted
    if not found.all():
        row = int(np.flatnonzero(~found)[0])
        raise sheet.error(f"the graph {sheet.ids[column][row]!r} is not in {file}", row, column)
    result: Ints = order[place]
    return result


def _endpoints(names: Identifiers, nodes: Sheet, graph_of_node: Ints, edges: Sheet, place: Ints) -> tuple[Ints, Ints]:
    """The positions of both ends of each edge."""
    known, wanted = _common(names, edges.ids["graph"])
    order = np.argsort(known.values, kind="stable")
    graph_of_edge = _find(order, known.values[order], wanted.values, edges, "graph", nodes.file)
    node, source, target = _common(nodes.ids["node"], edges.ids["source"], edges.ids["target"])
    columns = [ids.values for ids in (node, source, target)]
    low = min(int(values.min()) for values in columns if len(values))
    high = max(int(values.max()) for values in columns if len(values))
    if (high - low + 1) * max(1, len(names.values)) >= 2**62:  # graph and node do not fit one number
        every, codes = np.unique(np.concatenate(columns), return_inverse=True)
        columns = np.split(codes, np.cumsum([len(values) for values in columns])[:-1])
        low, high = 0, len(every) - 1
    span = high - low + 1
    keys = graph_of_node * span + (columns[0] - low)
    by_key = np.argsort(keys, kind="stable")
    ordered = keys[by_key]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        row = int(by_key[twice + 1].min())
        graph, name = nodes.ids["graph"][row], nodes.ids["node"][row]
        raise nodes.error(f"the node {name!r} of graph {graph!r} is repeated here", row, "node")
    ends = []
    for column, values in zip(("source", "target"), columns[1:], strict=True):
        sought = graph_of_edge * span + (values - low)
        at = np.minimum(np.searchsorted(ordered, sought), len(ordered) - 1)
        if len(bad := np.flatnonzero(ordered[at] != sought)):
            row = int(bad[0])
            graph, name = edges.ids["graph"][row], edges.ids[column][row]
            raise edges.error(f"graph {graph!r} has no node {name!r} in {nodes.file}", row, column)
        ends.append(place[by_key[at]])
    return ends[0], ends[1]


def _common(*columns: Identifiers) -> list[Identifiers]:
    """The columns with names numbered alike in all of them."""
    if all(column.words is None for column in columns):
        return list(columns)
    places: dict[str, int] = {}
    found = []
    for column in columns:
        if column.words is None:
            kept, inverse = np.unique(column.values, return_inverse=True)
            words, codes = [str(value) for value in kept.tolist()], inverse
        else:
            words, codes = column.words, column.values
        renamed = np.array([places.setdefault(word, len(places)) for word in words], dtype=np.int64)
        found.append(renamed[codes])
    every = list(places)
    return [Identifiers(values, every) for values in found]


def _shown(names: Identifiers) -> NDArray[np.generic]:
    if names.words is None:
        return names.values
    words: NDArray[np.generic] = np.array(names.words, dtype=object)
    return words[names.values]
