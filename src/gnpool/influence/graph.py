"""A directed graph with a probability on every edge, in the order that the simulators need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from gnpool.data import EdgeList
from gnpool.data.table import edge_order

ONES = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class CascadeGraph:
    r"""A directed graph whose edges hold the probability that the source activates the target.

    Edges are kept sorted by target, then source, so that results do not depend on the order they were given in.

    Args:
        nodes (int): Number of nodes, numbered from 0.
        source, target (numpy.ndarray): The ends of the edges, int64 (E).
        probability (numpy.ndarray): Probability that an active source activates the target, float64 (E).

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.influence import CascadeGraph
        >>> edges = torch.tensor([[0, 1], [1, 2]])
        >>> CascadeGraph.from_data(Data(edge_index=edges, edge_weight=torch.tensor([0.5, 0.25]), num_nodes=3))
        CascadeGraph(3 nodes, 2 edges)
    """

    nodes: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    probability: NDArray[np.float64]

    def __post_init__(self) -> None:
        source, target, probability = self.source, self.target, self.probability
        if not source.shape == target.shape == probability.shape or source.ndim != 1:
            shapes = ", ".join(str(a.shape) for a in (source, target, probability))
            raise ValueError(f"'source', 'target' and 'probability' must have one shape (E,), got {shapes}")
        if source.size:
            low, high = min(source.min(), target.min()), max(source.max(), target.max())
            if low < 0 or high >= self.nodes:
                raise ValueError(f"nodes must lie in [0, {self.nodes}), got {low if low < 0 else high}")
        wrong = ~((probability >= 0) & (probability <= 1))
        if wrong.any():
            raise ValueError(f"'probability' must lie in [0, 1], got {probability[wrong.argmax()]}")
        order, repeated = edge_order(target.astype(np.int64), source.astype(np.int64), self.nodes)
        if repeated.any():
            raise ValueError("an edge is repeated; combine the probabilities first, 1 - (1 - p)(1 - p')")
        for name, values in (("source", source), ("target", target), ("probability", probability)):
            kind = np.float64 if name == "probability" else np.int64
            object.__setattr__(self, name, values.astype(kind) if order is None else values.astype(kind)[order])

    @classmethod
    def from_edge_list(cls, edges: EdgeList) -> CascadeGraph:
        """The graph of a file that :func:`gnpool.data.read_edge_list` has read."""
        return cls(edges.nodes, edges.source, edges.target, edges.probability)

    @classmethod
    def from_data(cls, data: Data) -> CascadeGraph:
        """The graph of a PyG ``Data`` whose ``edge_weight`` are the probabilities."""
        if data.edge_index is None or data.edge_weight is None:
            raise ValueError("'data' must have 'edge_index' and, as probabilities, 'edge_weight'")
        source, target = data.edge_index.cpu().numpy()
        return cls(int(data.num_nodes or 0), source, target, data.edge_weight.detach().cpu().double().numpy())

    @property
    def edges(self) -> int:
        """Number of edges."""
        return self.source.size

    @cached_property
    def out_ptr(self) -> NDArray[np.int64]:
        """(N + 1,) where the edges out of each node begin in :attr:`out_lists`."""
        return _pointers(self.source, self.nodes)

    @cached_property
    def in_ptr(self) -> NDArray[np.int64]:
        """(N + 1,) where the edges into each node begin."""
        return _pointers(self.target, self.nodes)

    @cached_property
    def threshold(self) -> NDArray[np.uint64]:
        """(E,) the binary digits of the probabilities, the first one in the highest bit; 1 is all digits."""
        digits = np.full(self.edges, ONES)
        below = self.probability < 1
        digits[below] = np.ldexp(self.probability[below], 64).astype(np.uint64)
        return digits

    @cached_property
    def out_lists(self) -> tuple[NDArray[Any], ...]:
        """Target, number and threshold of the edges in the order of their sources."""
        kind = np.int32 if max(self.nodes, self.edges) < 2**31 else np.int64
        order = np.argsort(self.source, kind="stable")
        return self.target[order].astype(kind), order.astype(kind), self.threshold[order]

    @property
    def out_degree(self) -> NDArray[np.int64]:
        """(N,) number of edges out of each node."""
        return np.diff(self.out_ptr)

    def edge_index(self, device: torch.device | str = "cpu") -> Any:
        """The edges as a PyG ``EdgeIndex`` sorted by target, which keeps the lists of the pooling kernels."""
        ends = torch.from_numpy(np.stack([self.source, self.target])).to(device)
        return EdgeIndex(ends, sparse_size=(self.nodes, self.nodes), sort_order="col")

    def edge_weight(self, device: torch.device | str = "cpu") -> Tensor:
        """The probabilities, float32 (E), in the order of :meth:`edge_index`."""
        return torch.from_numpy(self.probability.astype(np.float32)).to(device)

    def __repr__(self) -> str:
        return f"CascadeGraph({self.nodes:,} nodes, {self.edges:,} edges)"


def _pointers(ends: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    pointers = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=nodes), out=pointers[1:])
    return pointers
