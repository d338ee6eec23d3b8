"""``read_graphs`` reads all formats."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnpool.data.errors import DataError
from gnpool.data.files import Files, open_ordinary
from gnpool.data.frames import read_frames
from gnpool.data.networkx_list import from_networkx, is_networkx
from gnpool.data.pyg_list import call_function, from_list, read_pt
from gnpool.data.table import GraphTable
from gnpool.data.tables import has_tables, read_tables
from gnpool.data.tu_folder import read_tu, tu_names

LEVELS = ("graph", "node")
NO_ZIP = {  # what is wrong with a file of this ending that is not a zip inside
    ".pt": "it is not a file of torch.save",
    ".pth": "it is not a file of torch.save",
    ".zip": "it is not a zip that can be read",
    ".csv": "it is one table; give the folder that holds graphs.csv, nodes.csv and, unless they are sets, edges.csv",
    ".parquet": "it is one table; give the folder that holds graphs.parquet, nodes.parquet and, unless they are sets, "
    "edges.parquet",
}
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def read_graphs(
    source: str | Path | Sequence[Any],
    level: str = "graph",
    *,
    y: str | Sequence[str] = "y",
    labelled: bool = True,
    directed: bool = False,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    part: str | None = None,
) -> GraphTable:
    r"""Reads graphs or sets in any format that gnpool knows.

    Args:
        source (str or Path or list): A folder or zip of tables (``graphs.csv``, ``nodes.csv``, ``edges.csv``, packed
            as ``.csv.gz`` or not, or ``.parquet``), a folder or zip with a TUDataset, a ``.pt`` file with a list of
            PyG's ``Data``, ``package.module:function``, which is imported and called, or the list itself; also a graph
            of networkx, or a list of them; or tables as frames of pandas or polars by name,
            ``{"graphs": ..., "nodes": ..., "edges": ...}``.
        level (str, optional): Whether targets belong to ``"graph"`` or ``"node"``. (default: ``"graph"``)
        y (str or Sequence[str], optional): Name of the column with the target, in tables and graphs of networkx; of
            several columns for several targets. (default: ``"y"``)
        labelled (bool, optional): Whether there must be targets. (default: ``True``)
        directed (bool, optional): Whether an edge of a table goes one way. (default: ``False``)
        categorical (Sequence[str], optional): Columns of tables whose numbers are categories.
        ignore (Sequence[str], optional): Columns of tables to leave out.
        part (str, optional): Column that says ``train``, ``validation`` or ``test`` for each graph, or for each node if
            these have the targets. PyG's masks of nodes are read without it.

    Returns:
        GraphTable: The graphs in flat arrays.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gnpool.data import read_graphs
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "graphs.csv").write_text("graph,y\na,2\nb,1\n")
        ...     _ = Path(folder, "nodes.csv").write_text("graph,node,mass\na,1,0.5\na,2,0.7\na,3,\nb,1,1\nb,2,3\n")
        ...     _ = Path(folder, "edges.csv").write_text("graph,source,target\na,1,2\na,2,3\nb,1,2\n")
        ...     table = read_graphs(folder)
        >>> table, table.features[0].values, table.edge_index
        (GraphTable(2 graphs, 5 nodes, 6 edges, 1 columns), array([0.5, 0.7, nan, 1. , 3. ]),
         array([[1, 0, 2, 1, 4, 3],
                [0, 1, 1, 2, 3, 4]]))
    """
    if level not in LEVELS:
        raise ValueError(f"read_graphs: 'level' must be one of {LEVELS}, got {level!r}")
    names = (y,) if isinstance(y, str) else tuple(y)
    if not names or len(set(names)) < len(names):
        got = ", ".join(names) or "none"
        raise ValueError(f"read_graphs: 'y' must name one column or several different ones, got {got}")
    if is_networkx(source):
        source = [source]
    if isinstance(source, Mapping):
        return read_frames(
            source,
            level,
            y=names,
            labelled=labelled,
            directed=directed,
            categorical=categorical,
            ignore=ignore,
            part=part,
        )
    if not isinstance(source, (str, Path)):
        if isinstance(source, (list, tuple)) and any(map(is_networkx, source[:1])):
            _refuse("graphs of networkx", categorical=categorical, ignore=ignore)
            return from_networkx(source, level, y=names, labelled=labelled, part=part)
        _refuse_columns("a list of Data", names if labelled else (), part, categorical, ignore)
        return from_list(source, level, labelled=labelled)
    path = Path(source)
    if not path.exists():
        if FUNCTION.fullmatch(str(source)):
            found = call_function(str(source))
            try:
                return read_graphs(
                    found,
                    level,
                    y=y,
                    labelled=labelled,
                    directed=directed,
                    categorical=categorical,
                    ignore=ignore,
                    part=part,
                )
            except DataError as error:
                place = error.file or str(source)
                raise DataError(error.message, file=place, line=error.line, column=error.column) from error
        raise DataError("there is no such file or folder", file=str(source))
    if not path.is_dir() and not _is_zip(path):
        what = NO_ZIP.get(path.suffix.lower(), "it is neither a folder, a zip nor a .pt")
        raise DataError(f"{what}; see 'Your own data' in the documentation for the formats", file=str(path))
    if path.suffix in (".pt", ".pth"):
        _refuse_columns("a list of Data", names if labelled else (), part, categorical, ignore)
        return read_pt(path, level, labelled=labelled)
    return read_files(path, level, names, labelled, directed, categorical, ignore, part)


def _refuse_columns(
    what: str, y: Sequence[str], part: str | None, categorical: Sequence[str], ignore: Sequence[str]
) -> None:
    """Complain about names of columns where the data has a fixed place for the target and no names of features."""
    _refuse(what, y=[name for name in y if name != "y"], part=part, categorical=categorical, ignore=ignore)


def _refuse(what: str, **named: Sequence[str] | None) -> None:
    """Complain about an argument that names columns, which this kind of data does not have."""
    for argument, names in named.items():
        if names:
            name = names if isinstance(names, str) else names[0]
            raise ValueError(f"read_graphs: {argument!r} names a column of a table, got {name!r}; the data is {what}")


def _is_zip(path: Path) -> bool:
    with open_ordinary(path) as file:
        return zipfile.is_zipfile(file)


def read_files(
    path: Path,
    level: str,
    y: Sequence[str],
    labelled: bool,
    directed: bool,
    categorical: Sequence[str],
    ignore: Sequence[str],
    part: str | None = None,
) -> GraphTable:
    """Read a folder or a zip in any of the formats."""
    files = Files(path)
    try:
        if has_tables(files):
            return read_tables(
                files,
                level,
                y=y,
                labelled=labelled,
                directed=directed,
                categorical=categorical,
                ignore=ignore,
                part=part,
            )
        if tu_names(files):
            _refuse_columns("a TUDataset", y if labelled else (), part, categorical, ignore)
            return read_tu(files, level, labelled)
    finally:
        files.close()
    raise DataError(
        "it has neither graphs.csv and nodes.csv (or .parquet) nor the files of a TUDataset", file=str(path)
    )
