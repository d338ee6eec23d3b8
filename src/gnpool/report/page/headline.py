"""GNP beside the best of the others, wherever they meet on the same task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnpool.display.models import GNP, MODEL_COLUMN
from gnpool.report.page.markup import Markup, tag
from gnpool.report.page.sizes import size_lines
from gnpool.report.page.tables import caption_span, mark, scroller, shown
from gnpool.report.verdicts import is_gnp, is_published

Cell = Mapping[str, Any]  # of results.json
Result = Mapping[str, Any]  # a table of results.json
HIGHER = ("ACCURACY", "INFLUENCE")  # metrics of which more is better


@dataclass(frozen=True)
class Contest:
    """Models on the same task.

    Args:
        name (str): The task.
        gnp (Mapping): GNP's cell.
        best (Mapping): That of the best baseline.
        rival (str): Its name.
        others (Mapping): Cells of other forms of GNP by name.
    """

    name: str
    gnp: Cell
    best: Cell
    rival: str
    others: Mapping[str, Cell]


def contests(tables: Sequence[Result]) -> list[Contest]:
    """Every contest once; a table that repeats cells of another adds nothing."""
    found: dict[tuple[str, ...], Contest] = {}
    for table in tables:
        for contest in _of_table(table):
            own = (str(table["table"]), str(contest.gnp["row"]), str(contest.gnp["column"]))
            place = tuple(contest.gnp.get("published") or own)
            if place not in found or "published" in found[place].gnp:
                found[place] = contest
    return list(found.values())


def _of_table(table: Result) -> Iterator[Contest]:
    """Contests of a table: all of it, or its columns, or its rows, by how GNP stands in it."""
    cells = [cell for cell in table["cells"] if not cell.get("curves")]
    if size_lines(table):
        return
    gnp = [cell for cell in cells if GNP in (_label(cell, "row"), _label(cell, "column"))]
    gnp = [cell for cell in gnp if is_gnp(cell)]
    if not gnp:
        return
    if all(cell["column"] == MODEL_COLUMN for cell in gnp):
        axis, along = "", "row"
    elif len({cell["row"] for cell in gnp}) == 1:
        axis, along = "column", "row"
    elif len({cell["column"] for cell in gnp}) == 1:
        axis, along = "row", "column"
    else:
        return
    for first in gnp:
        field = [cell for cell in cells if not axis or cell[axis] == first[axis]]
        rivals = [cell for cell in field if not is_gnp(cell) and _mean(cell) is not None]
        if rivals:
            sign = -1.0 if table.get("higher_is_better") or first.get("metric") in HIGHER else 1.0
            best = min(rivals, key=lambda cell: sign * (_mean(cell) or 0.0))
            forms = {_label(cell, along): cell for cell in field if is_gnp(cell) and cell is not first}
            name = f"{table['table']}: {first[axis]}" if axis else str(table["table"])
            grid = not axis and best["column"] != MODEL_COLUMN  # of fixed poolings: aggregation and readout
            rival = f"{best['column']},{best['row']}" if grid else str(best[along])
            yield Contest(name, first, best, rival, forms)


def _label(cell: Cell, axis: str) -> str:
    return str(cell[axis]).rpartition("/")[2]


def _mean(cell: Cell) -> float | None:
    for source in ("ours", "paper"):
        if cell.get(source) is not None and cell[source].get("mean") is not None:
            return float(cell[source]["mean"])
    return None


def contest_rows(found: Sequence[Contest]) -> Iterator[tuple[str, str, str | None, list[str]]]:
    """For each contest its name, GNP, its verdict, and the other columns."""
    forms, published = forms_of(found), any(is_published(contest.gnp) for contest in found)
    for contest in found:
        words, best = shown(contest.gnp), shown(contest.best)
        theirs = best.ours if contest.best.get("ours") is not None else f"{best.paper} (paper)"
        rest = [shown(contest.others[form]).ours if form in contest.others else "" for form in forms]
        rest += [words.paper or ""] if published else []
        yield contest.name, words.ours, words.verdict, [*rest, f"{contest.rival}: {theirs}"]


def forms_of(found: Sequence[Contest]) -> list[str]:
    """Names of the other forms of GNP, each once."""
    return list(dict.fromkeys(form for contest in found for form in contest.others))


def names_of(found: Sequence[Contest]) -> list[str]:
    """Names of the columns; that of the paper only if it has a number."""
    paper = ["GNP, paper"] if any(is_published(contest.gnp) for contest in found) else []
    return [GNP, *forms_of(found), *paper, "best baseline"]


def headline(tables: Sequence[Result]) -> Markup | None:
    """The contests as a table of the page; None if there are none."""
    found = contests(tables)
    if not found:
        return None
    head = tag("tr", tag("td"), *(tag("th", name, scope="col") for name in names_of(found)))
    rows = []
    for name, ours, verdict, rest in contest_rows(found):
        mine = tag("td", tag("b", ours), " ", mark(verdict) if verdict else None, class_="gnp")
        rows.append(tag("tr", tag("th", name, scope="row"), mine, *(tag("td", value) for value in rest)))
    caption = "GNP beside the best baseline by test error (the paper's if it was not run): mean and deviation"
    table = tag("table", caption_span(caption), tag("thead", head), tag("tbody", *rows), class_="headline")
    return scroller(table, caption)
