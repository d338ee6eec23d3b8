"""The exact poolings that replace a learned one. They need torch and PyG only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.utils import scatter

from gnpool.display.poolings import BY_NAME, LATTICE, MEANS
from gnpool.insight.probe import branches_of
from gnpool.nn import GNPAggregation

AND = " and "  # separates two poolings of one branch
POWERED = {named.name: MEANS[named.p] for named in LATTICE if named.growth}  # names that are n^growth times a mean


def names_in(text: str) -> tuple[str, ...]:
    """The names of the poolings that stand in a branch.

    Example:
        >>> from gnpool.insight.crystal import names_in
        >>> names_in("mean and min"), names_in("mean with a 0")
        (('mean', 'min'), ('mean with a 0',))
    """
    return tuple(text.split(AND))


def together(*names: str) -> str:
    """The text of several poolings in one branch, the simplest first."""
    return AND.join(sorted(names, key=lambda name: BY_NAME[name].rank))


class NamedPooling(Aggregation):
    r"""An exact pooling by name, of rows that are not negative.

    sum, mean, max and min are PyG's, so that a zero counts for the minimum. The harmonic poolings leave zeros out,
    :math:`1 / \sum_{x > 0} 1/x`, and are 0 if nothing is left. The geometric mean is :math:`\exp` of the mean of
    :math:`\log x`, and a zero makes it 0. The other points of the lattice of p and the growth are a power of n times a
    mean, such as ``"n^(1/2) mean"``. Two poolings add one element to the set first: "mean with a 0" is
    :math:`\sum x / (n + 1)`, and "harmonic sum with a 1" is :math:`1 / (1 + \sum_{x > 0} 1/x)`. An empty segment gives
    0, or the value of the added element.

    Example:
        >>> import torch
        >>> from gnpool.insight import NamedPooling
        >>> x = torch.tensor([[1.0], [4.0], [9.0]])
        >>> index = torch.tensor([0, 0, 1])
        >>> [NamedPooling(name)(x, index).flatten().tolist() for name in ("geometric mean", "harmonic sum")]
        [[2.0, 9.0], [0.8, 9.0]]
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in BY_NAME:
            raise ValueError(f"NamedPooling: 'name' must be one of {', '.join(BY_NAME)}, got {name!r}")
        self.name = name

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        index, dim_size = _segments(index, ptr, dim_size, x.size(dim))
        if self.name not in POWERED:
            return self._pool(self.name, x, index, dim_size, dim)
        n = self.reduce(torch.ones_like(x), index, None, dim_size, dim, reduce="sum").clamp(min=1.0)
        return n ** BY_NAME[self.name].growth * self._pool(POWERED[self.name], x, index, dim_size, dim)

    def _pool(self, name: str, x: Tensor, index: Tensor | None, dim_size: int | None, dim: int) -> Tensor:
        if name in ("sum", "mean", "max", "min"):
            return self.reduce(x, index, None, dim_size, dim, reduce=name)
        if name in ("L2 norm", "root mean square"):
            reduce = "sum" if name == "L2 norm" else "mean"
            return _root(self.reduce(x.square(), index, None, dim_size, dim, reduce=reduce), 2)
        if name == "cubic mean":
            return _root(self.reduce(x**3, index, None, dim_size, dim, reduce="mean"), 3)
        if name == "mean with a 0":
            total = self.reduce(x, index, None, dim_size, dim, reduce="sum")
            return total / (1 + self.reduce(torch.ones_like(x), index, None, dim_size, dim, reduce="sum"))
        present = x > 0
        if name == "geometric mean":
            logs = self.reduce(torch.where(present, x, 1.0).log(), index, None, dim_size, dim, reduce="mean")
            least = self.reduce(x, index, None, dim_size, dim, reduce="min")  # 0 for an empty segment too
            return torch.where(least > 0, logs.exp(), 0.0)
        inverse = torch.where(present, 1 / torch.where(present, x, 1.0), 0.0)
        total = self.reduce(inverse, index, None, dim_size, dim, reduce="sum")
        if name == "harmonic sum with a 1":
            return 1 / (1 + total)
        some = total > 0
        y = torch.where(some, 1 / torch.where(some, total, 1.0), 0.0)
        if name == "harmonic mean":
            y = y * self.reduce(torch.ones_like(x), index, None, dim_size, dim, reduce="sum")
        return y

    def reduce(  # PyG's version uses the ptr in a way that torch.vmap does not support
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        reduce: str = "sum",
    ) -> Tensor:
        if index is None:
            index = torch.zeros(x.size(dim), dtype=torch.long, device=x.device)
        result: Tensor = scatter(x, index, dim, dim_size, reduce)
        return result

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class NeighborAggregation(Aggregation):
    """An aggregation that can also gather its rows from the neighbours of each node, as GNPAggregation can."""

    def pool_neighbors(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        dim_size: int | None = None,
        sizes: Tensor | None = None,
    ) -> Tensor:
        """Pool all neighbours of each node, as :meth:`gnpool.GNPAggregation.pool_neighbors` does without ``sizes``."""
        if sizes is not None:
            raise ValueError(
                f"{type(self).__name__}: an exact pooling takes all neighbours; leave out 'sizes', which is for samples"
            )
        edges: Any = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
        messages = x.index_select(0, edges[0])
        if edge_weight is not None:
            messages = edge_weight[:, None] * messages
        y: Tensor = self(messages, edges[1], dim_size=x.size(0) if dim_size is None else dim_size)
        return y


class CrystalAggregation(NeighborAggregation):
    r"""A GNP layer whose exponents were replaced by named poolings: it pools channels exactly, then mixes them.

    Args:
        channels (int): Number of input channels.
        parts (list): For each branch that is kept, (start, stop, name): the pooling of the channels start to stop - 1.
        nonneg (str, optional): What makes the rows non-negative, ``"relu"`` or ``"abs"``.
        mix (torch.nn.Linear, optional): The mixing layer, over the pooled channels of all parts.

    Example:
        >>> import torch
        >>> from gnpool.insight import CrystalAggregation
        >>> pool = CrystalAggregation(2, [(0, 1, "sum"), (1, 2, "max")])
        >>> pool(torch.tensor([[1.0, 5.0], [2.0, 3.0]]), torch.tensor([0, 0]))
        tensor([[3., 5.]])
    """

    def __init__(
        self,
        channels: int,
        parts: list[tuple[int, int, str]],
        nonneg: str | None = "relu",
        mix: torch.nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.channels, self.parts, self.nonneg = channels, [tuple(part) for part in parts], nonneg
        self.poolings = torch.nn.ModuleList(NamedPooling(name) for _, _, name in parts)
        self.mix = mix
        width = sum(stop - start for start, stop, _ in parts)
        self.out_channels = width if mix is None else mix.out_features

    @classmethod
    def from_gnp(cls, layer: GNPAggregation, names: dict[str, str], bias: bool = True) -> CrystalAggregation:
        """The layer with the branches in ``names`` replaced by these poolings, and the others dropped.

        A branch may become two poolings, as in ``{"one": "mean and min"}``; each starts with half of its weights. The
        mixing layer absorbs the factor of the usual size n0, so that the output for n0 elements keeps its scale.
        """
        kept = [
            (part, name) for part in branches_of(layer) if part.name in names for name in names_in(names[part.name])
        ]
        parts = [(part.inputs.start, part.inputs.stop, name) for part, name in kept]
        mix = None
        if layer.mix is not None:
            columns = [column for part, _ in kept for column in range(part.outputs.start, part.outputs.stop)]
            biased, weight = bias and layer.mix.bias is not None, layer.mix.weight
            mix = torch.nn.Linear(len(columns), len(weight), biased, device="meta")  # draws no weights
            shares = [len(names_in(names[p.name])) for p, _ in kept for _ in range(p.outputs.start, p.outputs.stop)]
            factor = 1.0 / torch.tensor(shares, dtype=torch.float64, device=weight.device)
            if layer.coordinates == "growth":
                growth = [BY_NAME[name].growth for start, stop, name in parts for _ in range(start, stop)]
                factor = factor * factor.new_tensor([layer.size**-value for value in growth])
            mix.weight = torch.nn.Parameter((weight[:, columns] * factor.to(weight)).detach())
            if biased:
                mix.bias = torch.nn.Parameter(layer.mix.bias.detach().clone())
        return cls(layer.channels, parts, layer.nonneg, mix)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        index, dim_size = _segments(index, ptr, dim_size, x.size(dim))
        x = x.relu() if self.nonneg == "relu" else x.abs()
        pooled = [
            pooling(x[..., start:stop], index, dim_size=dim_size, dim=dim)
            for (start, stop, _), pooling in zip(self.parts, self.poolings, strict=True)
        ]
        y = torch.cat(pooled, dim=-1)
        return y if self.mix is None else self.mix(y)

    def __repr__(self) -> str:
        names = " + ".join(f"{name}[{start}:{stop}]" for start, stop, name in self.parts)
        return f"{type(self).__name__}({self.channels}, {names})"


def _segments(
    index: Tensor | None, ptr: Tensor | None, dim_size: int | None, rows: int
) -> tuple[Tensor | None, int | None]:
    """The segment of each row and the number of segments, from ``ptr`` if there is no ``index``."""
    if index is not None or ptr is None:
        return index, dim_size
    sizes = ptr.diff()
    places = torch.arange(len(sizes), device=ptr.device)
    return torch.repeat_interleave(places, sizes, output_size=rows), len(sizes)


def _root(x: Tensor, order: int) -> Tensor:
    """The square or cube root, with derivative 0 at 0."""
    positive = x > 0
    inside = torch.where(positive, x, 1.0)
    return torch.where(positive, inside.sqrt() if order == 2 else inside ** (1 / order), 0.0)
