"""The plane of poolings as a picture: where the names are, and where training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnpool.insight.names import NAMES

if TYPE_CHECKING:
    from gnpool.insight.reading import Reading

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # told apart by colour-blind readers too
Q_RANGE = (-1.6, 1.6)  # shown at least
LEFT = ("min", "mean", "sum", "root mean square")  # names that stand left of their points, so that none is over another
Curve = Sequence[float]


def draw_plane(reading: Reading, path: str | Path, curves: Mapping[str, Mapping[str, Curve]] | None = None) -> Path:
    """Draw every branch of a reading in the plane of 1/p and q; faint marks are branches that are hardly used.

    Args:
        reading (Reading): What :func:`read` found.
        path (str or Path): The picture to write.
        curves (Mapping, optional): For a layer, its exponents over training, ``{"p_pos": [...], "q_pos": [...], ...}``.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'gnpool[report]'") from error
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.subplots()
    draw_names(axes)
    lowest, highest = Q_RANGE
    for number, branch in enumerate(reading.branches):
        color, short = COLORS[number % len(COLORS)], "pos" if branch.branch == "positive" else "neg"
        strength = 1.0 if branch.used else 0.3
        taken = (curves or {}).get(branch.layer, {})
        if f"p_{short}" in taken:
            sign = 1 if short == "pos" else -1
            inverse = [sign / float(p) for p in taken[f"p_{short}"]]
            q = [float(value) for value in taken[f"q_{short}"]]
            axes.plot(inverse, q, "-", color=color, alpha=0.6 * strength, linewidth=1.5, zorder=2)
            axes.plot(inverse[:1], q[:1], "x", color=color, alpha=strength, zorder=2)
            lowest, highest = min(lowest, *q), max(highest, *q)
        label = f"{branch.layer or 'layer'}, {branch.branch}: {branch.sentence}"
        marker = "^" if branch.branch == "positive" else "v"
        axes.plot(1 / branch.p, branch.q, marker, color=color, alpha=strength, markersize=9, label=label, zorder=3)
        lowest, highest = min(lowest, branch.q), max(highest, branch.q)
    axes.set_ylim(lowest - 0.1, highest + 0.1)
    figure.legend(loc="outside lower center", fontsize=9, frameon=False)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def draw_names(axes: Any) -> None:
    """The points of the plane that have a name, on axes of 1/p that are labelled in p, and q."""
    for named in NAMES:
        axes.plot(1 / named.p, named.q, "o", color="0.75", markersize=9, zorder=1)
        side, align = (-8, "right") if named.name in LEFT else (8, "left")
        axes.annotate(
            named.name,
            (1 / named.p, named.q),
            textcoords="offset points",
            xytext=(side, 7),
            ha=align,
            color="0.35",
            fontsize=9,
        )
    axes.axvline(0, color="0.9", linewidth=1, zorder=0)
    axes.set_xlim(-1.15, 1.15)
    axes.set_xticks((-1, -0.5, 0, 0.5, 1), ["-1", "-2", "±∞", "2", "1"])
    axes.set_xlabel("p, in even steps of 1/p")
    axes.set_ylabel("q")
