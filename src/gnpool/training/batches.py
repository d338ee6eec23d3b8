"""Data sets of graphs as flat tensors, cut into batches whose order depends on a seed alone."""

from __future__ import annotations

import copy
import functools
import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

EDGES = "edge_index"
TRANSPOSE = "edge_transpose"  # the order of the edges by source, where they are sorted by destination


class Batch:
    """A batch of graphs. Its tensors are attributes: those of the graphs, and these, which say where each graph is.

    ``batch`` (N,) is the graph of each node, ``ptr`` (G + 1,) is where each graph begins, ``batch_size`` is G, and
    ``max_nodes`` is the size of the largest graph of the whole data set. If items do not count alike, ``weight``
    (items,) holds their weights.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.training import Batches
        >>> graphs = [Data(x=torch.ones(n, 1), y=torch.tensor([1.0 / n])) for n in (2, 3)]
        >>> (batch,) = Batches(graphs, seed=None)
        >>> batch.batch.tolist(), batch.ptr.tolist(), batch.batch_size, batch.max_nodes
        ([0, 0, 1, 1, 1], [0, 2, 5], 2, 3)
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    @property
    def fields(self) -> dict[str, Any]:
        """All attributes by name."""
        return self.__dict__

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        """The same batch with its tensors on ``device``."""
        moved = {
            name: value.to(device, non_blocking=non_blocking) if isinstance(value, Tensor) else value
            for name, value in self.fields.items()
        }
        return Batch(**moved)

    def double(self) -> Batch:
        """The same batch with float64 in place of every other floating type."""
        wide = {
            name: value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
            for name, value in self.fields.items()
        }
        return Batch(**wide)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={list(v.shape) if isinstance(v, Tensor) else v}" for k, v in self.fields.items())
        return f"Batch({shown})"


class Batches:
    r"""A data set of graphs, cut into batches.

    The order of epoch k depends on ``seed`` and k alone, so that a run can resume at any epoch, and all replicas of
    a study see the same batches.

    Args:
        graphs (Sequence[Data]): Graphs, sets (no ``edge_index``) or any PyG data with tensors. The first dimension of
            a tensor says whether it belongs to the nodes, the edges or the graph (1), which must be so in all graphs.
        batch_size (int, optional): Graphs in a batch; the last one of an epoch may have fewer. (default: ``64``)
        seed (int, optional): Seed of the shuffling; ``None`` keeps the given order, as for validation. (default: ``0``)
        sorted_edges (bool, optional): Give ``edge_index`` as a PyG :class:`~torch_geometric.EdgeIndex` sorted by
            destination. The edges of each graph are then sorted once, and GNP need not sort them at every call.
            (default: ``False``)

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.training import Batches
        >>> graphs = [Data(x=torch.ones(n, 1), y=torch.tensor([1.0 / n])) for n in (2, 3, 4)]
        >>> [batch.ptr.tolist() for batch in Batches(graphs, batch_size=2, seed=None)]
        [[0, 2, 5], [0, 4]]
    """

    def __init__(
        self, graphs: Sequence[Data], batch_size: int = 64, *, seed: int | None = 0, sorted_edges: bool = False
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"Batches: 'batch_size' must be at least 1, got {batch_size}")
        if len(graphs) == 0:
            raise ValueError("Batches: 'graphs' is empty")
        self.batch_size = batch_size
        self.seed = seed
        self.sorted_edges = sorted_edges
        self.count = len(graphs)
        self.nodes = torch.tensor([_num_nodes(graph) for graph in graphs], device="cpu")
        self.has_edges = EDGES in graphs[0]
        counts = [graph[EDGES].size(1) if EDGES in graph else 0 for graph in graphs]
        self.edges = torch.tensor(counts, device="cpu")
        self.levels = {
            name: self._level(name, graphs) for name in graphs[0].to_dict() if self._is_data(name, graphs[0])
        }
        parts = {name: [graph[name] for graph in graphs] for name in self.levels}
        self.values = {name: torch.cat(values, dim=_edge_dim(name)).cpu() for name, values in parts.items()}
        self.first_node = _starts(self.nodes)
        self.first_edge = _starts(self.edges)
        self.max_nodes = int(self.nodes.max())
        if sorted_edges and self.has_edges:
            self._sort_edges()

    def _sort_edges(self) -> None:
        """Sort the edges of each graph by destination, then source, and note their order by source, then destination.

        All graphs at once: no sort moves an edge across graphs, whose number comes first in every key.
        """
        source, destination = self.values[EDGES]
        low, high = (int(bound) for bound in self.values[EDGES].aminmax()) if source.numel() else (0, 0)
        span = high - low + 1
        graph = torch.repeat_interleave(torch.arange(self.count, device="cpu") * span - low, self.edges)
        arrival = graph + destination
        if not _is_sorted(arrival, source):
            order = source.argsort(stable=True)
            order = order[arrival[order].argsort(stable=True)]
            for name in [name for name, level in self.levels.items() if level == "edge"]:
                self.values[name] = self.values[name].index_select(_edge_dim(name), order)
            source = self.values[EDGES][0]
        transpose = (graph + source).argsort(stable=True)
        self.values[TRANSPOSE] = transpose - torch.repeat_interleave(self.first_edge, self.edges)
        self.levels[TRANSPOSE] = "edge"

    @staticmethod
    def _is_data(name: str, graph: Data) -> bool:
        return isinstance(graph[name], Tensor) and name not in ("batch", "ptr")

    def _level(self, name: str, graphs: Sequence[Data]) -> str:
        if name == EDGES:
            return "edge"
        if any(name not in graph for graph in graphs):
            raise ValueError(f"Batches: every graph must have '{name}', as the first one does")
        rows = torch.tensor([graph[name].size(0) if graph[name].dim() else -1 for graph in graphs], device="cpu")
        edge_first = "edge" in name
        for level, sizes in (
            ("edge", self.edges if edge_first else None),
            ("graph", torch.ones_like(rows)),
            ("node", self.nodes),
            ("edge", self.edges),
        ):
            if sizes is not None and torch.equal(rows, sizes):
                return level
        raise ValueError(
            f"Batches: the first dimension of '{name}' must be the number of nodes, of edges, or 1, in all graphs alike"
        )

    @functools.cached_property
    def paddings(self) -> dict[tuple[int, ...], Any]:
        """The results of :func:`~gnpool.training.padded.padding_of`, which are sent along with the data."""
        return {}

    def __len__(self) -> int:
        return math.ceil(self.count / self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(0)

    def permutation(self, number: int) -> NDArray[np.int64]:
        """All graphs in the order of epoch ``number``."""
        if self.seed is None:
            return np.arange(self.count)
        return np.random.default_rng([self.seed, number]).permutation(self.count)

    def order(self, number: int) -> list[Tensor]:
        """The graphs in each batch of epoch ``number``."""
        return list(torch.from_numpy(self.permutation(number)).split(self.batch_size))

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of epoch ``number``."""
        return (self.cut(graphs) for graphs in self.order(number))

    def cut(self, graphs: Tensor) -> Batch:
        """The batch of the given graphs, in their order."""
        nodes, edges = self.nodes[graphs], self.edges[graphs]
        rows = {"node": _ranges(self.first_node[graphs], nodes), "edge": _ranges(self.first_edge[graphs], edges)}
        rows["graph"] = graphs
        fields = {
            name: self.values[name].index_select(_edge_dim(name), rows[level]) for name, level in self.levels.items()
        }
        if EDGES in fields:
            fields[EDGES] += torch.repeat_interleave(_starts(nodes), edges)
        if TRANSPOSE in fields:
            order = fields.pop(TRANSPOSE) + torch.repeat_interleave(_starts(edges), edges)
            fields[EDGES] = sorted_edge_index(fields[EDGES], int(nodes.sum()), order)
        return Batch(
            **fields,
            batch=torch.repeat_interleave(torch.arange(len(graphs), device="cpu"), nodes),
            ptr=torch.cat([_starts(nodes), nodes.sum()[None]]),
            batch_size=len(graphs),
            max_nodes=self.max_nodes,
        )

    def select(self, graphs: Tensor) -> Batches:
        """The batches of the given graphs alone, with the same options."""
        part = copy.copy(self)
        vars(part).pop("paddings", None)  # these are the paddings of all graphs
        nodes, edges = self.nodes[graphs], self.edges[graphs]
        rows = {"node": _ranges(self.first_node[graphs], nodes), "edge": _ranges(self.first_edge[graphs], edges)}
        rows["graph"] = graphs
        part.values = {
            name: self.values[name].index_select(_edge_dim(name), rows[level]) for name, level in self.levels.items()
        }
        part.count, part.nodes, part.edges = len(graphs), nodes, edges
        part.first_node, part.first_edge = _starts(nodes), _starts(edges)
        return part

    def joined(self, other: Batches) -> Batches:
        """The graphs of both, with the options of this one. Both must have the same tensors."""
        if self.levels != other.levels:
            raise ValueError(f"Batches: both must have the same tensors, got {self.levels} and {other.levels}")
        both = copy.copy(self)
        vars(both).pop("paddings", None)
        both.values = {
            name: torch.cat([self.values[name], other.values[name]], dim=_edge_dim(name)) for name in self.levels
        }
        both.count, both.max_nodes = self.count + other.count, max(self.max_nodes, other.max_nodes)
        both.nodes, both.edges = torch.cat([self.nodes, other.nodes]), torch.cat([self.edges, other.edges])
        both.first_node, both.first_edge = _starts(both.nodes), _starts(both.edges)
        return both

    def describe(self) -> dict[str, Any]:
        """The options, and a checksum of the data."""
        digest = hashlib.sha256()
        for name in sorted(self.values):
            digest.update(name.encode())
            digest.update(self.values[name].contiguous().numpy().tobytes())
        return {"batch_size": self.batch_size, "seed": self.seed, "graphs": self.count, "sha256": digest.hexdigest()}

    def __repr__(self) -> str:
        return f"Batches({self.count} graphs, batch_size={self.batch_size}, seed={self.seed})"


def _num_nodes(graph: Data) -> int:
    nodes = graph.num_nodes
    if nodes is None:
        raise ValueError("Batches: a graph must have 'x' or 'num_nodes'")
    return int(nodes)


def _edge_dim(name: str) -> int:
    return -1 if name == EDGES else 0


def _is_sorted(first: Tensor, second: Tensor) -> bool:
    """Whether pairs ascend by ``first``, and among equals by ``second``."""
    step = first.diff()
    return bool(((step > 0) | ((step == 0) & (second.diff() >= 0))).all())


def sorted_edge_index(edge_index: Tensor, nodes: int, transpose: Tensor) -> EdgeIndex:
    """An EdgeIndex that is given the order by source, which it would otherwise compute by sorting."""
    result = EdgeIndex(edge_index, sparse_size=(nodes, nodes), sort_order="col")
    result._T_perm = transpose
    result._T_index = (edge_index[0][transpose], edge_index[1][transpose])
    return result


def _starts(counts: Tensor) -> Tensor:
    """(G,) counts -> where each part begins."""
    return counts.cumsum(0) - counts


def _ranges(first: Tensor, counts: Tensor) -> Tensor:
    """The numbers first[k], first[k] + 1, ... (counts[k] of them), for all k end to end."""
    steps = torch.arange(int(counts.sum()), device=counts.device)
    return torch.repeat_interleave(first - _starts(counts), counts) + steps
