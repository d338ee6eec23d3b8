"""The numbers of results.csv in README and docs/speed.md: ``python -m benchmarks.shown`` rewrites tables and picture.

A block between the lines ``<!-- benchmarks:NAME -->`` and ``<!-- benchmarks:end -->`` holds the text of that
name below. ``{case: contender}`` in the text becomes the last median of that contender, in milliseconds;
``{case: contender * 40}`` becomes a multiple of it, and ``{case: contender / contender}`` the ratio of the first
time to the second.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks import RESULTS, ROOT
from gnpool.report.markdown.blocks import fill

PAGES = (ROOT / "README.md", ROOT / "docs" / "speed.md")
MACHINES = ("AMD EPYC, 2 cores", "NVIDIA H200")  # no case runs on both
FIELD = re.compile(r"\{([^:{}]+): ([^{}]+)\}")
Medians = Mapping[tuple[str, str], float]  # by case and contender

BLOCKS = {
    "speed": """\
Forward and backward, with any p and q, compared with PyG's sum ([all timings](docs/speed.md)):
on an NVIDIA H200 gnpool is {cuda segments: PyG sum, both / gnpool, both} times as fast over segments and \
{cuda neighbors: gather + PyG sum, both / gnpool, both} times over neighbours.
On two CPU cores it is {neighbors: gather + PyG sum / gnpool, EdgeIndex} times as fast over neighbours, and takes \
{segments: gnpool, index / PyG sum, index} times as long over segments.""",
    "cpu": """\
| float32, forward and backward | gnpool | PyG sum | PyG power mean | composed of torch's own |
|---|---|---|---|---|
| 264,059 x 64 into 8,192 segments, `index` | {segments: gnpool, index} | {segments: PyG sum, index} \
| {segments: PyG power mean} | {segments: composed} |
| the same, `ptr` | {segments: gnpool, ptr} | {segments: PyG sum, ptr} | | |
| neighbours: 20,000 nodes, 1,000,000 edges, 64 channels | {neighbors: gnpool, EdgeIndex} \
| {neighbors: gather + PyG sum} | | {neighbors: gather + composed} |
| the same, half of the edges into one hub | {hub: gnpool, hub in} | | | |
| 30 x 32 into 3 segments | {small step: gnpool} | {small step: PyG sum} | | |""",
    "cuda": """\
| float32, 64 channels | gnpool | for comparison |
|---|---|---|
| 131,072 segments of 1 to 63 rows, forward (graph) | {cuda segments: gnpool, forward} \
| {cuda segments: floor, forward}: a copy of the bytes that must move |
| the same, backward (graph) | {cuda segments: gnpool, backward} | {cuda segments: floor, backward}: a copy |
| the same, both, calls in a row for 50 ms \
| {cuda segments: gnpool, both} \
| {cuda segments: PyG sum, both}: PyG sum; {cuda segments: PyG power mean, both}: PyG power mean |
| the same in bfloat16, forward / backward (graph) \
| {cuda bfloat16: bfloat16, forward} / {cuda bfloat16: bfloat16, backward} \
| {cuda bfloat16: float32, forward} / {cuda bfloat16: float32, backward}: in float32 |
| 1,000,000 nodes, 32,000,000 edges, forward / backward \
| {cuda neighbors: gnpool, forward} / {cuda neighbors: gnpool, backward} \
| {cuda neighbors: cuSPARSE sum}: cuSPARSE's sum, forward |
| the same, both | {cuda neighbors: gnpool, both} | {cuda neighbors: gather + PyG sum, both}: gather and PyG sum; \
{cuda neighbors: building the lists}: sorting the edges, once a graph |
| the same with a hub of 1,000,000 neighbours | {cuda hub: gnpool, hub in} | |
| 120 models of 32 channels, 1,600 nodes, 20,000 edges, forward / backward (graph) \
| {cuda replicas: gnpool, forward} / {cuda replicas: gnpool, backward} \
| {cuda replicas: floor, forward} / {cuda replicas: floor, backward}: a copy |
| a training step of 120 GNP models | {training cuda: fit_many, 120} \
| {training cuda: PyG, 3 one by one * 40}: PyG models one after another (3 timed, extrapolated) |""",
}

#: Bars of the picture: the device, the comparison, and the time as a multiple of gnpool's.
BARS = (
    ("H200", "segments: PyG power mean", "{cuda segments: PyG power mean, both / gnpool, both}"),
    ("H200", "segments: PyG sum", "{cuda segments: PyG sum, both / gnpool, both}"),
    ("H200", "neighbours: PyG gather and sum", "{cuda neighbors: gather + PyG sum, both / gnpool, both}"),
    ("2 CPU cores", "segments: PyG power mean", "{segments: PyG power mean / gnpool, index}"),
    ("2 CPU cores", "segments: PyG sum", "{segments: PyG sum, index / gnpool, index}"),
    ("2 CPU cores", "neighbours: PyG gather and sum", "{neighbors: gather + PyG sum / gnpool, EdgeIndex}"),
    ("2 CPU cores", "training step of 30 models: PyG, one by one", "{training: PyG, one by one / fit_many}"),
)
COLOURS = {"H200": "#0072B2", "2 CPU cores": "#D55E00"}


def last_medians(path: Path = RESULTS) -> Medians:
    """The last median of every contender on the machines that the pages mention."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["hardware"].startswith(MACHINES)]
    return {(row["case"], row["contender"]): float(row["median_ms"]) for row in rows}


def written(text: str, medians: Medians) -> str:
    """The text with its fields replaced by numbers."""
    return FIELD.sub(lambda found: _number(found[1], found[2], medians), text)


def _number(case: str, what: str, medians: Medians) -> str:
    first, _, second = what.partition(" / ")
    name, _, factor = first.partition(" * ")
    value = medians[case, name] * float(factor or 1)
    if second:
        return f"{value / medians[case, second]:.1f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def draw(path: Path, medians: Medians) -> None:
    """Draw how many times as long the others take, as bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    values = [float(written(field, medians)) for _, _, field in BARS]
    for place, ((device, label, _), value) in enumerate(zip(BARS, values, strict=True)):
        axes.barh(place, value - 1, left=1, color=COLOURS[device], height=0.42)
        ahead = value >= 1
        axes.annotate(
            f"{value:.1f}", (value, place), textcoords="offset points", xytext=(4 if ahead else -4, 0), va="center",
            ha="left" if ahead else "right", fontsize=9,
        )  # fmt: skip
        axes.annotate(
            label, (1, place), textcoords="offset points", xytext=(3, 14), va="center", fontsize=9, color="0.3"
        )
    axes.axvline(1, color="0.3", linewidth=1)
    axes.set(xscale="log", xlim=(min(0.45, 0.6 * min(values)), 1.6 * max(values)), ylim=(len(BARS) - 0.4, -0.8))
    axes.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "gnpool", "2", "5", "10"])
    axes.minorticks_off()
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("time, in units of gnpool's")
    for device, colour in COLOURS.items():
        axes.barh(0, 0, color=colour, label=device)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=120, metadata={"Software": None})  # equal figures give equal files


def main() -> None:
    """Write the tables and the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "figures" / "speed.png")
    arguments = parser.parse_args()
    medians = last_medians()
    blocks = {name: written(block, medians) for name, block in BLOCKS.items()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(fill(text, blocks, page.name, family="benchmarks"), encoding="utf-8")
    draw(arguments.picture, medians)


if __name__ == "__main__":
    main()
