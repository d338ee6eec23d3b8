"""Draws the plane of poolings: the named points, and the path of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnpool.display.palette import COLORS
from gnpool.display.poolings import NAMES, across
from gnpool.insight.probe import curve_name

if TYPE_CHECKING:
    from gnpool.insight.reading import Reading

MARKERS = {"one": "D", "positive": "^", "negative": "v"}
TICKS = (-math.inf, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, math.inf)
GROWTH_RANGE = (-1.2, 1.2)  # the least that the picture shows
# The offset of each name from its point, in typographic points, and its alignment, so that no names overlap.
LABELS = {
    "sum": (0, 10, "center"),
    "min": (6, 7, "left"),
    "mean": (-5, 7, "right"),
    "root mean square": (14, -15, "right"),
    "max": (5, -15, "right"),
    "L2 norm": (9, -3, "left"),
}
Curve = Sequence[float]


def draw_plane(reading: Reading, path: str | Path, curves: Mapping[str, Mapping[str, Curve]] | None = None) -> Path:
    """Draw every branch of a reading in the plane of p and the growth. Branches that are hardly used are faint.

    Args:
        reading (Reading): What :func:`read` found.
        path (str or Path): The picture to write.
        curves (Mapping, optional): For a layer, its exponents over training, ``{"p": [...], "growth": [...]}``, or
            ``{"p_pos": [...], "q_pos": [...], ...}`` of the two branches of published coordinates.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'gnpool[report]'") from error
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.subplots()
    draw_names(axes)
    lowest, highest = GROWTH_RANGE
    for number, branch in enumerate(reading.branches):
        color, strength = COLORS[number % len(COLORS)], 1.0 if branch.used else 0.3
        way = points((curves or {}).get(branch.layer, {}), branch.branch)
        if way:
            place, growth = [across(p) for p, _ in way], [value for _, value in way]
            axes.plot(place, growth, "-", color=color, alpha=0.6 * strength, linewidth=1.5, zorder=2)
            axes.plot(place[:1], growth[:1], "x", color=color, alpha=strength, zorder=2)
            lowest, highest = min(lowest, *growth), max(highest, *growth)
        which = "" if branch.branch == "one" else f", {branch.branch}"
        label = f"{branch.layer or 'layer'}{which}: {branch.sentence}"
        marker = MARKERS[branch.branch]
        axes.plot(
            across(branch.p), branch.growth, marker, color=color, alpha=strength, markersize=8, label=label, zorder=3
        )
        lowest, highest = min(lowest, branch.growth), max(highest, branch.growth)
    axes.set_ylim(lowest - 0.05, highest + 0.05)
    figure.legend(loc="outside lower center", fontsize=9, frameon=False)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def points(curves: Mapping[str, Curve], branch: str) -> list[tuple[float, float]]:
    """p with its sign and the growth of a branch over training, from the exponents of its layer.

    Example:
        >>> from gnpool.insight.figure import points
        >>> points({"p_neg": [1.0, 2.0], "q_neg": [0.0, -0.5]}, "negative")
        [(-1.0, -1.0), (-2.0, 0.0)]
        >>> points({"p": [1.0, 0.0], "growth": [1.0, 0.5]}, "one")
        [(1.0, 1.0), (0.0, 0.5)]
    """
    p, q, growth = (curves.get(curve_name(kind, branch)) for kind in ("p", "q", "growth"))
    if p is None or (q is None and growth is None):
        return []
    sign = -1 if branch == "negative" else 1
    signed = [sign * float(value) for value in p]
    if growth is None:
        growth = [1 / p - float(value) for p, value in zip(signed, q or (), strict=True)]
    return list(zip(signed, map(float, growth), strict=True))


def draw_names(axes: Any) -> None:
    """The points of the plane that have a name, on axes of the growth and of p on the scale of ``across``."""
    for named in NAMES:
        at = (across(named.p), named.growth)
        axes.plot(*at, "o", color="0.75", markersize=9, zorder=1)
        right, up, align = LABELS.get(named.name, (0, 7, "center"))
        axes.annotate(
            named.name, at, textcoords="offset points", xytext=(right, up), ha=align, color="0.35", fontsize=9
        )
    axes.axhline(0, color="0.8", linewidth=1, zorder=0)
    axes.grid(color="0.94", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlim(-2.1, 2.1)
    axes.set_ylim(*GROWTH_RANGE)
    axes.set_xticks([across(p) for p in TICKS], [f"{p:g}".replace("inf", "∞") for p in TICKS])
    axes.set_yticks((-1, -0.5, 0, 0.5, 1), ["-1", "-1/2", "0", "1/2", "1"])
    axes.set_xlabel("p (in even steps of 1/p beyond -1 and 1)")
    axes.set_ylabel("growth (power of n)")
