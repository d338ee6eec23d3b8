r"""``read`` describes in words what the GNP layers of a trained model have learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnpool.display.poolings import Named, of_branch, parameter_distance, published_q
from gnpool.insight.figure import Curve, draw_plane
from gnpool.insight.probe import Branch, Call, branches_of, gnp_layers, recording
from gnpool.nn import GNPAggregation
from gnpool.training.program import by_name

TIE = 2e-3  # names this close to the nearest one count as equally near, and the simplest of them is taken
NEAR = 0.05  # a branch gets a name if its values are within 5 % of it, up to a factor
NEAR_PLANE = 0.2  # the same for the distance in the plane, which is used without data
HARDLY = 0.02  # a branch with less than 2 % of the output is hardly used


@dataclass(frozen=True)
class BranchReading:
    """What one branch of one layer has learned.

    Args:
        layer (str): Path of the layer in the model.
        branch (str): ``"one"`` (p of any sign), ``"positive"`` or ``"negative"``.
        p, growth (float): The point of the branch in the plane; p has its sign.
        name (str): The nearest named pooling.
        distance (float): The distance of this pooling. With data it is the relative error of the branch's values if
            the named pooling replaces it, up to one factor per channel; without data it is the distance in the plane
            of p and the growth.
        share (float, optional): Share of the layer's output that comes from this branch, from 0 to 1; needs data.
        near (bool): Whether the name is a fair description.
        ranking (tuple): All names of the branch with their distances, nearest first.
        coordinates (str): The coordinates that the layer learns, ``"growth"`` or ``"published"``.

    Example:
        >>> from gnpool import GNPAggregation, read
        >>> (branch,) = read(GNPAggregation(8, start="rms")).branches
        >>> branch.name, branch.p, branch.growth, branch.near
        ('root mean square', 2.0, 0.0, True)
    """

    layer: str
    branch: str
    p: float
    growth: float
    name: str
    distance: float
    share: float | None
    near: bool
    ranking: tuple[tuple[str, float], ...]
    coordinates: str = "growth"

    @property
    def q(self) -> float:
        """The exponent of the size in published coordinates, 1/p - growth; NaN if p is 0."""
        return published_q(self.p, self.growth)

    @property
    def used(self) -> bool:
        """Whether the branch contributes noticeably to the layer's output."""
        return self.share is None or self.share >= HARDLY

    @property
    def sentence(self) -> str:
        """The reading in words."""
        if not self.used:
            return f"hardly used ({100 * (self.share or 0):.1f} % of the output)"
        whole = self.share is None or self.branch == "one"
        amount = "" if whole else f", {100 * (self.share or 0):.0f} % of the output"
        if self.near:
            return f"{self.name}{amount}"
        return f"no named pooling; nearest is the {self.name}, off by {100 * self.distance:.0f} %{amount}"


@dataclass(frozen=True)
class Reading:
    """The readings of all branches of a model; it prints as a table.

    Example:
        >>> import torch
        >>> from gnpool import GNPAggregation, read
        >>> model = torch.nn.ModuleDict({"aggr": GNPAggregation(4, start="sum"), "readout": GNPAggregation(4)})
        >>> reading = read(model)
        >>> [(path, reading.layer(path)[0].name) for path in reading.layers]
        [('aggr', 'sum'), ('readout', 'mean')]
    """

    branches: tuple[BranchReading, ...]
    with_data: bool

    def layer(self, path: str) -> list[BranchReading]:
        """The branches of one layer, the one with the largest share first."""
        found = [branch for branch in self.branches if branch.layer == path]
        return sorted(found, key=lambda branch: -(branch.share or 0.0))

    @property
    def layers(self) -> list[str]:
        """Paths of the layers."""
        return list(dict.fromkeys(branch.layer for branch in self.branches))

    def to_dict(self) -> dict[str, Any]:
        """The reading in a form that JSON can hold; q is None if p is 0."""
        branches = [{**asdict(branch), "q": branch.q if branch.p else None} for branch in self.branches]
        return {"with_data": self.with_data, "branches": branches}

    def draw(self, path: str | Path, curves: Mapping[str, Mapping[str, Curve]] | None = None) -> Path:
        """Draw the plane of poolings with every branch in it, see :func:`~gnpool.insight.figure.draw_plane`."""
        return draw_plane(self, path, curves)

    def __str__(self) -> str:
        published = any(branch.coordinates == "published" for branch in self.branches)
        head = ("layer", "branch", "p", *(("q",) if published else ()), "growth", "reading")
        rows = []
        for b in self.branches:
            values = (b.p, *((b.q,) if published else ()), b.growth)
            rows.append((b.layer or "(itself)", b.branch, *map(_rounded, values), b.sentence))
        widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
        align = ("<", "<", *">" * (len(head) - 3), "<")
        lines = [
            "  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(row, align, widths, strict=True)) for row in (head, *rows)
        ]
        return "\n".join(line.rstrip() for line in lines)


def read(
    model: torch.nn.Module,
    batch: Any = None,
    *,
    forward: Callable[[torch.nn.Module, Any], Tensor] | None = None,
) -> Reading:
    r"""Describes the poolings that a model has learned.

    p and the growth alone do not determine the pooling: if all messages are equal, for example, every p with growth 0
    is the mean. With a ``batch`` the names are therefore compared *in function space*: each branch is replaced by the
    named pooling of the same rows, and the distance is the relative error of its values, up to one factor per channel,
    which the mixing layer can absorb. Of equally near names the simplest is taken.

    Args:
        model (torch.nn.Module): Any module with :class:`~gnpool.GNPAggregation` inside.
        batch (optional): Data to run the model on, such as a PyG batch.
        forward (callable, optional): ``forward(model, batch)``, how to call the model. By default it is called with
            the attributes of the batch that its ``forward`` names.

    Example:
        >>> import torch
        >>> from gnpool import GNPAggregation, read
        >>> print(read(GNPAggregation(8, start="geometric")))
        layer     branch     p  growth  reading
        (itself)  one     0.00    0.00  geometric mean
        >>> print(read(GNPAggregation(8, coordinates="published", start="mean")))
        layer     branch        p     q  growth  reading
        (itself)  positive   1.00  1.00    0.00  mean
        (itself)  negative  -1.69  0.00   -0.59  no named pooling; nearest is the harmonic sum, off by 58 %
    """
    layers = gnp_layers(model)
    if not layers:
        raise ValueError(f"read: {type(model).__name__} has no GNPAggregation inside")
    calls: dict[str, list[Call]] = {path: [] for path in layers}
    if batch is not None:
        call = by_name(model) if forward is None else forward
        with torch.no_grad(), recording(model) as calls:
            call(model, batch)
    found = []
    for path, layer in layers.items():
        parts = branches_of(layer)
        shares = _shares(layer, parts, calls[path])
        for part in parts:
            ranking = _ranking(layer, part, calls[path])
            named, distance = ranking[0]
            near = distance <= (NEAR if calls[path] else NEAR_PLANE)
            names = tuple((candidate.name, far) for candidate, far in ranking)
            found.append(
                BranchReading(
                    path,
                    part.name,
                    part.p,
                    part.growth,
                    named.name,
                    distance,
                    shares[part.name],
                    near,
                    names,
                    layer.coordinates,
                )
            )
    return Reading(tuple(found), batch is not None)


def _ranking(layer: GNPAggregation, part: Branch, calls: list[Call]) -> list[tuple[Named, float]]:
    """All names of the branch and their distances. Names that tie with the nearest come first, the simplest first."""
    distances = {named: _distance(layer, part, named, calls) for named in of_branch(part.name)}
    least = min(distances.values())

    def order(named: Named) -> tuple[float, int]:
        tied = distances[named] <= least + TIE
        return (0.0 if tied else distances[named], named.rank)

    return [(named, distances[named]) for named in sorted(distances, key=order)]


def _distance(layer: GNPAggregation, part: Branch, named: Named, calls: list[Call]) -> float:
    if not calls:
        return parameter_distance(part.p, part.growth, named)
    learned = torch.cat([call.pool(part.inputs, part.p, part.growth) for call in calls])
    ideal = torch.cat([call.pool(part.inputs, named.p, named.growth) for call in calls])
    weight = _column_weight(layer, part).to(learned.device)
    energy = learned.square().sum(0)
    match = (learned * ideal).sum(0).square() / ideal.square().sum(0).clamp(min=torch.finfo(torch.float64).tiny)
    left = (energy - match).clamp(min=0.0)
    total = (weight * energy).sum()
    return float(((weight * left).sum() / total).sqrt()) if total > 0 else 0.0


def _shares(layer: GNPAggregation, parts: list[Branch], calls: list[Call]) -> dict[str, float | None]:
    """The share of each branch in the output: the norm of what it adds to the output of the mixing layer."""
    if not calls:
        return dict.fromkeys((part.name for part in parts), None)
    sizes = {}
    for part in parts:
        pooled = torch.cat([call.pool(part.inputs, part.p, part.growth) for call in calls])
        if layer.mix is not None:
            pooled = pooled @ layer.mixing_weight().detach().double()[:, part.outputs].T
        sizes[part.name] = float(pooled.norm())
    total = sum(sizes.values())
    return {name: size / total if total > 0 else 0.0 for name, size in sizes.items()}


def _column_weight(layer: GNPAggregation, part: Branch) -> Tensor:
    """The weight of each pooled channel in the layer's output."""
    if layer.mix is None:
        device = next(layer.parameters()).device
        return torch.ones(part.outputs.stop - part.outputs.start, dtype=torch.float64, device=device)
    return layer.mixing_weight().detach().double()[:, part.outputs].square().sum(0)


def _rounded(value: float) -> str:
    """Two decimals, without a minus before 0."""
    return "-" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"
