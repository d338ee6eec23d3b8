r"""Many networks at once, each with its own graphs: one batch of R parts, and one sparse product for all of them.

:func:`torch.vmap` shares one batch among all networks. In a cross-validation every network has a different batch. Here
the graphs of all networks form one block-diagonal graph, and a linear layer is a product of a batch of matrices. Rows
are laid out as (R, N, D), where N is the largest number of nodes of a part. Rows after the nodes of a part are padding,
and no edge leads there. A single network is the case R = 1.
"""

from __future__ import annotations

import abc
import functools
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Sizes = NDArray[np.int64]


class Graphs:
    """The places of the nodes of R times G graphs among R times N rows.

    Sizes are known on the host, so that nothing here waits for a GPU.

    Args:
        sizes (numpy.ndarray): Number of nodes of each graph, (R, G); a missing graph has 0.
        device (torch.device): The device of the lists.
        on_device (torch.Tensor, optional): A copy of ``sizes`` on the device, (R * G).
    """

    def __init__(self, sizes: Sizes, device: torch.device, on_device: Tensor | None = None) -> None:
        self.sizes = sizes
        self.parts, self.graphs = sizes.shape
        per_part = sizes.sum(1)
        self.width = max(int(per_part.max()), 1)  # N
        self.total = int(per_part.sum())
        counts = torch.from_numpy(sizes.reshape(-1)).to(device) if on_device is None else on_device
        self.counts = counts  # (R * G)
        self.ptr = F.pad(counts.cumsum(0), (1, 0))  # (R * G + 1) into members
        number = torch.arange(self.parts * self.graphs, device=device)
        self.owner = number.repeat_interleave(counts, output_size=self.total)  # graph of each node
        part = number // self.graphs
        self.shift = part * self.width - self.ptr[part * self.graphs]  # (R * G) from place among nodes to row
        self.members = torch.arange(self.total, device=device) + self.shift[self.owner]  # row of each node

    @property
    def rows(self) -> int:
        """R times N."""
        return self.parts * self.width

    @functools.cached_property
    def pattern(self) -> Pattern:
        """The pattern of the rows that each graph pools."""
        return Membership(self)

    def spread(self, values: Tensor) -> Tensor:
        """Place (T, D), one row for each node, in (R, N, D), with zeros in the padding."""
        out = values.new_zeros(self.rows, values.size(1)).index_copy(0, self.members, values)
        return out.view(self.parts, self.width, -1)

    def keep(self, score: Tensor, ratio: float) -> tuple[Graphs, Tensor]:
        """The graphs of the ceil(ratio n) nodes of largest score (R, N) in each graph, and the rows of these nodes.

        Of equal scores the first are kept. Nodes stay in their order, so that sorted edges stay sorted.
        """
        sizes = np.ceil(np.float32(ratio) * self.sizes.astype(np.float32)).astype(np.int64)
        kept = Graphs(sizes, score.device, (ratio * self.counts.float()).ceil().long())
        bits = (score.detach().float().flatten()[self.members] + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
        rank = ~(bits ^ ((bits >> 31) & 0x7FFFFFFF))  # ascending as the score descends
        order = ((self.owner << 32) + (rank.long() + 2**31)).argsort(stable=True)
        first = torch.arange(kept.total, device=score.device) - kept.ptr[kept.owner] + self.ptr[kept.owner]
        return kept, self.members[order[first]].sort().values


class Pattern(abc.ABC):
    """A sparse matrix of ones, (R * M) rows and (R * N) columns, in compressed rows."""

    ptr: Tensor
    col: Tensor
    columns: int
    parts: int

    @property
    def rows(self) -> int:
        """R times M."""
        return self.ptr.numel() - 1

    @functools.cached_property
    def row(self) -> Tensor:
        """The row of each entry."""
        numbers = torch.arange(self.rows, device=self.ptr.device)
        return numbers.repeat_interleave(self.ptr.diff(), output_size=self.col.numel())

    @functools.cached_property
    def log2_count(self) -> Tensor:
        """The logarithm of the number of entries of each row, (R, M, 1), 0 for an empty one."""
        return self.ptr.diff().clamp(min=1).double().log2().view(self.parts, -1, 1)

    def times(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        """The matrix times x (columns, D); ``values`` (E) replace its ones."""
        return _product(self.ptr, self.col, values, x, self.columns)

    @abc.abstractmethod
    def transposed_times(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        """The transposed matrix times x (rows, D)."""


class Membership(Pattern):
    """The pattern of graphs over their nodes; it has no values."""

    def __init__(self, graphs: Graphs) -> None:
        self.ptr, self.col, self.columns, self.parts = graphs.ptr, graphs.members, graphs.rows, graphs.parts
        self.graphs = graphs

    @functools.cached_property
    def owner(self) -> Tensor:
        """The graph of each row, -1 in the padding."""
        nobody = torch.full((self.columns,), -1, device=self.col.device)
        return nobody.index_copy(0, self.col, self.graphs.owner)

    def transposed_times(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        return x.new_zeros(self.columns, x.size(1)).index_copy(0, self.col, x.index_select(0, self.graphs.owner))


class Neighbors(Pattern):
    """The pattern of nodes over their neighbours and themselves; it is symmetric, because the graphs are undirected.

    Args:
        row (torch.Tensor): Destination of each edge, sorted; edges of one row sorted by column.
        col (torch.Tensor): Source.
        graphs (Graphs): The rows.
        weight (torch.Tensor, optional): A factor for each edge, as symmetric as the pattern. (default: 1)
    """

    def __init__(self, row: Tensor, col: Tensor, graphs: Graphs, weight: Tensor | None = None) -> None:
        self.graphs, self.col, self.weight, self.columns, self.parts = graphs, col, weight, graphs.rows, graphs.parts
        self.row = row
        self.ptr = torch.searchsorted(row, torch.arange(graphs.rows + 1, device=row.device))

    @functools.cached_property
    def mirror(self) -> Tensor:
        """For each edge, the number of the reverse edge."""
        return (self.col * self.columns + self.row).argsort()

    @functools.cached_property
    def normalized(self) -> Tensor:
        r"""The weights of a graph convolution, :math:`w_{ij} / \sqrt{d_i d_j}`."""
        if self.weight is None:
            root = self.ptr.diff().clamp(min=1).double().rsqrt()
            return root[self.row] * root[self.col]
        degree = self.weight.new_zeros(self.rows).index_add(0, self.row, self.weight)
        root = torch.where(degree > 0, degree, 1.0).rsqrt()
        return root[self.row] * self.weight * root[self.col]

    @functools.cached_property
    def place(self) -> Tensor:
        """The number of each edge within its part."""
        width = self.graphs.width
        return torch.arange(self.col.numel(), device=self.col.device) - self.ptr[self.row // width * width]

    def transposed_times(self, x: Tensor, values: Tensor | None = None) -> Tensor:
        return self.times(x, None if values is None else values[self.mirror])

    def among(self, kept: Graphs, rows: Tensor) -> Neighbors:
        """The edges between remaining nodes. This waits for the device, because their number depends on scores."""
        number = torch.full((self.columns,), -1, device=rows.device).index_copy(0, rows, kept.members)
        row, col = number[self.row], number[self.col]
        stay = ((row >= 0) & (col >= 0)).nonzero().squeeze(1)
        return Neighbors(row[stay], col[stay], kept, None if self.weight is None else self.weight[stay])


class GraphStack:
    """R batches of graphs: x (R, N, F), the places of graphs, their edges with loops, and classes y (R, G).

    ``real`` (R, G) says which graphs exist.
    """

    def __init__(self, x: Tensor, graphs: Graphs, edges: Neighbors, y: Tensor, real: Tensor) -> None:
        self.x, self.graphs, self.edges, self.y, self.real = x, graphs, edges, y, real


def stack_of_one(x: Tensor, edge_index: Tensor, batch: Tensor | None, count: int | None = None) -> GraphStack:
    """Turn a PyG batch with sorted ``batch`` into a stack of one part: each edge once, and one loop at each node."""
    batch = torch.zeros(x.size(0), dtype=torch.long, device=x.device) if batch is None else batch
    if count is None:
        count = int(batch.max()) + 1 if batch.numel() else 1
    sizes = torch.bincount(batch, minlength=count).cpu().numpy()[None]
    graphs = Graphs(sizes, x.device)
    loops = torch.arange(x.size(0), device=x.device)
    source, destination = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
    size = max(x.size(0), 1)
    key = torch.cat([destination * size + source, loops * size + loops]).unique()
    edges = Neighbors(key // size, key % size, graphs)
    empty = torch.zeros(1, count, dtype=torch.long, device=x.device)
    return GraphStack(x[None] if len(x) else x.new_zeros(1, 1, x.size(1)), graphs, edges, empty, empty == 0)


def pick(x: Tensor, rows: Tensor) -> Tensor:
    """Rows of x (R, N, D) or (R, N), by number among all R * N. Indexing would sort in its derivative."""
    return x.flatten(0, 1).index_select(0, rows)


def affine(layer: torch.nn.Linear, x: Tensor) -> Tensor:
    """Apply a linear layer of one network, or of R (its weight has one more dimension), to x (R, N, D)."""
    return matmul(x, layer.weight, layer.bias)


def matmul(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (R, N, D) times the transposed weight (D', D) or (R, D', D), plus a bias (D') or (R, D')."""
    if weight.dim() == 2:
        return F.linear(x, weight, bias)
    if bias is None:
        return torch.bmm(x, weight.transpose(1, 2))
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


def propagate(x: Tensor, pattern: Pattern, values: Tensor | None = None, *, symmetric: bool = False) -> Tensor:
    """Sums over the entries of each row, (R, N, D) -> (R, M, D); ``symmetric`` saves a transposition."""
    out: Tensor = _Sum.apply(x.flatten(0, 1), values, pattern, symmetric)
    return out.view(pattern.parts, -1, x.size(2))


def largest(x: Tensor, pattern: Pattern) -> Tensor:
    """Maxima over the entries of each row, (R, N, D) -> (R, M, D); 0 for an empty row. Ties share the gradient."""
    out: Tensor = _Max.apply(x.flatten(0, 1), pattern)
    return out.view(pattern.parts, -1, x.size(2))


class Dice:
    """Random numbers that depend only on the run, the step and the place, not on the other runs of the stack.

    Args:
        seeds (torch.Tensor): One number for each part, (R), int64.
        step (int): Number of the step; each step gives other numbers.
    """

    def __init__(self, seeds: Tensor, step: int) -> None:
        self.seeds, self.step, self.rolls = seeds, step, 0

    def keep(self, place: Tensor, part: Tensor, rate: float) -> Tensor:
        """Which places dropout at ``rate`` keeps; ``part`` is the part of each place, in the same shape."""
        self.rolls += 1
        z = place * _ODD[0] + self.seeds[part] + _wrapped(self.step * _ODD[1] + self.rolls * _ODD[2])
        for shift, factor in ((30, _ODD[3]), (27, _ODD[4])):
            z = (z ^ ((z >> shift) & (2 ** (64 - shift) - 1))) * factor
        z = z ^ ((z >> 31) & (2**33 - 1))
        return ((z >> 40) & 0xFFFFFF) >= round(rate * 2**24)


def dropout(x: Tensor, rate: float, training: bool, dice: Dice | None) -> Tensor:
    """Dropout on x (R, G, D), with the dice or, for a single network, torch's own random numbers."""
    if not training or rate == 0:
        return x
    if dice is None:
        return F.dropout(x, rate, True)
    place = torch.arange(x[0].numel(), device=x.device).view(1, *x.shape[1:]).expand_as(x)
    part = torch.arange(x.size(0), device=x.device).view(-1, *(1,) * (x.dim() - 1)).expand_as(x)
    return torch.where(dice.keep(place, part, rate), x / (1 - rate), 0.0)


def _wrapped(number: int) -> int:
    """An integer modulo 2^64, as an int64."""
    return (number + 2**63) % 2**64 - 2**63


# Odd constants with mixed bits, from splitmix64 and others.
_ODD = tuple(
    _wrapped(c)
    for c in (0x9E3779B97F4A7C15, 0xD1342543DE82EF95, 0xA0761D6478BD642F, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def _product(ptr: Tensor, col: Tensor, values: Tensor | None, x: Tensor, columns: int) -> Tensor:
    _silence_torch()
    values = x.new_ones(()).expand(col.numel()) if values is None else values.to(x.dtype)
    size = (ptr.numel() - 1, columns)
    matrix = torch.sparse_csr_tensor(ptr, col, values.contiguous(), size, device=x.device, check_invariants=False)
    result: Tensor = matrix @ x.contiguous()
    return result


@functools.cache
def _silence_torch() -> None:
    """Trigger and hide torch's warnings that compressed rows are in beta and, in 2.11, that they are not checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), device="cpu", check_invariants=False)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, values: Tensor | None, pattern: Pattern, symmetric: bool) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, values)
        ctx.pattern, ctx.symmetric = pattern, symmetric
        return pattern.times(x, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, values = ctx.saved_tensors
        pattern = ctx.pattern
        by_x = by_values = None
        if ctx.needs_input_grad[0]:
            back = pattern.times if ctx.symmetric else pattern.transposed_times
            by_x = back(grad, values)
        if ctx.needs_input_grad[1]:
            by_values = (grad.index_select(0, pattern.row) * x.index_select(0, pattern.col)).sum(1)
        return by_x, by_values, None, None


class _Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, pattern: Pattern) -> Tensor:
        values = x.index_select(0, pattern.col)
        out = torch.segment_reduce(values, "max", offsets=pattern.ptr, axis=0, unsafe=True, initial=-torch.inf)
        out = torch.where(out == -torch.inf, 0.0, out)
        ctx.save_for_backward(x, out)
        ctx.pattern = pattern
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, out = ctx.saved_tensors
        pattern = ctx.pattern
        attained = (x.index_select(0, pattern.col) == out.index_select(0, pattern.row)).to(grad.dtype)
        ties = torch.segment_reduce(attained, "sum", offsets=pattern.ptr, axis=0, unsafe=True, initial=0.0)
        share = (grad / ties.clamp(min=1.0)).index_select(0, pattern.row) * attained
        return torch.zeros_like(x).index_add(0, pattern.col, share), None
