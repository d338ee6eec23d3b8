"""Tables of ``results.json`` as text, with our numbers, the paper's, and the verdicts."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnpool.display.models import MODEL_COLUMN

WIDTH = 120  # characters; a wider grid is shown without deviations (results.json has them), and then split
Result = Mapping[str, Any]  # a table of results.json, or a cell
Place = tuple[str, str, Result]  # row, column and cell of a grid


@dataclass(frozen=True)
class TextGrid:
    """Text in rows and columns. The second column labels the lines: ours, the paper's or the verdict.

    Args:
        title (str): What is shown.
        head (tuple): Names of the columns.
        rows (tuple): Rows, each a tuple of cells; a cell may have several lines.

    Example:
        >>> from gnpool.report import TextGrid
        >>> grid = TextGrid("Error", ("model", "", "harmonic"), (("GNP", "ours", "1.31"), ("", "paper", "1.10")))
        >>> [row[2] for row in grid.rows]
        ['1.31', '1.10']
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grids(table: Result) -> list[TextGrid]:
    r"""A table of results as one grid or two, at most 120 characters wide.

    Example:
        >>> from gnpool.report import grids
        >>> ours = {"mean": 1.31, "std": 0.2, "runs": [1.11, 1.51], "failed": 0}
        >>> cell = {"row": "GNP", "column": "harmonic", "ours": ours, "paper": {"mean": 1.1, "std": 0.8}}
        >>> table = {"table": "t", "title": "Error", "metric": "MAPE", "cells": [{**cell, "verdict": "matched"}]}
        >>> grids(table)[0].rows
        (('GNP', 'ours\npaper\n', '1.31 ± 0.20\n1.1 ± 0.8\nmatched'),)
    """
    title = f"{table['table']}: {table['title']} ({table['metric']})"
    named = [f"{name}: {table[f'{name}_are']}" for name in ("rows", "columns") if table.get(f"{name}_are")]
    title = "; ".join([title, *named])
    if any(cell.get("curves") for cell in table["cells"]):
        return [_exponents(title, table["cells"])]
    found = [grid for places in parts(table["cells"]) for grid in _fitting(places)]
    titles = [title, *[f"{table['table']}, continued"] * (len(found) - 1)]
    return [dataclasses.replace(grid, title=name) for grid, name in zip(found, titles, strict=True)]


def parts(cells: Sequence[Result]) -> list[list[Place]]:
    """Cells as one or several grids; columns with the same rows share a grid."""
    columns: dict[str, list[Result]] = {}
    for cell in cells:
        columns.setdefault(cell["column"], []).append(cell)
    found: dict[tuple[str, ...], list[Result]] = {}
    for members in columns.values():
        found.setdefault(tuple(cell["row"] for cell in members), []).extend(members)
    return [
        [
            ("", cell["row"], cell) if cell["column"] == MODEL_COLUMN else (cell["row"], cell["column"], cell)
            for cell in part
        ]
        for part in found.values()
    ]


def number(value: float, digits: int) -> str:
    """A number with this many digits after the point, fewer if it is large.

    Example:
        >>> from gnpool.report import number
        >>> number(3.14159, 2), number(214.96, 2), number(12345.6, 2), number(2e9, 2)
        ('3.14', '215.0', '12,346', '2e+09')
    """
    if not math.isfinite(value) or abs(value) >= 1e6:
        return f"{value:.0e}" if math.isfinite(value) else str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{min(digits, 1) if abs(value) >= 100 else digits}f}"


def verdict_counts(table: Result) -> str:
    """The verdicts of the cells in one line; empty if the paper has none of them.

    Example:
        >>> from gnpool.report import verdict_counts
        >>> paper = {"mean": 1.0, "std": 0.1}
        >>> cells = [{"paper": paper, "verdict": "matched"}, {"paper": paper, "verdict": "better"}, {"paper": None}]
        >>> verdict_counts({"cells": cells})
        '2 published cells: 1 matched, 1 better'
    """
    compared = [cell for cell in table["cells"] if cell["paper"] is not None]
    counts = Counter(cell["verdict"] for cell in compared)
    named = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common() if verdict)
    return f"{len(compared)} published cells: {named}" if named else ""


def run_so_far(table: Result) -> str:
    """A sentence about how many runs of a table are done; empty if all are done.

    Example:
        >>> from gnpool.report import run_so_far
        >>> run_so_far({"cells": [{"part": "GNP 3 of 10 seeds"}, {"part": None}]}), run_so_far({"cells": [{}]})
        ('Run so far: GNP 3 of 10 seeds.', '')
    """
    found = sorted({str(cell["part"]) for cell in table["cells"] if cell.get("part")})
    return f"Run so far: {'; '.join(found)}." if found else ""


def _fitting(places: Sequence[Place]) -> list[TextGrid]:
    """Split places into grids that are not too wide."""
    for wide in (True, False):
        grid = _grid(places, wide)
        if _width(grid) <= WIDTH:
            return [grid]
    columns = list(dict.fromkeys(column for _, column, _ in places))
    if len(columns) == 1:
        return [grid]
    first = set(columns[: (len(columns) + 1) // 2])
    halves = [[p for p in places if p[1] in first], [p for p in places if p[1] not in first]]
    return [grid for half in halves for grid in _fitting(half)]


def _width(grid: TextGrid) -> int:
    """Characters of a line, with what is drawn between columns."""
    columns = zip(grid.head, *grid.rows, strict=True)
    return 1 + sum(3 + max(len(line) for cell in column for line in cell.split("\n")) for column in columns)


def _grid(places: Sequence[Place], wide: bool) -> TextGrid:
    rows = list(dict.fromkeys(row for row, _, _ in places))
    columns = list(dict.fromkeys(column for _, column, _ in places))
    cell_at = {(row, column): cell for row, column, cell in places}
    lines = []
    for row in rows:
        cells = [cell_at.get((row, column)) for column in columns]
        compared = any(cell is not None and cell["paper"] is not None for cell in cells)
        label = "ours\npaper\n" if compared else "ours"
        lines.append((row, label, *(_cell(cell, compared, wide) for cell in cells)))
    return TextGrid("", ("", "", *(re.sub(r"(/)|(?=\()", r"\1\n", column) for column in columns)), tuple(lines))


def _cell(cell: Result | None, compared: bool, wide: bool) -> str:
    if cell is None:
        return ""
    digits = 3 if cell.get("metric") in ("MAE", "ACCURACY") else 1
    ours = _value(cell["ours"], 3 if digits == 3 else 2, wide) if cell["ours"] is not None else "-"
    if not compared:
        return ours
    paper = _value(cell["paper"], digits, wide) if cell["paper"] is not None else ""
    return f"{ours}\n{paper}\n{cell['verdict']}"


def _value(value: Result, digits: int, wide: bool) -> str:
    if value["mean"] is None:
        return f"all {value['failed']} failed" if value.get("failed") else "-"
    text = number(value["mean"], digits)
    if wide and value["std"] is not None:
        text += f" ± {number(value['std'], digits)}"
    failed = value.get("failed", 0)
    return f"{text} ({failed} failed)" if failed else text


def _exponents(title: str, cells: Sequence[Result]) -> TextGrid:
    """The last values of p and q instead of errors, as mean and range over runs."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.get("curves") or {}))
    rows = []
    for cell in cells:
        curves = cell.get("curves") or {}
        values = ["-" if name not in curves else _last(curves[name]) for name in names]
        rows.append((f"{cell['row']}, {cell['column']}", "mean\nrange", *values))
    return TextGrid(f"{title}, at the end of training", ("", "", *names), tuple(rows))


def _last(curve: Sequence[Sequence[float | None]]) -> str:
    values = [value for value in curve[-1] if value is not None]
    if not values:
        return "-"
    low, high = min(values), max(values)
    return f"{number(sum(values) / len(values), 2)}\n{number(low, 2)} to {number(high, 2)}"


def pair_lines(pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Paired differences in words, in points.

    Example:
        >>> from gnpool.report import pair_lines
        >>> pair = {
        ...     "column": "PROTEINS",
        ...     "first": "sum",
        ...     "second": "GNP",
        ...     "difference": 0.021,
        ...     "interval": (0.001, 0.04),
        ... }
        >>> print(*pair_lines([{**pair, "pairs": 10}]))
        PROTEINS: GNP minus sum: +2.1 points, 95% interval +0.1 to +4.0 (10 paired runs)
    """
    lines = []
    for pair in pairs:
        if pair["difference"] is None:
            continue
        text = f"{pair['column']}: {pair['second']} minus {pair['first']}: {100 * pair['difference']:+.1f} points"
        if pair["interval"] is not None:
            low, high = (100 * end for end in pair["interval"])
            text += f", 95% interval {low:+.1f} to {high:+.1f}"
        lines.append(f"{text} ({pair['pairs']} paired runs)")
    return lines
