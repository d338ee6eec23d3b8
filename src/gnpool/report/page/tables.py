"""Tables of ``results.json`` beside the paper's, as HTML and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnpool.display.models import GNP
from gnpool.report.grids import number, parts
from gnpool.report.interval import bootstrap
from gnpool.report.page.markup import Markup, join, tag, text
from gnpool.report.verdicts import MARKS, Counts, by_kind, is_gnp, is_published, word_of

Cell = Mapping[str, Any]  # of results.json
Result = Mapping[str, Any]  # a table of results.json
NOTHING = "\N{EN DASH}"
FORMS = {"message": "messages first", "gin": "GIN's form"}  # of a graph network, as results.json names them
BY_POINT = "setting by one run"  # on a cell whose setting was searched in another way than the rest
DIGITS = {"MAPE": (2, 1), "INFLUENCE": (2, 1), "MAE": (3, 3), "ACCURACY": (3, 3)}  # of ours, and of the paper


@dataclass(frozen=True)
class Sheet:
    """Cells in rows and columns.

    Args:
        caption (str): What is shown.
        rows (tuple): Labels; one empty label if there is nothing to tell rows apart.
        columns (tuple): Labels.
        cells (Mapping): Cells by row and column.
    """

    caption: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]


@dataclass(frozen=True)
class Shown:
    """A cell in words: ours, its interval, the paper's, verdict and remark; None where there is nothing to say."""

    ours: str
    interval: str | None
    paper: str | None
    verdict: str | None
    remark: str | None


def sheets(table: Result) -> list[Sheet]:
    """A table of results as one sheet or several."""
    found = []
    for place, cells in enumerate(parts(table["cells"])):
        rows = tuple(dict.fromkeys(row for row, _, _ in cells))
        columns = tuple(dict.fromkeys(column for _, column, _ in cells))
        rest = "continued" if rows != ("",) else "models beside the grid"
        caption = caption_of(table) if place == 0 else f"{table['table']}, {rest}"
        found.append(Sheet(caption, rows, columns, {(row, column): cell for row, column, cell in cells}))
    return found


def caption_of(table: Result) -> str:
    """What the numbers of a table are, and what its rows and columns stand for."""
    named = [f"{name}: {table[f'{name}_are']}" for name in ("rows", "columns") if table.get(f"{name}_are")]
    return "; ".join([str(table["metric"]), *named])


def shown(cell: Cell) -> Shown:
    """A cell in words.

    Example:
        >>> from gnpool.report.page.tables import shown
        >>> ours = {"mean": 1.31, "std": 0.28, "runs": [1.11, 1.3, 1.52], "failed": 0}
        >>> shown({"ours": ours, "paper": {"mean": 1.1, "std": 0.8}, "metric": "MAPE", "verdict": "matched"})
        Shown(ours='1.31 ± 0.28', interval='1.11 to 1.52', paper='1.1 ± 0.8', verdict='matched', remark=None)
    """
    digits, printed = DIGITS.get(str(cell.get("metric") or "MAPE"), (None, None))
    ours, paper = cell.get("ours"), cell.get("paper") if is_published(cell) else None
    interval = bootstrap(ours.get("runs") or []) if ours is not None and ours["mean"] is not None else None
    return Shown(
        ours=_value(ours, digits),
        interval=None if interval is None else " to ".join(_number(end, digits) for end in interval),
        paper=None if paper is None else _value(paper, printed),
        verdict=word_of(cell) or None if paper is not None or ours is None else None,
        remark=_remark(cell),
    )


def _remark(cell: Cell) -> str | None:
    """How its setting was found, its form of the network, and what it was made from, where not as in most cells."""
    words = [BY_POINT] if cell.get("search") == "point" else []
    if cell.get("form") is not None:
        form = FORMS[cell["form"]]
        alone = len(cell.get("forms", FORMS)) < len(FORMS)
        words += [f"{form} only"] if alone else [] if cell["form"] == next(iter(FORMS)) else [form]
    words += [str(cell["anew"])] if cell.get("anew") else []
    return "; ".join(words) or None


def _number(value: float, digits: int | None) -> str:
    """A number with that many digits after the point, or, of a metric that is not known, with three in all."""
    return number(value, digits) if digits is not None else number(value, 0) if abs(value) >= 1000 else f"{value:.3g}"


def _value(value: Mapping[str, Any] | None, digits: int | None) -> str:
    if value is None:
        return NOTHING
    if value["mean"] is None:
        return f"all {value['failed']} failed" if value.get("failed") else NOTHING
    deviation = f" ± {_number(value['std'], digits)}" if value.get("std") is not None else ""
    failed = f" ({value['failed']} failed)" if value.get("failed") else ""
    return f"{_number(value['mean'], digits)}{deviation}{failed}"


def html_sheet(sheet: Sheet) -> Markup:
    """A sheet as an accessible table in a region that scrolls by itself where the screen is narrow."""
    named = sheet.rows != ("",)
    head = [tag("th", breakable(column), scope="col") for column in sheet.columns]
    if named:
        head.insert(0, tag("td"))
    body = []
    for row in sheet.rows:
        cells = [_html_cell(sheet.cells.get((row, column))) for column in sheet.columns]
        if named:
            cells.insert(0, tag("th", breakable(row), scope="row"))
        body.append(tag("tr", *cells))
    table = tag(
        "table", caption_span(sheet.caption), tag("thead", tag("tr", *head)), tag("tbody", *body), class_="cells"
    )
    return scroller(table, sheet.caption)


def scroller(table: Markup, label: str) -> Markup:
    """A wide table, which the keyboard can reach and scroll."""
    return tag("div", table, class_="scroll", role="region", tabindex=0, aria_label=label)


def caption_span(words: str) -> Markup:
    """The caption of a table that may be wider than the screen."""
    return tag("caption", tag("span", words))  # the span stays in view where the table scrolls


def breakable(label: str) -> Markup:
    """A label that may break after a slash, a comma or an underscore, or before a parenthesis."""
    pieces = re.sub(r"([/,_])|(?=\()", "\\1\0", label).split("\0")
    return join(*pieces, between=Markup("<wbr>"))


def mark(word: str) -> Markup:
    """A verdict as a sign and a word, so that nothing hangs on colour."""
    sign = tag("span", MARKS.get(word, ""), aria_hidden="true")
    return tag("span", sign, " ", word, class_=f"mark {slug(word)}")


def slug(label: str) -> str:
    """A label as a name of classes and anchors."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-") or "x"


def _html_cell(cell: Cell | None) -> Markup:
    if cell is None:
        return tag("td")
    words = shown(cell)
    mean, _, rest = words.ours.partition(" ± ")
    lines = []
    if cell.get("ours") is not None:
        deviation = tag("span", f" ± {rest}", class_="dev") if rest else None
        lines.append(tag("span", tag("b", mean), deviation, class_="ours"))
    if words.interval is not None:
        lines.append(tag("span", words.interval, class_="interval", title="95 % bootstrap interval of the mean"))
    if words.paper is not None:
        lines.append(tag("span", tag("i", "paper"), " ", words.paper, class_="paper"))
    if words.verdict:
        lines.append(mark(words.verdict))
    if words.remark:
        lines.append(tag("span", words.remark, class_="interval"))
    return tag("td", *lines, class_="gnp" if is_gnp(cell) else None)


def overview(tables: Sequence[Result]) -> Markup | None:
    """How each table compares with the paper, for GNP and for the baselines; None if nothing is published."""
    rows = []
    for table in tables:
        kinds = by_kind(table["cells"])
        if any(counts.total for counts in kinds.values()):
            name = tag("a", breakable(str(table["table"])), href=f"#{anchor(table)}")
            rows.append(tag("tr", tag("th", name, scope="row"), *(_counted(counts) for counts in kinds.values())))
    if not rows:
        return None
    head = tag("tr", tag("td"), tag("th", GNP, scope="col"), tag("th", "baselines", scope="col"))
    caption = "Published cells of each table by verdict"
    table_ = tag("table", caption_span(caption), tag("thead", head), tag("tbody", *rows), class_="overview")
    return scroller(table_, caption)


def anchor(table: Result) -> str:
    """Where on the page a table is."""
    return f"table-{slug(str(table['table']))}"


def _counted(counts: Counts) -> Markup:
    if not counts.total:
        return tag("td", tag("span", "none", class_="quiet"))
    items = []
    for word, n in counts.words.items():
        if n:
            sign = tag("span", MARKS[word], aria_hidden="true")
            name = tag("span", f" {word}", class_="hidden")
            items.append(tag("span", sign, f" {n}", name, class_=f"count mark {slug(word)}", title=word))
    return tag("td", *items)


def pairs_table(pairs: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Differences of two models on the same runs; None if there are none."""
    rows = []
    for pair in pairs:
        if pair.get("difference") is not None:
            ends = pair.get("interval")
            interval = f"{100 * ends[0]:+.1f} to {100 * ends[1]:+.1f}" if ends is not None else ""
            name = f"{pair['column']}: {pair['second']} minus {pair['first']}"
            rows.append([name, f"{100 * pair['difference']:+.1f}", interval, str(pair["pairs"])])
    head = ["models", "difference in points", "95 % interval", "paired runs"]
    return number_table("Paired differences", head, rows) if rows else None


def number_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A plain table whose first column names the rows."""
    top = tag("tr", *(tag("th", name, scope="col") for name in head))
    lines = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", text(value)) for value in row[1:])) for row in rows]
    table = tag("table", caption_span(caption), tag("thead", top), tag("tbody", *lines), class_="plain")
    return scroller(table, caption)
