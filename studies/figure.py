"""Draws the picture of docs/learning.md: errors at 1,000 nodes for each law, in both coordinates.

``python -m studies.figure`` draws docs/figures/learned.png from results/learned/laws.json.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from matplotlib.figure import Figure

from studies.files import read_runs
from studies.laws import LAWS
from studies.learned import chosen
from studies.tables import RESULTS

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "learned.png"
LEAST = 1e-3  # percent; smaller errors are drawn at this value
STYLES = {"gnp": ("published coordinates", "#D55E00"), "gnpg": ("growth coordinates", "#0072B2")}


def main() -> None:
    """Draw and save the picture."""
    found = {(one["law"], one["pooling"]): chosen(one) for one in read_runs(RESULTS / "laws.json")}
    names = list(LAWS)
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    axes = figure.subplots()
    for pooling, (label, color) in STYLES.items():
        for row, name in enumerate(names):
            errors = [max(LEAST, run["errors"]["1000"]) for run in found[name, pooling]]
            axes.plot([min(errors), max(errors)], [row, row], "-", color=color, linewidth=5, alpha=0.3)
            first = label if row == 0 else None
            axes.plot(statistics.median(errors), row, "o", color=color, markersize=7, label=first)
    axes.set_xscale("log")
    axes.set_xlim(LEAST / 1.5, 300)
    axes.set_xticks([1e-3, 1e-2, 1e-1, 1, 10, 100], ["≤ 0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    axes.set_yticks(range(len(names)), [("set: " if LAWS[n].level == "set" else "") + LAWS[n].text for n in names])
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("error at 1,000 nodes. Dot: median of five seeds, bar: all five")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
