"""A law as a module of torch: exact poolings with fixed numbers, in double precision inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import scatter

LEVELS = ("graph", "set", "node")
MOST_PLACES = 8  # a term has at most this many poolings, one inside the other
LEAST_ERROR = 1e-4  # the least share of wrong classes that probabilities are computed with


class LawNet(torch.nn.Module):
    r"""A law: a sum of poolings of features with factors, and a constant.

    It takes the same input as the other networks. There is nothing to train, since its numbers are buffers.

    Args:
        in_channels (int): Number of features.
        terms (sequence): A dictionary for each term, as :meth:`gnpool.insight.laws.Term.to_dict` gives it.
        level (str): ``"graph"``, ``"set"`` or ``"node"``.
        cuts (sequence of float, optional): For classes, the cuts with which the sum is compared. (default: none)
        order (sequence of int, optional): For classes, the class of each interval between cuts.
        out_channels (int, optional): Number of classes. (default: those in ``order``)
        loops (bool, optional): Whether edges of a node to itself count. (default: ``True``)
        features (sequence of str, optional): Names of the features, for :attr:`formula`. (default: ``x1``, ...)

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)`, ptr :math:`(G + 1)`
        - **output:** :math:`(G, 1)` or :math:`(N, 1)`; for classes a column for each class

    Example:
        >>> import torch
        >>> from gnpool.insight.laws import Law, Point, Term
        >>> degree_sum = Term(-1, (Point(1.0, 1.0), Point(1.0, 1.0)))  # the 1, summed over neighbours, then over nodes
        >>> net = Law((degree_sum,), (0.5,), 0.0, "graph", ()).model(1)
        >>> net(torch.zeros(3, 1), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))  # the edges of a path
        tensor([[2.]])
    """

    factors: Tensor
    constant: Tensor
    scales: Tensor
    unit: Tensor
    logit: Tensor

    def __init__(
        self,
        in_channels: int,
        terms: Sequence[Mapping[str, Any]],
        level: str,
        cuts: Sequence[float] = (),
        order: Sequence[int] = (),
        out_channels: int | None = None,
        loops: bool = True,
        features: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if level not in LEVELS:
            raise ValueError(f"LawNet: 'level' must be one of {LEVELS}, got {level!r}")
        if bool(cuts) != bool(order) or (cuts and len(order) != len(cuts) + 1):
            raise ValueError(
                f"LawNet: for {len(cuts)} cuts 'order' must hold {len(cuts) + 1} classes, got {len(order)}"
            )
        if not all(math.isfinite(cut) for cut in cuts) or any(k < 0 for k in order):
            raise ValueError("LawNet: 'cuts' must be numbers, and 'order' must hold numbers of classes")
        outputs = max(order, default=0) + 1 if out_channels is None else out_channels
        if outputs <= max(order, default=0):
            raise ValueError(f"LawNet: classes in 'order' must be below 'out_channels' = {outputs}, got {max(order)}")
        self.in_channels, self.level, self.loops, self.out_channels = in_channels, level, loops, outputs
        self.features = [str(name) for name in features or ()]
        if len(self.features) > in_channels:
            raise ValueError(f"LawNet: 'features' must hold {in_channels} names, got {len(self.features)}")
        self.terms = [_checked(term, in_channels) for term in terms]
        self.cuts, self.order = [float(cut) for cut in cuts], [int(k) for k in order]
        self.register_buffer("factors", torch.ones(len(terms), dtype=torch.float64))
        self.register_buffer("constant", torch.zeros((), dtype=torch.float64))
        self.register_buffer("scales", torch.ones(in_channels, dtype=torch.float64))  # of the features
        self.register_buffer("unit", torch.ones((), dtype=torch.float64))  # of the target
        self.register_buffer("logit", torch.ones((), dtype=torch.float64))  # of the class that is given
        self.set_error(0.0)

    def set_error(self, share: float) -> None:
        """Set the share of wrong classes, from which probabilities are computed."""
        share = min(max(share, LEAST_ERROR), 1 - LEAST_ERROR)
        self.logit.fill_(math.log((1 - share) / share * max(self.out_channels - 1, 1)))

    @property
    def arguments(self) -> dict[str, Any]:
        """What it was made with, as JSON can hold it."""
        terms = [
            {
                **term,
                "poolings": [
                    [str(p) if math.isinf(p) else p, growth, joined] for p, growth, joined in term["poolings"]
                ],
            }
            for term in self.terms
        ]
        return {
            "in_channels": self.in_channels, "terms": terms, "level": self.level, "cuts": self.cuts,
            "order": self.order, "out_channels": self.out_channels, "loops": self.loops, "features": self.features,
        }  # fmt: skip

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all nodes are one graph."""
        edges: Any = edge_index
        if hasattr(edges, "as_tensor"):  # PyG's EdgeIndex
            edges = edges.as_tensor()
        if edges is not None and not self.loops:
            edges = edges[:, edges[0] != edges[1]]
        graph, graphs = _graphs(x, batch, ptr, batch_size)
        values = x.double() * self.scales
        parts = [self._term(term, values, edges, graph, graphs) for term in self.terms]
        y = torch.stack(parts, dim=1) @ self.factors + self.constant
        if not self.cuts:
            return (y / self.unit)[:, None].to(x.dtype)
        place = (y[:, None] > torch.tensor(self.cuts, dtype=y.dtype, device=y.device)).sum(dim=1)
        classes = torch.tensor(self.order, device=y.device)[place]
        one_hot = classes[:, None] == torch.arange(self.out_channels, device=y.device)
        return (self.logit * one_hot).to(x.dtype)

    def _term(self, term: dict[str, Any], x: Tensor, edges: Any, graph: Tensor, graphs: int) -> Tensor:
        values = torch.ones_like(x[:, 0]) if term["feature"] < 0 else x[:, term["feature"]]
        hops = len(term["poolings"]) - term["readout"]
        for place, (p, growth, joined) in enumerate(term["poolings"]):
            if place < hops:
                if edges is None:
                    raise ValueError("LawNet: this law pools over neighbours and needs 'edge_index'")
                source, target = edges[0], edges[1]
                if term["closed"]:
                    own = torch.arange(x.size(0), device=x.device)
                    source, target = torch.cat([source, own]), torch.cat([target, own])
                values = _pool(values[source], target, x.size(0), p, growth, joined)
            else:
                values = _pool(values, graph, graphs, p, growth, joined)
        return values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {len(self.terms)} terms, level={self.level!r})"


def _checked(term: Mapping[str, Any], in_channels: int) -> dict[str, Any]:
    """A term with its numbers checked; anything that is not a number is refused."""
    feature, closed, readout = int(term["feature"]), bool(term["closed"]), bool(term["readout"])
    poolings = [(float(p), float(growth), bool(joined)) for p, growth, joined in term["poolings"]]
    if not -1 <= feature < in_channels:
        raise ValueError(f"LawNet: a term names feature {feature}, but there are only {in_channels} features")
    if any(math.isnan(p) or not math.isfinite(growth) for p, growth, _ in poolings):
        raise ValueError("LawNet: every exponent of a term must be a number")
    if not readout <= len(poolings) <= MOST_PLACES:
        raise ValueError(
            f"LawNet: a term must have between {int(readout)} and {MOST_PLACES} poolings, got {len(poolings)}"
        )
    return {"feature": feature, "poolings": poolings, "closed": closed, "readout": readout}


def _graphs(x: Tensor, batch: Tensor | None, ptr: Tensor | None, batch_size: int | None) -> tuple[Tensor, int]:
    if ptr is not None:
        rows = torch.arange(x.size(0), device=x.device)
        return torch.searchsorted(ptr, rows, right=True) - 1, ptr.size(0) - 1
    if batch is not None:
        return batch, int(batch.max()) + 1 if batch_size is None else batch_size
    return torch.zeros(x.size(0), dtype=torch.long, device=x.device), 1


def _pool(x: Tensor, index: Tensor, size: int, p: float, growth: float, joined: bool) -> Tensor:
    """Pool the rows (N,) of each segment by one pooling of the lattice; an empty segment gives 0."""
    n = scatter(torch.ones_like(x), index, 0, size, reduce="sum")
    if math.isinf(p):
        mean = scatter(x, index, 0, size, reduce="max" if p > 0 else "min")
    elif p == 0:
        mean = scatter(x.log(), index, 0, size, reduce="mean").exp()
    else:
        mean = scatter(x if p == 1 else x**p, index, 0, size, reduce="mean")
        mean = mean if p == 1 else mean ** (1 / p)
    some = n > 0
    n = n.clamp(min=1)
    if joined:
        mean = mean * n / (n + 1) if p == 1 else 1 / (1 + n / mean)
    elif growth != 0:
        mean = mean * n**growth
    return torch.where(some, mean, 0.0)
