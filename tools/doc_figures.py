"""Draw growth.png, p_and_q.png and plane.png of docs/figures: ``python -m tools.doc_figures``."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import torch

from gnpool import norm_pool
from gnpool.display.poolings import across
from gnpool.insight.figure import draw_names, points
from gnpool.lab import Scope, find_table
from gnpool.store import Store
from tools.check_docs import ROOT

mpl.use("Agg")
from matplotlib import pyplot as plt

SIZES = (5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200)
SEEN = 20  # elements of the largest set that the scales are fitted on
COLOURS = {"sum": "#1b6ca8", "mean": "#d1603d", "max": "#3a8f5b", "min": "#8a5aa8"}
POINTS = {"sum": (1.0, 0.0), "mean": (1.0, 1.0), "max": (float("inf"), 0.0), "min": (float("-inf"), 0.0)}


def growth(path: Path) -> None:
    """Each pooling times the factor that fits small sets best, against size, for two targets."""
    generator = torch.Generator().manual_seed(0)
    sets = {n: 0.2 + 0.8 * torch.rand(200, n, generator=generator) for n in SIZES}
    pooled = {
        name: {n: torch.stack([norm_pool(x[:, None], p=p, q=q)[0, 0] for x in rows]) for n, rows in sets.items()}
        for name, (p, q) in POINTS.items()
    }
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.6), constrained_layout=True)
    for axis, target in zip(axes, ("sum", "mean"), strict=True):
        small = [n for n in SIZES if n <= SEEN]
        labels = torch.cat([pooled[target][n] for n in small])
        axis.axvspan(SIZES[0], SEEN, color="#e9edf2", label="sizes in training")
        for name, values in pooled.items():
            inputs = torch.cat([values[n] for n in small])
            scale = (inputs * labels).sum() / inputs.square().sum()
            ratio = [float((scale * values[n]).mean() / pooled[target][n].mean()) for n in SIZES]
            exact = name == target
            axis.plot(SIZES, ratio, color=COLOURS[name], lw=3 if exact else 1.6, label=name, zorder=3 if exact else 2)
        axis.set(xscale="log", yscale="log", xlabel="elements of the set", title=f"the task is the {target}")
        axis.set_xticks([5, 10, 20, 50, 100, 200], ["5", "10", "20", "50", "100", "200"])
        axis.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        axis.set_ylim(0.07, 18)
        axis.minorticks_off()
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("prediction / truth")
    axes[1].legend(frameon=False, ncols=2, loc="lower right")
    save(figure, path)


def p_and_q(path: Path) -> None:
    """What p does to four values, and what p and q do to a set that grows."""
    values = torch.tensor([[1.0], [2.0], [3.0], [6.0]])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.8), constrained_layout=True)
    for side in (-1.0, 1.0):
        inverse = torch.linspace(0.02, 1.0, 80) * side
        for q, style, label in ((0.0, "-", "q = 0"), (None, "--", "q = 1/p")):
            pooled = [float(norm_pool(values, p=float(1 / v), q=float(v) if q is None else q)) for v in inverse]
            left.plot(inverse, pooled, style, color="#1b6ca8" if q == 0.0 else "#d1603d", lw=2,
                      label=label if side > 0 else None)  # fmt: skip
    for number in values.flatten().tolist():
        left.axhline(number, color="#9aa5b1", lw=0.8, ls=":")
    spots = {
        "sum 12": (1, 12, 10), "mean 3": (1, 3, -14), "max 6": (0.02, 6, 8), "min 1": (-0.02, 1, -14),
        "harmonic sum 0.5": (-1, 0.5, -14), "harmonic mean 2": (-1, 2, 8),
    }  # fmt: skip
    for text, (x, y, shift) in spots.items():
        left.plot([x], [y], "o", color="#20262d", ms=5)
        place = "right" if x == 1 else "left"
        left.annotate(text, (x, y), textcoords="offset points", xytext=(0, shift), ha=place, fontsize=9)
    left.set(
        yscale="log", ylim=(0.3, 22), xlim=(-1.08, 1.08), title="the set (1, 2, 3, 6)", ylabel="result", xlabel="p"
    )
    left.set_xticks([-1, -0.5, 0, 0.5, 1], ["-1", "-2", "∓∞", "2", "1"])
    left.set_yticks([0.5, 1, 2, 3, 6, 12], ["0.5", "1", "2", "3", "6", "12"])
    left.minorticks_off()
    left.legend(frameon=False, loc="upper left")
    sizes = torch.tensor([1, 2, 5, 10, 20, 50, 100, 200])
    lines = {
        "sum, (1, 0)": (1.0, 0.0), "(2, 0)": (2.0, 0.0), "max (∞, 0), mean (1, 1)": (float("inf"), 0.0),
        "(1, 1.5)": (1.0, 1.5), "harmonic sum, (-1, 0)": (-1.0, 0.0),
    }  # fmt: skip
    for (label, (p, q)), colour in zip(
        lines.items(), ("#1b6ca8", "#5b9bc8", "#3a8f5b", "#d99a3d", "#d1603d"), strict=True
    ):
        pooled = [float(norm_pool(torch.ones(int(n), 1), p=p, q=q)) for n in sizes]
        right.plot(sizes, pooled, color=colour, lw=2)
        right.annotate(
            label,
            (200, pooled[-1]),
            textcoords="offset points",
            xytext=(-4, 5 if pooled[-1] >= 1 else -15),
            ha="right",
            fontsize=9,
        )
    right.set(xscale="log", yscale="log", xlabel="elements n, all equal to 1", title="growth: n to the power 1/p - q")
    right.set_ylim(0.0015, 500)
    right.set_xticks([1, 10, 100], ["1", "10", "100"])
    right.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    right.minorticks_off()
    for axis in (left, right):
        axis.grid(alpha=0.25)
    save(figure, path)


def plane(path: Path) -> None:
    """The paths of the layers of fig_pq through the plane, for each seed, in the branch that is used."""
    store = Store(ROOT / "results" / "paper", create=False)
    table = find_table("fig_pq").results(Scope("paper"), store)
    figure, axis = plt.subplots(figsize=(6.4, 4.4), constrained_layout=True)
    draw_names(axis)
    for cell, colour in zip(table["cells"], COLOURS.values(), strict=True):
        ways = ways_of(cell["curves"], "negative" if cell["row"] == "shortest" else "positive")
        for p, height in ways:
            axis.plot(p, height, "-", color=colour, lw=1.2, alpha=0.6, zorder=2)
            axis.plot(p[0], height[0], "x", color="#20262d", ms=7, zorder=3)
        ends = [p[-1] for p, _ in ways], [height[-1] for _, height in ways]
        label = f"{cell['row']}, {cell['column']}"
        axis.plot(*ends, "o", color=colour, ms=6, mec="white", mew=0.8, zorder=4, label=label)
    axis.plot([], [], "x", color="#20262d", ms=7, label="start of training")
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, loc="lower right")
    save(figure, path)


def ways_of(curves: dict[str, list[list[float]]], branch: str) -> list[tuple[list[float], list[float]]]:
    """The path of a branch for each seed: after each epoch the position of p on its axis, and the growth."""
    seeds = range(len(curves["p_pos"][0]))
    ways = [points({name: [row[seed] for row in curve] for name, curve in curves.items()}, branch) for seed in seeds]
    return [([across(p) for p, _ in way], [height for _, height in way]) for way in ways]


def save(figure: plt.Figure, path: Path) -> None:
    """A PNG without a date, so that equal code gives an equal file."""
    figure.savefig(path, dpi=150, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    folder = parser.parse_args().out
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    growth(folder / "growth.png")
    p_and_q(folder / "p_and_q.png")
    plane(folder / "plane.png")


if __name__ == "__main__":
    main()
