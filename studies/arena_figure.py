"""Draws the picture of docs/arena.md: published methods, fixed poolings, ours and each benchmark's ceiling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.arena_scores import Found, of_ours

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "arena.png"
GREY, ORANGE, BLUE = "0.55", "#D55E00", "#0072B2"
LAYERS = {"published algorithms": (2.0, GREY), "fixed poolings": (1.0, ORANGE), "GNP": (0.0, BLUE)}


def draw(tables: list[dict[str, Any]], path: Path = PICTURE) -> None:
    """Draw a strip for each benchmark, with a dot for each method."""
    found = of_ours(tables)
    if not found:
        return
    figure = Figure(figsize=(8.0, 0.6 + 0.95 * len(found)), layout="constrained")
    for axes, one in zip(figure.subplots(len(found), squeeze=False)[:, 0], found, strict=True):
        _strip(axes, one)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _strip(axes: Axes, one: Found) -> None:
    groups = {
        "published algorithms": list(one.methods.values()),
        "fixed poolings": [mean for row, mean in one.rows.items() if _fixed(row)],
        "GNP": [mean for row, mean in one.rows.items() if row.startswith("GNP")],
    }
    for name, values in groups.items():
        height, color = LAYERS[name]
        axes.plot(values, [height] * len(values), "o", color=color, markersize=6, alpha=0.75)
    if one.ours is not None:
        axes.plot([one.ours[1]], [0.0], "D", color=BLUE, markersize=9)
    if one.ceiling is not None:
        axes.axvline(one.ceiling, color="0.2", linewidth=1.2, linestyle="--")
        axes.annotate("ceiling", (one.ceiling, 2.4), fontsize=7, ha="right", color="0.2")
    axes.set_yticks([height for height, _ in LAYERS.values()], list(LAYERS), fontsize=7)
    axes.set_ylim(-0.7, 2.9)
    axes.tick_params(axis="x", labelsize=7)
    title = one.table if one.column == one.first else f"{one.table}, {one.column}"
    axes.set_title(f"{title} ({one.preset} preset)", fontsize=8, loc="left", pad=2)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)


def _fixed(row: str) -> bool:
    first, _, second = row.partition(",")[0].partition("/")
    names = ("sum", "mean", "max", "min")
    return first in names and (not second or second in names)
