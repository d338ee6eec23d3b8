"""The pictures of the theory. They need matplotlib, which is imported when the first one is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnpool.display.palette import COLORS, MARKERS
from gnpool.theory.study import LINEAR, MLP, VECTOR, RegressionRow, TheoryStudy
from gnpool.theory.targets import PlaneMap
from gnpool.theory.widths import WidthRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 110
FLOOR, CEILING = 1e-1, 1e3  # percent: the ends of the colour scale


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, or an error that says how to get matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("figures need matplotlib; install it with: pip install 'gnpool[report]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figures(study: TheoryStudy, folder: Path) -> list[Path]:
    """Draw the three pictures into a folder, which is made if it does not exist, and return their paths."""
    pictures = {
        "theory_regression.png": regression_figure(study.regression),
        "theory_widths.png": widths_figure(study.widths),
        "theory_map.png": map_figure(study.maps),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        figure.savefig(folder / name, dpi=DPI, metadata={"Software": None})  # equal results give equal files
    return [folder / name for name in pictures]


def regression_figure(rows: Sequence[RegressionRow]) -> Figure:
    """Errors of kernel regression: one panel per setting, one line of dots per test set."""
    settings = (LINEAR, MLP, VECTOR)
    figure = new_figure(11.0, 3.8)
    panels = figure.subplots(1, len(settings), sharey=True)
    sets = list(rows[0].test)
    for panel, setting in zip(panels, settings, strict=True):
        chosen = [row for row in rows if row.setting == setting]
        for place, row in enumerate(chosen):
            height = np.arange(len(sets)) + 0.11 * (place - (len(chosen) - 1) / 2)
            panel.scatter(
                list(row.test.values()), height, color=COLORS[place], marker=MARKERS[place], s=26, label=row.readout
            )
        panel.set_xscale("log")
        panel.set_title(setting, fontsize=10)
        panel.set_xlabel("mean relative error (%)")
        panel.grid(axis="x", color="0.9")
        panel.set_axisbelow(True)
    panels[0].set_yticks(range(len(sets)), sets)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def widths_figure(rows: Sequence[WidthRow]) -> Figure:
    """Distance from the kernel against width, before and after training: means, and all runs as a band."""
    figure = new_figure(9.0, 4.0)
    panels = figure.subplots(1, 2)
    titles = ("tangent kernel at the start", "trained network, on larger graphs")
    cases = list(dict.fromkeys(row.case for row in rows))
    for panel, attribute, title in zip(panels, ("kernel", "function"), titles, strict=True):
        for place, case in enumerate(cases):
            chosen = [row for row in rows if row.case == case]
            runs = [np.array(getattr(row, attribute)) for row in chosen]
            places = [row.width for row in chosen]
            means = [float(part.mean()) for part in runs]
            panel.plot(places, means, color=COLORS[place], marker=MARKERS[place], label=case)
            low, high = [part.min() for part in runs], [part.max() for part in runs]
            panel.fill_between(places, low, high, color=COLORS[place], alpha=0.15, linewidth=0)
        widths = sorted({row.width for row in rows})
        top = max(np.mean(getattr(row, attribute)) for row in rows if row.width == widths[0])
        panel.plot(
            widths, [top * (w / widths[0]) ** -0.5 for w in widths], color="0.6", linestyle=":", label="width$^{-1/2}$"
        )
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(widths, [str(w) for w in widths])
        panel.minorticks_off()
        panel.set_xlabel("width")
        panel.set_ylabel("relative distance from the kernel")
        panel.set_title(title, fontsize=10)
        panel.grid(color="0.9")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def map_figure(maps: Sequence[PlaneMap]) -> Figure:
    """One panel per target: the worst error of every pooling of the (p, q) plane."""
    from matplotlib.colors import LogNorm

    columns = 3
    figure = new_figure(11.0, 3.5 * math.ceil(len(maps) / columns))
    panels: Any = figure.subplots(math.ceil(len(maps) / columns), columns, sharex=True, sharey=True, squeeze=False)
    image: Any = None
    for panel, found in zip(panels.flat, maps, strict=True):
        half = len(found.p) // 2
        step = found.q[1] - found.q[0]
        # Columns are numbered; the left half holds p < 0 and ends with min, the right half p > 0 and begins with max.
        extent = (-0.5, len(found.p) - 0.5, found.q[0] - step / 2, found.q[-1] + step / 2)
        clipped = found.error.clamp(FLOOR, CEILING).numpy()
        norm = LogNorm(FLOOR, CEILING)
        image = panel.imshow(clipped, origin="lower", extent=extent, aspect="auto", cmap="viridis", norm=norm)
        panel.axvline(half - 0.5, color="white", linewidth=2)
        valley = [1.0 / p - 1.0 / found.target.a + found.target.b for p in found.p]
        for side in (slice(0, half), slice(half, None)):
            panel.plot(range(len(found.p))[side], valley[side], color="white", linestyle=":", linewidth=1.2)
        column = found.p.index(found.target.a)
        panel.plot(column, found.target.b, marker="*", markersize=15, markerfacecolor="none", markeredgecolor="#D55E00")
        panel.set_title(f"{found.target.name}: a = {_name(found.target.a)}, b = {found.target.b:g}", fontsize=10)
        panel.set_ylim(extent[2], extent[3])
        ticks = [p for p in (-0.5, -1.0, -2.0, -math.inf, math.inf, 2.0, 1.0, 0.5) if p in found.p]
        panel.set_xticks([found.p.index(p) for p in ticks], [_name(p) for p in ticks], fontsize=8)
    for panel in panels[-1]:
        for label in panel.get_xticklabels():  # the two in the middle would touch
            if label.get_text().endswith("∞"):
                label.set_horizontalalignment("left" if label.get_text() == "∞" else "right")
        panel.set_xlabel("p of the pooling, in even steps of 1/p")
    for panel in panels[:, 0]:
        panel.set_ylabel("q of the pooling")
    bar = figure.colorbar(image, ax=panels, extend="both", pad=0.01)
    bar.set_label("worst mean relative error over all test sets (%)")
    return figure


def _name(p: float) -> str:
    return f"{p:g}".replace("inf", "∞").replace("-", "−")  # noqa: RUF001 -- a minus sign, as on the other axes
