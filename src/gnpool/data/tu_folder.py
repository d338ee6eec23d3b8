"""Reads a TUDataset as published: a folder or zip of text files with one line per node, edge or graph."""

from __future__ import annotations

import numpy as np

from gnpool.data.errors import DataError, several
from gnpool.data.files import Files
from gnpool.data.table import Column, Floats, GraphTable, Ints, check_complete, tidy_features

SHORT = 40  # most characters of a line that are shown


def tu_names(files: Files) -> list[str]:
    """The names of the data sets whose files exist."""
    return [name[: -len("_A.txt")] for name in files.names if name.endswith("_A.txt")]


def read_tu(files: Files, level: str = "graph", labelled: bool = True) -> GraphTable:
    r"""Read the raw files of a data set of the `TUDataset collection <https://chrsmrrs.github.io/datasets>`_.

    Node labels become a categorical column, and node attributes become numbers. The target is
    ``NAME_graph_labels.txt``, or the first column of ``NAME_graph_attributes.txt`` (regression). Edge labels and
    attributes become features of the edges.
    """
    names = tu_names(files)
    if len(names) != 1:
        raise DataError(f"expected one NAME_A.txt, got {several([f'{n}_A.txt' for n in names])}", file=str(files.path))
    if level != "graph":
        raise DataError("a TUDataset has targets of graphs, not of nodes", file=str(files.path))
    name = names[0]
    indicator = f"{name}_graph_indicator.txt"
    graph_of_node = _integers(files, indicator, 1)[:, 0]
    if len(graph_of_node) == 0:
        raise DataError("it is empty", file=files.shown(indicator))
    graphs, graph_of_node = np.unique(graph_of_node, return_inverse=True)
    if (np.diff(graph_of_node) < 0).any():
        line = int(np.flatnonzero(np.diff(graph_of_node) < 0)[0]) + 2
        raise DataError("the nodes of a graph must stand together", file=files.shown(indicator), line=line)
    nodes = len(graph_of_node)
    edges = _integers(files, f"{name}_A.txt", 2) - 1
    outside = np.flatnonzero(((edges < 0) | (edges >= nodes)).any(1))
    if len(outside):
        row = int(outside[0])
        got = edges[row][(edges[row] < 0) | (edges[row] >= nodes)][0] + 1
        raise DataError(
            f"node {got} does not exist: there are {nodes}", file=files.shown(f"{name}_A.txt"), line=row + 1
        )
    across = np.flatnonzero(graph_of_node[edges[:, 0]] != graph_of_node[edges[:, 1]])
    if len(across):
        raise DataError("the edge joins two graphs", file=files.shown(f"{name}_A.txt"), line=int(across[0]) + 1)
    sizes = np.bincount(graph_of_node, minlength=len(graphs))
    shown = files.shown(f"{name}_A.txt")
    edge_index, edge_attr = tidy_features(
        edges[:, 0],
        edges[:, 1],
        nodes,
        False,
        _columns(files, name, "edge", len(edges)),
        lambda row, what: DataError(what, file=shown, line=row + 1),
    )
    return GraphTable(
        names=graphs,
        sizes=sizes,
        edge_index=edge_index,
        edge_attr=edge_attr,
        features=tuple(_columns(files, name, "node", nodes)),
        y=_target(files, name, len(graphs), labelled),
    )


def _columns(files: Files, name: str, what: str, count: int) -> list[Column]:
    """Labels and attributes of the nodes or the edges."""
    found = []
    labels, attributes = f"{name}_{what}_labels.txt", f"{name}_{what}_attributes.txt"
    if labels in files:
        table = _integers(files, labels, None)
        _check_count(files, labels, len(table), count, f"{what}s")
        several_labels = table.shape[1] > 1
        found += [_categories(f"label{k}" if several_labels else "label", table[:, k]) for k in range(table.shape[1])]
    if attributes in files:
        values = _floats(files, attributes, None)
        _check_count(files, attributes, len(values), count, f"{what}s")
        if len(infinite := np.argwhere(np.isinf(values))):
            row, k = infinite[0].tolist()
            raise DataError("the value is infinite", file=files.shown(attributes), line=row + 1, column=f"attribute{k}")
        found += [Column(f"attribute{k}", values[:, k]) for k in range(values.shape[1])]
    return found


def _target(files: Files, name: str, graphs: int, labelled: bool) -> Column | None:
    labels, attributes = f"{name}_graph_labels.txt", f"{name}_graph_attributes.txt"
    if labels in files:
        column = _categories("graph_labels", _integers(files, labels, None)[:, 0])
        file = labels
    elif attributes in files:
        column = Column("graph_attributes", _floats(files, attributes, None)[:, 0])
        file = attributes
    elif labelled:
        raise DataError(f"there is no {labels}", file=str(files.path))
    else:
        return None
    _check_count(files, file, len(column.values), graphs, "graphs")
    if labelled:
        check_complete(column, files.shown(file), lambda row: row + 1)
    return column


def _categories(name: str, values: Ints) -> Column:
    kept, codes = np.unique(values, return_inverse=True)
    return Column(name, codes, tuple(str(value) for value in kept.tolist()))


def _check_count(files: Files, file: str, got: int, expected: int, what: str) -> None:
    if got != expected:
        raise DataError(f"it has {got} lines, but there are {expected} {what}", file=files.shown(file))


def _integers(files: Files, name: str, columns: int | None) -> Ints:
    values = _floats(files, name, columns)
    odd = np.flatnonzero((values != np.floor(values)).any(1) | (np.abs(values) > 2**53).any(1))
    if len(odd):
        got = repr(values[odd[0]].tolist())
        raise DataError(f"expected whole numbers, got {got}", file=files.shown(name), line=int(odd[0]) + 1)
    return values.astype(np.int64)


def _floats(files: Files, name: str, columns: int | None) -> Floats:
    """All numbers of a file, a row for each line."""
    if name not in files:
        raise DataError(f"there is no {name}", file=str(files.path))
    with files.open(name) as raw:
        data = raw.read()
    lines = data.replace(b"\r\n", b"\n").rstrip().split(b"\n") if data.strip() else []
    if not lines:
        return np.zeros((0, columns or 1))
    wide = len(lines[0].split(b",")) if columns is None else columns
    commas = np.fromiter((line.count(b",") for line in lines), dtype=np.int64, count=len(lines))
    try:
        if (commas != wide - 1).any():
            raise ValueError
        cells = b",".join(lines).split(b",") if wide > 1 else lines
        return np.array(list(map(float, cells))).reshape(-1, wide)
    except ValueError:
        for number, line in enumerate(lines, 1):
            try:
                if len(list(map(float, line.split(b",")))) == wide:
                    continue
            except ValueError:
                pass
            text = line[:SHORT].decode("utf-8", "replace")
            expected = "a number" if wide == 1 else f"{wide} numbers with commas between them"
            raise DataError(f"expected {expected}, got {text!r}", file=files.shown(name), line=number) from None
        raise
