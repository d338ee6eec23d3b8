"""The assignment of rows to graphs, in every form that poolings need, each computed at most once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.utils.sparse import index2ptr

from gnpool.ops.layout import checking


class Segments:
    r"""N rows in G segments, given by ``index`` or ``ptr`` or both; without either all rows are one segment.

    Nothing here depends on the values of the rows, so under :func:`torch.vmap` all replicas share it. With ``count``,
    ``longest`` and ``ptr`` given, nothing waits for a GPU.

    Args:
        rows (torch.Tensor): The rows, (N, D); only their number and device are used.
        index (torch.Tensor, optional): The segment of each row, (N).
        ptr (torch.Tensor, optional): Boundaries of the segments of sorted rows, (G + 1).
        count (int, optional): The number of segments G.
        longest (int, optional): A size that no segment exceeds.
    """

    def __init__(
        self,
        rows: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        count: int | None = None,
        longest: int | None = None,
    ) -> None:
        self.rows = rows.size(0)
        if index is not None and index.size(0) != self.rows:
            raise ValueError(f"'batch' must have one value for each of the {self.rows} rows, got {index.size(0)}")
        if index is None and ptr is None:
            index, ptr = rows.new_zeros(self.rows, dtype=torch.long), _one_segment(rows)
        if ptr is not None:
            if count is not None and count != ptr.size(0) - 1:
                raise ValueError(f"'ptr' has {ptr.size(0) - 1} segments but 'batch_size' is {count}")
            if _looking(ptr) and (int(ptr[0]) != 0 or int(ptr[-1]) != self.rows):
                raise ValueError(f"'ptr' must run from 0 to {self.rows}, got {int(ptr[0])} to {int(ptr[-1])}")
            count = ptr.size(0) - 1
        elif count is None:
            assert index is not None
            count = int(index.max()) + 1 if self.rows else 0
        self.count = count
        self.given_ptr = ptr
        self._index, self._ptr = index, ptr
        self._longest = None if longest is None else max(longest, 1)
        self._mask: Tensor | None = None

    @property
    def index(self) -> Tensor:
        """The segment of each row, (N)."""
        if self._index is None:
            segments = torch.arange(self.count, device=self.ptr.device)
            self._index = segments.repeat_interleave(self.sizes, output_size=self.rows)
        return self._index

    @property
    def ptr(self) -> Tensor:
        """Boundaries of the segments, (G + 1); the rows of a segment must be consecutive."""
        if self._ptr is None:
            index = self.index
            if _looking(index) and bool((index[1:] < index[:-1]).any()):
                raise ValueError("'batch' (or 'index') must be sorted, so that the rows of one graph are consecutive")
            self._ptr = index2ptr(index, self.count)
        return self._ptr

    @property
    def longest(self) -> int:
        """A size that no segment exceeds: the given one, or the largest size; at least 1."""
        if self._longest is None or (self._mask is None and _looking(self.ptr)):
            largest = max(int(self.sizes.max()), 1) if self.count else 1
            if self._longest is None:
                self._longest = largest
            elif self._longest < largest:
                raise ValueError(f"'max_nodes' is {self._longest}, but the largest graph has {largest} nodes")
        return self._longest

    @property
    def sizes(self) -> Tensor:
        """The number of rows of each segment, (G)."""
        return self.ptr.diff()

    @property
    def mask(self) -> Tensor:
        """Which places of the dense form hold a row, (G, M)."""
        if self._mask is None:
            self._mask = torch.arange(self.longest, device=self.ptr.device) < self.sizes[:, None]
        return self._mask

    def dense(self, x: Tensor) -> Tensor:
        """The rows by segment, (N, ...) -> (G, M, ...), padded with zeros."""
        shape = (self.count, self.longest)
        if self.rows == 0:
            return x.new_zeros(*shape, *x.shape[1:])
        places = self.ptr[:-1, None] + torch.arange(self.longest, device=self.ptr.device)
        places = places.clamp(max=self.rows - 1).flatten()  # empty places take any row, since they are replaced
        rows = x.index_select(0, places).view(*shape, *x.shape[1:])
        mask = self.mask.view(*shape, *(1,) * (x.dim() - 1))
        return torch.where(mask, rows, 0.0)


def _looking(tensor: Tensor) -> bool:
    return not torch.compiler.is_compiling() and checking(tensor)


def _one_segment(rows: Tensor) -> Tensor:
    return torch.arange(2, device=rows.device) * rows.size(0)


class PoolsSegments:
    """A mixin before ``Aggregation``: the forward pass of an aggregation that pools rows with known segments."""

    assert_two_dimensional_input: Callable[[Tensor, int], None]

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        r"""Pools the rows of ``x``; ``max_num_elements`` is a size that no segment exceeds."""
        self.assert_two_dimensional_input(x, dim)
        return self.pool(x, Segments(x, index, ptr, dim_size, max_num_elements))

    def pool(self, x: Tensor, segments: Segments) -> Tensor:
        """Pool rows whose segments are known."""
        raise NotImplementedError
