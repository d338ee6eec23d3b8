"""The answer at the top of a page: the tables in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnpool.display.models import GNP
from gnpool.report.grids import run_so_far
from gnpool.report.verdicts import Counts, by_kind, is_compared, is_gnp

Result = Mapping[str, Any]  # a table of results.json


@dataclass(frozen=True)
class PageAnswer:
    """A sentence with an emphasised part, and further sentences.

    Args:
        before, weight, after (str): The sentence in three parts.
        more (tuple): Further sentences.
        counts (Mapping): Verdicts of the published cells, by kind of model; empty if there are none.

    Example:
        >>> from gnpool.report import PageAnswer
        >>> str(PageAnswer("GNP matches or beats the paper in ", "9 of 10", " published cells"))
        'GNP matches or beats the paper in 9 of 10 published cells'
    """

    before: str
    weight: str
    after: str
    more: tuple[str, ...] = ()
    counts: Mapping[str, Counts] | None = None

    def __str__(self) -> str:
        return f"{self.before}{self.weight}{self.after}"


def answer(tables: Sequence[Result]) -> PageAnswer:
    """Compare the tables with the paper, or, if nothing is published, GNP with the other models.

    Example:
        >>> from gnpool.report import answer
        >>> cell = {"column": "harmonic", "ours": None, "paper": {"mean": 1.1, "std": 0.8}}
        >>> cells = [{**cell, "row": "GNP", "verdict": "matched"}, {**cell, "row": "sum/max", "verdict": "matched"}]
        >>> print(answer([{"table": "t", "cells": cells, "meta": {"notes": ""}}]))
        GNP matches or beats the paper in all 1 published cells
    """
    cells = list(distinct(tables))
    kinds = by_kind(cells)
    gnp, others = kinds[GNP], kinds["baselines"]
    more = tuple(dict.fromkeys(f"Reduced. {table['meta']['notes']}." for table in tables if _notes(table)))
    lacking = [str(table["table"]) for table in tables if run_so_far(table)]
    if lacking:
        more += (f"Some runs are missing of {', '.join(lacking)}; each table says how many.",)
    if gnp.total + others.total == 0:
        return _best(tables, more)
    lines = []
    if others.run:
        lines.append(f"Of {others.run} published cells of the baselines, {others.good} are matched or better.")
    missing = {"of GNP": gnp.words["not run"], "of the baselines": others.words["not run"]}
    named = [f"{n} {whose}" for whose, n in missing.items() if n]
    if named:
        lines.append(f"Not run: {' and '.join(named)}.")
    if not gnp.run + others.run:
        return PageAnswer("", "None", f" of the {gnp.total + others.total} published cells was run", more, kinds)
    if not gnp.run:
        weight, after = f"{others.good} of {others.run}", " published cells are matched or better"
        return PageAnswer("", weight, after, (*lines[1:], *more), kinds)
    weight = f"{gnp.good} of {gnp.run}" if gnp.good < gnp.run else f"all {gnp.run}"
    after = " published cells" if gnp.run == gnp.total else " published cells that were run"
    return PageAnswer("GNP matches or beats the paper in ", weight, after, (*lines, *more), kinds)


def distinct(tables: Sequence[Result]) -> Iterator[Mapping[str, Any]]:
    """Every published cell once, since some tables repeat cells of others."""
    seen: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for table in tables:
        for cell in table["cells"]:
            if is_compared(cell):
                place = tuple(cell.get("published") or (table["table"], cell["row"], cell["column"]))
                if place not in seen or seen[place].get("ours") is None:
                    seen[place] = cell
    yield from seen.values()


def _notes(table: Result) -> str:
    return str(table.get("meta", {}).get("notes") or "")


def _best(tables: Sequence[Result], more: tuple[str, ...]) -> PageAnswer:
    """Count the columns in which GNP has the lowest error."""
    first = total = 0
    for table in tables:
        columns: dict[str, list[tuple[float, bool]]] = {}
        for cell in table["cells"]:
            if cell.get("ours") is not None and cell["ours"]["mean"] is not None and not cell.get("curves"):
                columns.setdefault(cell["column"], []).append((cell["ours"]["mean"], is_gnp(cell)))
        for found in columns.values():
            if len({gnp for _, gnp in found}) == 2:  # GNP and something else
                total += 1
                first += min(found)[1]
    if not total:
        return PageAnswer("", "Results", ", with nothing published to compare them with", more)
    return PageAnswer("GNP has the lowest error in ", f"{first} of {total}", " columns", more)
