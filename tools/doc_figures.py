"""Draw growth.png, p_and_q.png, plane.png and lattice.png of docs/figures: ``python -m tools.doc_figures``.

The plane takes two minutes, because six layers are trained for it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import torch
from torch_geometric.data import Data

from gnpool import GNPAggregation, Setting, fit_many, norm_pool
from gnpool.display.palette import COLORS
from gnpool.display.poolings import BY_NAME, NAMES, Named, across
from gnpool.insight.figure import draw_names
from tools.check_docs import ROOT

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patheffects import withStroke

SIZES = (5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200)
SEEN = 20  # elements of the largest set that the factors are fitted on
COLOURS = {"sum": "#1b6ca8", "mean": "#d1603d", "max": "#3a8f5b", "min": "#8a5aa8"}
POINTS = {"sum": (1.0, 0.0), "mean": (1.0, 1.0), "max": (float("inf"), 0.0), "min": (float("-inf"), 0.0)}
LEARNED = ("sum", "max", "min", "L2 norm", "geometric mean", "harmonic sum")  # the targets of plane.png
PLACES = (float("-inf"), -1.0, 0.0, 1.0, 2.0, float("inf"))  # p of each column of lattice.png
HEIGHTS = {1.0: "1", 0.5: "1/2", 0.0: "0", -0.5: "-1/2", -1.0: "-1"}


def growth(path: Path) -> None:
    """Draw each pooling, times the factor that fits small sets best, against size, for two targets."""
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
    """Draw the effect of p on four values, and the effect of p and q on a growing set."""
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


def plane(path: Path, epochs: int = 100) -> None:
    """Draw the paths of six layers from the mean to the poolings that their targets need."""
    figure, axis = plt.subplots(figsize=(6.8, 4.4), constrained_layout=True)
    draw_names(axis)
    for text in axis.texts:  # readable if a line passes behind it
        text.set(zorder=6, path_effects=[withStroke(linewidth=3, foreground="white")])
    for name, colour in zip(LEARNED, COLORS, strict=False):
        way = [(across(p), height) for p, height in way_to(BY_NAME[name], epochs)]
        axis.plot(*zip(*way, strict=True), "-", color=colour, lw=2, alpha=0.85, zorder=2)
        axis.plot(*way[-1], "o", color=colour, ms=8, mec="white", mew=0.8, zorder=4)
    axis.plot(1, 0, "X", color="#20262d", ms=10, mec="white", mew=0.8, zorder=5, label="start of training: the mean")
    axis.plot([], [], "o", color="#20262d", ms=8, label="end of training, one colour per target")
    axis.legend(frameon=False, loc="upper left")
    save(figure, path)


def way_to(target: Named, epochs: int) -> list[tuple[float, float]]:
    """p and the growth after each epoch of a layer trained on sets of 5 to 29 numbers."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(5, 30, (400,), generator=generator).tolist()
    rows = [0.05 + 0.95 * torch.rand(n, 1, generator=generator) for n in sizes]
    labels = torch.cat([norm_pool(x, p=target.p, growth=target.growth).flatten() for x in rows])
    labels = labels / labels.square().mean().sqrt()
    sets = [Data(x=x, y=y.view(1)) for x, y in zip(rows, labels, strict=True)]
    fit = fit_many(
        Scaled,
        sets,
        lambda prediction, batch: (prediction.view_as(batch.y) - batch.y).square(),
        Setting(lr=1e-2, lr_p=0.03, lr_g=0.01, optimizer="adam"),
        epochs=epochs,
        batch_size=8,
        schedule=lambda epoch: min(1.0, 2 * (1 - epoch / epochs) + 0.01),
    )
    return list(zip(fit.curve("pool.p")[:, 0].tolist(), fit.curve("pool.growth")[:, 0].tolist(), strict=True))


class Scaled(torch.nn.Module):
    """A pooling times a learned factor."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = GNPAggregation(1, mix=False)
        self.log_scale = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor, batch: torch.Tensor, batch_size: int) -> torch.Tensor:
        """One number for each set."""
        return self.log_scale.exp() * self.pool(x, batch, dim_size=batch_size)


def lattice(path: Path) -> None:
    """Draw a small chart for each name of the lattice, at its place: its values on growing sets."""
    generator = torch.Generator().manual_seed(0)
    sizes = (2, 4, 8, 16, 32, 64, 128)
    sets = {n: 0.05 + 0.95 * torch.rand(400, n, generator=generator) for n in sizes}
    figure, axes = plt.subplots(
        len(HEIGHTS), len(PLACES), figsize=(10.5, 6.4), sharex=True, sharey=True, constrained_layout=True
    )
    by_place = {(named.p, named.growth): named for named in NAMES}
    for row, (height, height_text) in zip(axes, HEIGHTS.items(), strict=True):
        row[0].set_ylabel(f"g = {height_text}", rotation=0, ha="right", va="center")
        for axis, p in zip(row, PLACES, strict=True):
            named = by_place.get((p, height))
            pooled = [float(norm_pool(sets[n].T, p=p, growth=height).mean()) for n in sizes]
            axis.plot(sizes, pooled, color="#1b6ca8" if named else "#c5ced8", lw=3 if named else 1.6)
            axis.set_title("" if named is None else named.name, fontsize=10)
            axis.set(xscale="log", yscale="log", ylim=(0.0003, 300))
            axis.set_xticks([2, 16, 128], ["2", "16", "128"])
            axis.set_yticks([0.01, 1, 100], ["0.01", "1", "100"])
            axis.minorticks_off()
            axis.grid(alpha=0.25)
    for axis, p in zip(axes[-1], PLACES, strict=True):
        axis.set_xlabel(f"elements\n\np = {p:g}".replace("inf", "∞"))
    save(figure, path)


def save(figure: plt.Figure, path: Path) -> None:
    """Save a PNG without a date, so that equal code gives an equal file."""
    figure.savefig(path, dpi=150, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Draw all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    folder = parser.parse_args().out
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    growth(folder / "growth.png")
    p_and_q(folder / "p_and_q.png")
    plane(folder / "plane.png")
    lattice(folder / "lattice.png")


if __name__ == "__main__":
    main()
