"""Tables of ``results.json`` as Markdown, for a README."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gnpool.report.grids import run_so_far
from gnpool.report.page.headline import contest_rows, contests, names_of
from gnpool.report.page.tables import Cell, Sheet, caption_of, sheets, shown
from gnpool.report.verdicts import by_kind

Result = Mapping[str, Any]  # a table of results.json


def markdown(tables: Sequence[Result]) -> str:
    """Tables as Markdown: GNP beside the best baseline, verdicts by table, then each table.

    Example:
        >>> from gnpool.report import markdown
        >>> ours = {"mean": 1.31, "std": 0.2, "runs": [1.11, 1.51], "failed": 0}
        >>> cell = {"row": "GNP", "column": "harmonic", "ours": ours, "paper": {"mean": 1.1, "std": 0.8}}
        >>> table = {"table": "t", "title": "Error", "metric": "MAPE", "cells": [{**cell, "verdict": "matched"}]}
        >>> print(markdown([table]).splitlines()[2])
        | t | 1 matched | none |
    """
    first = headline_lines(tables)
    blocks = [first] if first else []
    lines = ["| table | GNP | baselines |", "|---|---|---|"]
    for table in tables:
        kinds = by_kind(table["cells"])
        if any(counts.total for counts in kinds.values()):
            lines.append(f"| {plain(table['table'])} | {kinds['GNP']} | {kinds['baselines']} |")
    if len(lines) > 2:
        blocks.append("\n".join(lines))
    for table in tables:
        if any(cell.get("curves") for cell in table["cells"]):
            continue
        blocks += table_blocks(table)
    return "\n\n".join(blocks) + "\n"


def table_blocks(table: Result) -> list[str]:
    """A table with its title, and with what it lacks of its runs."""
    title = f"### {plain(table['table'])}\n\n{plain(table['title'])} ({plain(caption_of(table))})"
    return [title, *filter(None, [run_so_far(table)]), *(sheet_lines(sheet) for sheet in sheets(table))]


def plain(label: object) -> str:
    r"""Text that Markdown does not take for anything else.

    Example:
        >>> from gnpool.report.markdown.tables import plain
        >>> print(plain("GNP* | sum_max <b>"))
        GNP\* \| sum\_max &lt;b&gt;
    """
    escaped = str(label).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escaped).replace("\n", " ")


def sheet_lines(sheet: Sheet) -> str:
    """A sheet as a Markdown table."""
    named = sheet.rows != ("",)
    head = [*([""] if named else []), *(plain(column) for column in sheet.columns)]
    rows = [head, ["---"] * len(head)]
    for row in sheet.rows:
        cells = [_markdown_cell(sheet.cells.get((row, column))) for column in sheet.columns]
        rows.append([*([plain(row)] if named else []), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    words = shown(cell)
    interval = f" [{words.interval}]" if words.interval is not None else ""
    lines = [f"{words.ours}{interval}"] if cell.get("ours") is not None else []
    if words.paper is not None:
        lines.append(f"paper {words.paper}")
    if words.verdict:
        lines.append(words.verdict)
    if words.remark:
        lines.append(words.remark)
    return "<br>".join(lines)


def headline_lines(tables: Sequence[Result]) -> str:
    """The contests as Markdown; empty if there are none."""
    found = contests(tables)
    if not found:
        return ""
    lines = [["", *map(plain, names_of(found))]]
    lines.append(["---"] * len(lines[0]))
    for name, ours, verdict, rest in contest_rows(found):
        mine = f"**{ours}** {verdict}" if verdict else f"**{ours}**"
        lines.append([plain(name), mine, *map(plain, rest)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
