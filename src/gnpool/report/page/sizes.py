"""The error against the size of the input: a panel for each task, a line for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnpool.display.models import GNP
from gnpool.report.page.charts import COLORS, GREY, Series, panel, value_range
from gnpool.report.page.markup import Markup, tag
from gnpool.report.page.tables import number_table, shown
from gnpool.report.verdicts import is_gnp

FLOOR = 0.01  # what is below is drawn here, since 0 has no place on a logarithmic axis
Result = Mapping[str, Any]  # a table of results.json


@dataclass(frozen=True)
class SizeLine:
    """Errors of one model on inputs of several sizes, as cells of results.json.

    Args:
        task (str): The panel.
        model (str): The line.
        cells (Mapping): Cells by size.
    """

    task: str
    model: str
    cells: Mapping[int, Mapping[str, Any]]


def size_lines(table: Result) -> list[SizeLine]:
    """The lines of a table whose columns are sizes; none for other tables."""
    columns = {str(cell["column"]) for cell in table["cells"]}
    if len(columns) < 3 or not all(column.isdigit() for column in columns):
        return []
    found: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for cell in table["cells"]:
        row = str(cell["row"])
        task, _, model = ("", "", row[1:]) if row.startswith("/") else row.rpartition("/")
        found.setdefault((task, model), {})[int(cell["column"])] = cell
    return [SizeLine(task, model, cells) for (task, model), cells in found.items()]


def size_colors(lines: Sequence[SizeLine]) -> dict[str, int]:
    """The number of the colour of each model that has one: GNP first, so that it has the same one on all pages."""
    lines = [line for line in lines if len(line.cells) > 1]
    first = sorted(lines, key=lambda line: (not _gnp(line), line.model != GNP))
    return {name: place for place, name in enumerate(dict.fromkeys(line.model for line in first)) if place < COLORS}


def size_figures(
    lines: Sequence[SizeLine],
    *,
    x_label: str = "nodes",
    unit: str = "%",
    limit: float | None = None,
    y_log: bool = True,
) -> list[Markup]:
    """A figure for each task; all have the same y axis. ``limit`` is the largest size in training."""
    tasks: dict[str, list[Series]] = {}
    colors, floor = size_colors(lines), FLOOR if y_log else 0.0
    single = [line for line in lines if len(line.cells) == 1 and all(c.get("ours") for c in line.cells.values())]
    lines = [line for line in lines if len(line.cells) > 1]
    for line in lines:
        one = _series(line, colors.get(line.model, GREY), x_label, unit, floor)
        if any(value is not None for value in one.y):
            tasks.setdefault(line.task, []).append(one)
    everything = [one for series in tasks.values() for one in series]
    found = []
    for task, series in tasks.items():
        sizes = sorted({size for line in lines if line.task == task for size in line.cells})
        drawn = panel(
            task,
            series,
            x_label=x_label,
            y_label=f"error ({unit})" if unit else "error",
            x_log=True,
            y_log=y_log,
            x_ticks=sizes,
            y_range=value_range(everything) if y_log else _linear_range(everything),
            limit=limit,
            summary=("" if limit is None else f"The largest size in training is {limit:g}. ")
            + "Error against size. "
            + "; ".join(_ends(one, unit) for one in series),
        )
        title = tag("figcaption", task) if task else None
        numbers = tag("details", tag("summary", "Numbers"), _numbers(task, [ln for ln in lines if ln.task == task]))
        beyond = [line for line in single if line.task == task]
        found.append(tag("figure", title, drawn, numbers, _beyond(beyond, x_label, unit) if beyond else None))
    return found


def _linear_range(series: Sequence[Series]) -> tuple[float, float]:
    """From 0 to a little above the largest value."""
    largest = max(value for one in series for value in one.y if value is not None)
    return 0.0, 1.05 * largest or 1.0


def _gnp(line: SizeLine) -> bool:
    return any(is_gnp(cell) for cell in line.cells.values())


def _series(line: SizeLine, color: int, x_label: str, unit: str, floor: float) -> Series:
    sizes = sorted(line.cells)
    values: list[float | None] = []
    low: list[float | None] = []
    high: list[float | None] = []
    tips = []
    for size in sizes:
        ours = line.cells[size].get("ours")
        mean = ours["mean"] if ours is not None else None
        std = (ours.get("std") or 0.0) if ours is not None else 0.0
        values.append(None if mean is None else max(mean, floor))
        low.append(None if mean is None else max(mean - std, floor))
        high.append(None if mean is None else max(mean + std, floor))
        words = shown(line.cells[size])
        interval = f", interval {words.interval}" if words.interval else ""
        tips.append(f"{size:,} {x_label}: {words.ours} {unit}{interval}")
    places = [float(size) for size in sizes]
    if color == GREY:
        return Series(line.model, places, values, tips=tips, color=GREY, label=False)
    return Series(line.model, places, values, low, high, tips, color)


def _ends(one: Series, unit: str) -> str:
    there = [k for k, value in enumerate(one.y) if value is not None]
    first, last = there[0], there[-1]
    return f"{one.name}: {one.y[first]:.3g} {unit} at {one.x[first]:g}, {one.y[last]:.3g} {unit} at {one.x[last]:g}"


def _beyond(lines: Sequence[SizeLine], x_label: str, unit: str) -> Markup:
    """Models that were tested at one size only: numbers, since there is no line to draw."""
    rows = [[line.model, f"{size:,}", shown(cell).ours] for line in lines for size, cell in line.cells.items()]
    table = number_table("Tested at one size", ["model and data", x_label, f"error ({unit})"], rows)
    return tag("details", tag("summary", f"Single sizes ({len(rows)})"), table)


def _numbers(task: str, lines: Sequence[SizeLine]) -> Markup:
    sizes = sorted({size for line in lines for size in line.cells})
    rows = [
        [f"{size:,}", *(shown(line.cells[size]).ours if size in line.cells else "" for line in lines)] for size in sizes
    ]
    caption = f"{task}: error by size" if task else "Error by size"
    return number_table(caption, ["size", *(line.model for line in lines)], rows)
