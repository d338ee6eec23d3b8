r"""``read``: what the GNP layers of a trained model have become, in words."""

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

TIE = 2e-3  # names this close to the nearest one are as near: the simplest of them is taken
NEAR = 0.05  # a branch whose values are within 5 % of a name, up to a factor, is that name
NEAR_PLANE = 0.2  # the same for the distance in the plane, where there is no data
HARDLY = 0.02  # a branch with less than 2 % of the output is hardly used


@dataclass(frozen=True)
class BranchReading:
    """What one branch of one layer has become.

    Args:
        layer (str): Path of the layer in the model.
        branch (str): ``"one"``, where p may have any sign, ``"positive"`` or ``"negative"``.
        p, growth (float): Where the branch stands in the plane, p with its sign.
        name (str): The nearest named pooling.
        distance (float): How far it is: with data, the relative error of the branch's values when the name stands in
            its place, up to one factor per channel; without data, the distance in the plane of p and the growth.
        share (float, optional): Part of the layer's output that comes through this branch, from 0 to 1; needs data.
        near (bool): Whether the name is a fair description.
        ranking (tuple): All names of the branch with their distances, nearest first.
        coordinates (str): ``"growth"`` or ``"published"``, what the layer learns.
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
        """The exponent of the size in published coordinates, 1/p - growth; NaN where p is 0."""
        return published_q(self.p, self.growth)

    @property
    def used(self) -> bool:
        """Whether anything of note comes through the branch."""
        return self.share is None or self.share >= HARDLY

    @property
    def sentence(self) -> str:
        """The reading as a person would say it."""
        if not self.used:
            return f"hardly used ({100 * (self.share or 0):.1f} % of the output)"
        whole = self.share is None or self.branch == "one"
        amount = "" if whole else f", {100 * (self.share or 0):.0f} % of the output"
        if self.near:
            return f"{self.name}{amount}"
        return f"no named pooling; nearest is the {self.name}, off by {100 * self.distance:.0f} %{amount}"


@dataclass(frozen=True)
class Reading:
    """The readings of all branches of a model; prints as a table."""

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
        """As JSON can hold it; q is None where p is 0."""
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
    r"""Reads the learned poolings of a model aloud.

    p and the growth do not tell all: on messages that are all equal, for example, every p with growth 0 is the mean.
    With a ``batch`` the names are therefore compared *in function space*: each branch is replaced by the named pooling
    of the same rows, and the distance is the relative error of its values, up to one factor per channel, which the
    mixing layer can take. Of names that are equally near the simplest is taken.

    Args:
        model (torch.nn.Module): Any module with :class:`~gnpool.GNPAggregation` inside.
        batch (optional): Data to run the model on, such as a PyG batch.
        forward (callable, optional): ``forward(model, batch)``, how to call the model. By default with the attributes
            of the batch that its ``forward`` names.

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
    """All names of the branch and their distances; those that tie with the nearest come first, simplest first."""
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
    """Part of the output of each branch: the norm of what it adds to the mixing layer's output."""
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
    """How much each pooled channel matters for what comes after."""
    if layer.mix is None:
        device = next(layer.parameters()).device
        return torch.ones(part.outputs.stop - part.outputs.start, dtype=torch.float64, device=device)
    return layer.mixing_weight().detach().double()[:, part.outputs].square().sum(0)


def _rounded(value: float) -> str:
    """Two digits, and no minus in front of 0."""
    return "-" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"
