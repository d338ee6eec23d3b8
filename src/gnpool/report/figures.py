"""Pictures of stored results. They need matplotlib, which is imported when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnpool.display.palette import COLORS, MARKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 110
FLOOR = 0.01  # percent; smaller values are drawn here, since a logarithmic axis has no 0
PUBLISHED = (50, 100)  # nodes; the range that the paper shows
LARGE = "sparse graphs"  # rows such as "GNP, tree", the same model on other graphs, are single points
BRANCHES = (  # suffix of the curves' names, label, colour and line style
    ("", "one branch, p of any sign", COLORS[2], "-"),
    ("_pos", "positive branch", COLORS[0], "-"),
    ("_neg", "negative branch, p without its sign", COLORS[1], "--"),
)
Result = Mapping[str, Any]  # a table of results.json


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, or an error that says how to install matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("figures need matplotlib; install it with: pip install 'gnpool[report]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def size_figure(table: Result) -> Figure:
    """The error against the number of nodes, with a panel for each task, and mean and deviation for each model."""
    lines: dict[str, dict[str, list[tuple[int, float, float]]]] = {}  # task -> model -> points
    for cell in table["cells"]:
        task, model = cell["row"].split("/", 1)
        points = lines.setdefault(task, {}).setdefault(model, [])
        if cell["ours"] is not None and cell["ours"]["mean"] is not None:
            points.append((int(cell["column"]), cell["ours"]["mean"], cell["ours"]["std"] or 0.0))
    models = list(dict.fromkeys(_plain(model) for task in lines.values() for model in task))
    figure = new_figure(4.2 * len(lines), 4.3)
    panels = figure.subplots(1, len(lines), sharey=True, squeeze=False)[0]
    for panel, (task, found) in zip(panels, lines.items(), strict=True):
        panel.axvspan(*PUBLISHED, color="0.93", linewidth=0, label="sizes that the paper shows")
        for model, points in found.items():
            if not points:
                continue
            place = models.index(_plain(model))
            size, mean, std = (np.array(values, dtype=float) for values in zip(*sorted(points), strict=True))
            low, high = np.maximum(mean - std, FLOOR), np.maximum(mean + std, FLOOR)
            color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
            if model != _plain(model):  # single points, hollow
                mean = np.maximum(mean, FLOOR)
                panel.plot(
                    size, mean, marker, color=color, markersize=6, fillstyle="none", label=f"{_plain(model)}, {LARGE}"
                )
                continue
            panel.fill_between(size, low, high, color=color, alpha=0.15, linewidth=0)
            panel.plot(size, np.maximum(mean, FLOOR), color=color, marker=marker, markersize=5, label=model)
        sizes = sorted({point[0] for points in found.values() for point in points})
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks([size for size in sizes if size in (50, 100, 200, 400, 1000, 10000)] or sizes)
        panel.set_xticklabels([f"{size:g}" for size in panel.get_xticks()])
        panel.minorticks_off()
        panel.set_xlabel("nodes of the test graphs")
        panel.set_title(task, fontsize=11)
        panel.grid(color="0.9")
        panel.set_axisbelow(True)
    panels[0].set_ylabel("mean relative error (%)")
    handles: dict[str, Any] = {}
    for panel in panels:
        drawn, labels = panel.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def _plain(model: str) -> str:
    """The model of a row, without the graphs that it was tested on."""
    return model.partition(", ")[0]


def exponent_figure(table: Result) -> Figure:
    """p, and q or the growth, over training, with a column for each pooling, and mean and range over seeds."""
    cells = [cell for cell in table["cells"] if cell.get("curves")]
    names = {name for cell in cells for name in cell["curves"]}
    sizes = [kind for kind in ("q", "growth") if any(name.partition("_")[0] == kind for name in names)] or ["q"]
    figure = new_figure(3.1 * max(1, len(cells)), 5.2)
    panels = figure.subplots(2, max(1, len(cells)), sharex="col", sharey="row", squeeze=False)
    for column, cell in enumerate(cells):
        for row, kinds in enumerate((["p"], sizes)):
            panel = panels[row][column]
            for end, label, color, style in BRANCHES:
                curve = next(
                    (cell["curves"][f"{kind}{end}"] for kind in kinds if f"{kind}{end}" in cell["curves"]), None
                )
                if curve is None:
                    continue
                values = np.array(curve, dtype=float)  # a missing value becomes NaN
                epoch = np.arange(len(values))
                panel.fill_between(epoch, values.min(1), values.max(1), color=color, alpha=0.15, linewidth=0)
                panel.plot(epoch, values.mean(1), color=color, linestyle=style, label=label)
            panel.grid(color="0.9")
            panel.set_axisbelow(True)
        panels[0][column].set_title(f"{cell['row']}, {cell['column']}", fontsize=11)
        panels[1][column].axhline(0, color="0.6", linewidth=0.8, zorder=1)
        panels[1][column].set_xlabel("epoch")
    if "p" in names:  # of any sign
        panels[0][0].set_yscale("symlog", linthresh=1.0)  # of all, since they share it
    else:
        panels[0][0].set_yscale("log")
    low, high = panels[0][0].get_ylim()
    ticks = [tick for tick in (-500, -50, -10, -1, 0, 1, 2, 5, 10, 20, 50, 500) if low <= tick <= high]
    panels[0][0].set_yticks(ticks, [str(tick) for tick in ticks])
    panels[0][0].minorticks_off()
    panels[0][0].set_ylabel("p")
    panels[1][0].set_ylabel(" or ".join(sizes))
    handles: dict[str, Any] = {}
    for panel in panels[0]:
        drawn, labels = panel.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _save(name: str, figure: Figure, folder: Path) -> Path:
    path = folder / f"{name}.png"
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})  # equal results give equal files
    return path


def draw_size(table: Result, folder: Path) -> Path:
    """Draw ``fig_size.png`` into a folder."""
    return _save("fig_size", size_figure(table), folder)


def draw_exponents(table: Result, folder: Path) -> Path:
    """Draw ``fig_pq.png`` into a folder."""
    return _save("fig_pq", exponent_figure(table), folder)


FIGURES = {"fig_size": draw_size, "fig_pq": draw_exponents}
