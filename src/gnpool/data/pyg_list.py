"""Reads lists of PyTorch Geometric's ``Data``: given, from a ``.pt`` file, or from a user's function."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.data.storage import GlobalStorage

from gnpool.data.errors import DataError
from gnpool.data.files import open_ordinary
from gnpool.data.limits import check_need
from gnpool.data.networkx_list import is_networkx
from gnpool.data.table import Column, GraphTable, Ints, check_complete, tidy_features

NODE, NUMBER = 64, 8  # bytes of memory for a node, and for a number of a tensor
MOST_TARGETS = 1000
MASKS = ("train_mask", "val_mask", "test_mask")
READ = ("x", "edge_index", "edge_attr", "edge_weight", "y")
ALLOWED = [Data, DataEdgeAttr, DataTensorAttr, EdgeLayout, GlobalStorage]  # the classes that a list of Data contains


def read_pt(path: Path, level: str, **options: Any) -> GraphTable:
    """Read a list of ``Data`` that ``torch.save`` wrote; loading never runs code from the file."""
    file = str(path)
    with open_ordinary(path) as opened:
        held = os.fstat(opened.fileno()).st_size
        found = _load(opened, held, file)
    try:
        return from_list(found, level, file=file, held=held, **options)
    except (AttributeError, TypeError, IndexError, KeyError, RuntimeError, OverflowError) as error:
        raise DataError(f"it holds a Data that is damaged ({_one_line(error)})", file=file) from error


def _load(opened: BinaryIO, held: int, file: str) -> Any:
    try:
        with zipfile.ZipFile(opened) as packed:
            members = packed.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DataError("it is not a file of torch.save", file=file) from error
    if sum(member.file_size for member in members) > held:  # torch does not compress
        raise DataError("its parts claim more bytes than the file has", file=file)
    opened.seek(0)
    try:
        with torch.serialization.safe_globals(ALLOWED):
            return torch.load(opened, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged pickles raise almost anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "Unsupported" in str(error) or "GLOBAL" in str(error) or "weights_only" in reason.lower():
            reason = "it holds objects other than tensors and PyTorch Geometric's Data, which are not loaded"
        else:
            reason = f"it cannot be read ({reason})"
        raise DataError(reason, file=file) from error


def call_function(name: str) -> Any:
    """What ``package.module:function``, the user's own code, gives: a graph, a list of graphs, or frames by name."""
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # so that a script beside the data is found, as by `python -m`
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise DataError(f"there is no module {error.name!r}", file=name) from error
    except Exception as error:  # the user's own code
        raise DataError(f"the module cannot be imported ({_one_line(error)})", file=name) from error
    finally:
        sys.path.remove(str(Path.cwd()))
    function = getattr(module, attribute, None)
    if not callable(function):
        raise DataError(f"the module has no function {attribute!r}", file=name)
    try:
        found = function()
        if isinstance(found, (Data, Mapping)) or is_networkx(found):
            return found
        return list(found)  # iterating may load the graphs one by one
    except Exception as error:  # the user's own code
        raise DataError(f"the function did not return a list of graphs ({_one_line(error)})", file=name) from error


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def from_list(
    graphs: Any,
    level: str = "graph",
    *,
    file: str | None = None,
    held: int | None = None,
    labelled: bool = True,
    directed: bool = True,
) -> GraphTable:
    """Graphs given as ``Data``: ``x`` (n, d), ``edge_index`` (2, E) in all or in none, ``edge_attr`` (E, d) and
    ``edge_weight`` (E,) in all or in none, ``y``.

    Edges are taken as they are, in both directions or not. ``held`` is the size of the file that they come from.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> from_list(
        ...     [Data(x=torch.rand(3, 2), edge_index=path, y=1.5), Data(x=torch.rand(4, 2), edge_index=path, y=0.5)]
        ... )
        GraphTable(2 graphs, 7 nodes, 8 edges, 2 columns)
    """
    graphs = _as_list([graphs] if isinstance(graphs, Data) and level == "node" else graphs, file)
    counts = [_size(graph, k, file) for k, graph in enumerate(graphs)]
    if held is not None:
        check_need(NODE * sum(counts) + sum(map(_bytes, graphs)), held, "the graphs in it", file)
    sizes = np.array(counts, dtype=np.int64)
    if (sizes == 0).any():
        raise DataError(f"graph {int(np.flatnonzero(sizes == 0)[0])} (from 0) has no nodes", file=file)
    first = np.cumsum(sizes) - sizes
    with_edges = [_tensor(graph, "edge_index") is not None for graph in graphs]
    if any(with_edges) != all(with_edges):
        raise DataError(f"graph {with_edges.index(False)} (from 0) has no edge_index, but others have", file=file)
    edge_index, edge_attr = _edges(graphs, sizes, first, file, directed) if all(with_edges) else (None, ())
    y, more = _targets(graphs, sizes, level, labelled, file)
    return GraphTable(
        names=np.arange(len(graphs)),
        sizes=sizes,
        edge_index=edge_index,
        features=tuple(_features(graphs, file)),
        y=y,
        level=level,
        node_names=np.concatenate([np.arange(n) for n in sizes.tolist()]),
        edge_attr=edge_attr,
        more=more,
        part=_part(graphs, sizes, level, file) if labelled else None,
    )


def _as_list(graphs: Any, file: str | None) -> Sequence[Data]:
    if isinstance(graphs, (Data, Tensor, dict, str)):  # these can be taken apart, too
        raise DataError(f"expected a list of Data, got a single {type(graphs).__name__}", file=file)
    try:
        graphs = list(graphs)
    except TypeError:
        raise DataError(f"expected a list of Data, got {type(graphs).__name__}", file=file) from None
    if not graphs:
        raise DataError("there are no graphs", file=file)
    for number, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            kind = type(graph).__name__
            raise DataError(f"expected a list of Data, got {kind} as graph {number} (from 0)", file=file)
    return graphs


def _tensor(graph: Data, name: str) -> Any:
    return getattr(graph, name, None)


def _is_plain(value: Tensor) -> bool:
    return value.layout == torch.strided and not value.is_complex() and not value.is_quantized


def _size(graph: Data, number: int, file: str | None) -> int:
    x, edges = _tensor(graph, "x"), _tensor(graph, "edge_index")
    for name, value, dims in (("x", x, (1, 2)), ("edge_index", edges, (2,))):
        if value is not None and (not isinstance(value, Tensor) or value.dim() not in dims):
            got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise DataError(f"{name!r} of graph {number} (from 0) must be a {max(dims)}-d tensor, got {got}", file=file)
        if value is not None and not _is_plain(value):
            raise DataError(
                f"{name!r} of graph {number} (from 0) must be a dense tensor of real numbers, "
                f"got {value.layout} of {value.dtype}",
                file=file,
            )
    if x is not None:
        return int(x.size(0))
    if "num_nodes" in graph:
        count = graph.num_nodes
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise DataError(f"'num_nodes' of graph {number} (from 0) must be a number, got {count!r:.40}", file=file)
        return count
    raise DataError(f"graph {number} (from 0) must have 'x' or 'num_nodes'", file=file)


def _edges(graphs: Sequence[Data], sizes: Any, first: Any, file: str | None, directed: bool) -> Any:
    for number, graph in enumerate(graphs):
        edges = graph.edge_index
        if edges.size(0) != 2 or edges.is_floating_point():
            raise DataError(
                f"'edge_index' of graph {number} (from 0) must be integers of shape (2, E), "
                f"got {edges.dtype} of shape {list(edges.shape)}",
                file=file,
            )
    counts = np.array([graph.edge_index.size(1) for graph in graphs])
    flat = torch.cat([graph.edge_index.long() for graph in graphs], dim=1).numpy()
    limit = np.repeat(sizes, counts)
    outside = np.flatnonzero(((flat < 0) | (flat >= limit)).any(0))
    if len(outside):
        number = int(np.searchsorted(np.cumsum(counts), outside[0], side="right"))
        raise DataError(
            f"'edge_index' of graph {number} (from 0) names a node that it does not have: "
            f"{flat[:, outside[0]].tolist()}, of {sizes[number]} nodes",
            file=file,
        )
    shift = np.repeat(first, counts)
    columns = [
        *_columns(graphs, "edge_attr", counts, file),
        *_columns(graphs, "edge_weight", counts, file),
    ]

    def twice(row: int, what: str) -> DataError:
        number = int(np.searchsorted(np.cumsum(counts), row, side="right"))
        return DataError(f"{what} (edge {flat[:, row].tolist()} of graph {number}, from 0)", file=file)

    return tidy_features(flat[0] + shift, flat[1] + shift, int(sizes.sum()), directed, columns, twice)


def _bytes(graph: Data) -> int:
    """The memory that the tensors of a graph need once they are read; expanded tensors need less in the file."""
    found = [_tensor(graph, name) for name in READ]
    return sum(NUMBER * value.numel() for value in found if isinstance(value, Tensor))


def _columns(graphs: Sequence[Data], name: str, counts: Ints, file: str | None) -> list[Column]:
    """Features of the edges, a row for each of ``counts`` edges."""
    parts = [_tensor(graph, name) for graph in graphs]
    if all(part is None for part in parts):
        return []
    for number, (part, count) in enumerate(zip(parts, counts.tolist(), strict=True)):
        if not isinstance(part, Tensor) or part.dim() not in (1, 2) or len(part) != count or not _is_plain(part):
            got = f"shape {list(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
            got = "nothing" if part is None else got
            raise DataError(
                f"{name!r} of graph {number} (from 0) must have a row of numbers for each of its {count} edges, "
                f"got {got}",
                file=file,
            )
    return _joined(parts, name, file)


def _features(graphs: Sequence[Data], file: str | None) -> list[Column]:
    parts = [_tensor(graph, "x") for graph in graphs]
    return [] if all(part is None for part in parts) else _joined(parts, "x", file)


def _joined(parts: Sequence[Any], name: str, file: str | None) -> list[Column]:
    """The columns of the tensors of all graphs, joined; all tensors must be equally wide."""
    parts = [part.unsqueeze(1) if part is not None and part.dim() == 1 else part for part in parts]
    widths = [-1 if part is None else part.size(1) for part in parts]
    odd = next((k for k, width in enumerate(widths) if width != widths[0]), None)
    if odd is not None:
        got = "none" if widths[odd] < 0 else f"{widths[odd]}"
        what = "features" if name == "x" else f"columns of {name!r}"
        raise DataError(f"graph {odd} (from 0) has {got} {what}, but graph 0 has {widths[0]}", file=file)
    table = torch.cat([part.detach().to(torch.float64) for part in parts]).numpy()
    if len(infinite := np.argwhere(np.isinf(table))):
        row, column = infinite[0].tolist()
        number = int(np.searchsorted(np.cumsum([part.size(0) for part in parts]), row, side="right"))
        raise DataError(f"{name!r} of graph {number} (from 0) has an infinite value in column {column}", file=file)
    names = [name] if name == "edge_weight" and table.shape[1] == 1 else [f"{name}{k}" for k in range(table.shape[1])]
    return [Column(one, np.ascontiguousarray(table[:, k])) for k, one in enumerate(names)]


def _targets(
    graphs: Sequence[Data], sizes: Any, level: str, labelled: bool, file: str | None
) -> tuple[Column | None, tuple[Column, ...]]:
    """The target, and further ones where ``y`` has several numbers for each graph or node."""
    if not labelled:
        return None, ()
    found = [_tensor(graph, "y") for graph in graphs]
    width = 1
    for number, (value, size) in enumerate(zip(found, sizes.tolist(), strict=True)):
        items = 1 if level == "graph" else size
        if isinstance(value, (int, float, np.generic, np.ndarray)) and np.asarray(value).dtype.kind in "biuf":
            value = found[number] = torch.from_numpy(np.atleast_1d(value))
        plain = isinstance(value, Tensor) and _is_plain(value)
        if number == 0 and plain and value.dim() == 2 and value.size(0) == items:
            width = max(1, min(value.size(1), MOST_TARGETS))
        if not plain or value.numel() != items * width:
            got = f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            got = "nothing" if value is None else got
            numbers = "one number" if width == 1 else f"{width} numbers"
            per = numbers if level == "graph" else f"{numbers.replace('one', 'a')} for each of its {size} nodes"
            of_nodes = level == "graph" and plain and size > 1 and value.numel() == size
            hint = "; targets of nodes need --target node (level='node')" if of_nodes else ""
            raise DataError(f"'y' of graph {number} (from 0) must be {per}, got {got}{hint}", file=file)
    values = torch.cat([value.reshape(-1, width).to(torch.float64) for value in found]).numpy()
    names = ["y"] if width == 1 else [f"y{k}" for k in range(width)]
    columns = [Column(name, np.ascontiguousarray(values[:, k])) for k, name in enumerate(names)]
    for column in columns:
        check_complete(column, file)
    return columns[0], tuple(columns[1:])


def _part(graphs: Sequence[Data], sizes: Any, level: str, file: str | None) -> Ints | None:
    """The part of each node, if every graph has masks of nodes."""
    masks = [[_tensor(graph, name) for name in MASKS] for graph in graphs]
    if level == "graph" or not all(isinstance(mask, Tensor) for some in masks for mask in some):
        return None
    found = np.full(int(sizes.sum()), -1, dtype=np.int64)
    for number, name in enumerate(MASKS):
        for graph, (some, size) in enumerate(zip(masks, sizes.tolist(), strict=True)):
            mask = some[number]
            if mask.shape != (size,) or mask.dtype != torch.bool:
                got = f"{mask.dtype} of shape {list(mask.shape)}"
                raise DataError(
                    f"{name!r} of graph {graph} (from 0) must be a bool for each node, got {got}", file=file
                )
        every = torch.cat([some[number] for some in masks]).numpy()
        if (found[every] >= 0).any():
            raise DataError(f"a node is in {name!r} and in another mask", file=file)
        found[every] = number
    return found
