"""The page, a single HTML file that needs neither a network nor a library."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from gnpool.display.poolings import NAMES
from gnpool.report.answer import PageAnswer, answer
from gnpool.report.fitted import fit_answer, fit_boxes, fit_pooling
from gnpool.report.grids import run_so_far
from gnpool.report.page.headline import headline
from gnpool.report.page.learning import learning_figures
from gnpool.report.page.markup import Markup, data_block, join, tag
from gnpool.report.page.plane import HIGH, LOW, Walk, crystals_table, ends_table, plane_data, plane_svg, walks
from gnpool.report.page.runs import runs_section
from gnpool.report.page.sizes import FLOOR, size_colors, size_figures, size_lines
from gnpool.report.page.tables import anchor, html_sheet, mark, number_table, overview, pairs_table, sheets
from gnpool.report.study import StoredStudy
from gnpool.report.verdicts import Counts, by_kind, is_published

LONG = 80  # an answer with more characters has smaller letters


def page(study: StoredStudy) -> str:
    """A study as a complete HTML document.

    Example:
        >>> from gnpool.report import StoredStudy, page
        >>> text = page(StoredStudy("results/mine"))
        >>> text[:15], "results/mine" in text
        ('<!doctype html>', True)
    """
    sections = {
        name: content
        for name, content in {
            "sizes": _sizes(study.tables),
            "tables": _tables(study.tables),
            "plane": _plane(walks(study.trainings), study),
            "learning": _learning(study),
            "runs": runs_section(study),
        }.items()
        if content is not None
    }
    first = answer_of(study)
    script, style = asset("page.js"), asset("page.css")
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{first} · gnpool report"),
        Markup(f"<style>{style}</style>"),
    )
    body = join(
        tag("a", "To the answer", href="#answer", class_="skip"),
        tag(
            "div", _top(study, sections), tag("main", _answer(first, study), *sections.values()), _foot(), class_="page"
        ),
        tag("div", "", id="tip", hidden=True, aria_hidden="true"),
        tag("div", "", id="said", class_="hidden", role="status", aria_live="polite"),
        Markup(f"<script>{script}</script>"),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def answer_of(study: StoredStudy) -> PageAnswer:
    """The answer at the top of the page: that of a fit, or that of the tables.

    Example:
        >>> from gnpool.report import StoredStudy, answer_of
        >>> cell = {"row": "GNP", "column": "harmonic", "ours": None, "paper": {"mean": 1.1, "std": 0.8}}
        >>> table = {"table": "t", "cells": [{**cell, "verdict": "matched"}], "meta": {"notes": ""}}
        >>> print(answer_of(StoredStudy("results", tables=[table])))
        GNP matches or beats the paper in all 1 published cells
    """
    return answer(study.tables) if study.fit is None else fit_answer(study.fit)


@functools.cache
def asset(name: str) -> str:
    """The content of a file beside this one."""
    return resources.files("gnpool.report.page").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _power(base: str, exponent: str) -> Markup:
    return join(base, tag("sup", exponent))


FORMULA = join(
    _power("n", "g"), " ((", _power("|v₁|", "p"), " + … + ", _power("|vₙ|", "p"), ") / n", _power(")", "1/p")
)
ENDS = (  # of a way: the branch, the end of the button's id, its text and what it is called
    ("pos", "", "p > 0", "Go to its end, p > 0"),
    ("neg", "-neg", "p < 0", "Go to its end, p < 0"),
    ("one", "-one", "go there", "Go to its end"),
)
NAV = {"sizes": "Sizes", "tables": "Tables", "plane": "Plane", "learning": "Learning", "runs": "Runs"}


def _top(study: StoredStudy, sections: Mapping[str, Markup]) -> Markup:
    links = [tag("a", NAV[name], href=f"#{name}") for name in sections]
    switch = tag("button", "Dark", id="theme", type="button", hidden=True)
    where = tag("span", tag("strong", "gnpool"), " ", Path(study.name).name or study.name)
    return tag("header", where, tag("nav", *links, aria_label="Sections"), switch, class_="top")


def _answer(first: PageAnswer, study: StoredStudy) -> Markup:
    long = len(str(first)) > LONG
    title = tag("h1", first.before, tag("em", first.weight), first.after, ".", class_="long" if long else None)
    more = [tag("p", line.replace(" %", "\N{NO-BREAK SPACE}%"), class_="lede") for line in first.more]
    bars = None
    if first.counts is not None:
        bars = tag("div", *(_bar(kind, counts) for kind, counts in first.counts.items() if counts.total), class_="bars")
    lines = tag("div", title, *more, class_="answer")
    boxes = [] if study.fit is None else fit_boxes(study.fit)
    found = [number_table(title, head, rows) for title, head, rows in boxes]
    beside = tag("div", *found, class_="boxes") if found else None
    return tag(
        "section",
        lines,
        bars,
        beside,
        headline(study.tables) if study.fit is None else None,
        overview(study.tables),
        id="answer",
    )


def _bar(kind: str, counts: Counts) -> Markup:
    parts, start = [], 0.0
    for word, n in counts.words.items():
        width = 100 * n / counts.total
        parts.append(tag("rect", x=start, y=0, width=width, height=10, class_=word.replace(" ", "-")))
        start += width
    drawn = tag(
        "svg", *parts, class_="bar", viewBox="0 0 100 10", preserveAspectRatio="none", role="img",
        aria_label=f"{kind}: {counts}",
    )  # fmt: skip
    items = [tag("li", tag("b", str(n)), mark(word)) for word, n in counts.words.items() if n]
    title = f"{kind[0].upper()}{kind[1:]}: {counts.total} published cells"
    return tag("div", tag("h2", title), drawn, tag("ul", *items, class_="key"))


def _sizes(tables: Sequence[Mapping[str, Any]]) -> Markup | None:
    figures = []
    titles = []
    for table in tables:
        found = size_figures(
            size_lines(table),
            x_label=str(table.get("sizes_of", "nodes")),
            unit=str(table.get("unit", "%")),
            limit=table.get("trained_up_to"),
            y_log=table.get("scale") != "linear",
        )
        if found:
            figures += found
            titles.append(str(table["title"]))
    if not figures:
        return None
    spread = any(_has_spread(table) for table in tables if size_lines(table))
    about = f"{'. '.join(titles)}." + (" Lines are means over seeds, bands one deviation." if spread else "")
    if any(table.get("scale") != "linear" for table in tables if size_lines(table)):
        about += f" Errors below {FLOOR} are drawn at {FLOOR}."
    return _section("sizes", "Error against size", about, tag("div", *figures, class_="figures"))


def _tables(tables: Sequence[Mapping[str, Any]]) -> Markup | None:
    parts = []
    for table in tables:
        if size_lines(table) or any(cell.get("curves") for cell in table["cells"]):
            continue  # drawn, with their numbers beside the drawing
        kinds = {kind: counts for kind, counts in by_kind(table["cells"]).items() if counts.total}
        counted = "; ".join(f"{kind}: {counts}" for kind, counts in kinds.items())
        parts.append(
            tag(
                "article",
                tag("h3", str(table["title"]), tag("code", str(table["table"])), id=anchor(table)),
                *(tag("p", line, class_="about") for line in (counted, run_so_far(table)) if line),
                *(html_sheet(sheet) for sheet in sheets(table)),
                pairs_table(table.get("pairs") or []),
            )
        )
    if not parts:
        return None
    about = (
        "Each cell: our mean over seeds and its deviation, a 95 % bootstrap interval of that mean (with a fixed seed), "
        "the paper's number, and the verdict. Matched: within twice the larger deviation and half a printed digit. "
        "Both fail: both errors are above 20 %."
    )
    if not any(is_published(cell) for table in tables for cell in table["cells"]):
        about = "Each cell: the mean over seeds and its deviation, and a 95 % bootstrap interval of that mean."
        single = "Each row: the best network of its kind on the validation data."
        return _section("tables", "Errors", about if any(map(_has_spread, tables)) else single, *parts)
    return _section("tables", "Ours beside the paper's", about, *parts)


def _has_spread(table: Mapping[str, Any]) -> bool:
    return any((cell.get("ours") or {}).get("std") is not None for cell in table["cells"])


def _plane(found: Sequence[Walk], study: StoredStudy) -> Markup:
    chooser = None
    if found:
        first = found[0].branches
        options = [tag("option", walk.label, value=str(k), selected=k == 0) for k, walk in enumerate(found)]
        chooser = tag(
            "div",
            tag("label", "Training of ", tag("select", *options, id="walk")),
            tag("span", "its end: ", class_="hidden-narrow"),
            *(
                tag("button", text, id=f"learned{end}", type="button", aria_label=label, hidden=name not in first)
                for name, end, text, label in ENDS
            ),
            class_="choose",
        )
    names = [tag("button", named.name, type="button", data_named=k) for k, named in enumerate(NAMES)]
    two = any("one" not in walk.branches for walk in found)
    lines = [("c0", f"{'p > 0, ' if two else ''}a line a seed, a dot at its end"), *([("c1", "p < 0")] if two else [])]
    key = tag(
        "div",
        *(tag("span", tag("span", "", class_="swatch"), label, class_=kind) for kind, label in lines),
        class_="path-key",
    )
    left = tag(
        "div", chooser, plane_svg(found[0] if found else None), key if found else None,
        tag("div", *names, class_="named-list", role="group", aria_label="Go to a pooling that has a name"),
    )  # fmt: skip
    about = join(
        "GNP computes ",
        FORMULA,
        " with learned p and growth g. Drag the handle, or use the arrow keys, and see what the pooling becomes.",
    )
    table = tag("details", tag("summary", "Where training ended, as a table"), ends_table(found)) if found else None
    return _section(
        "plane",
        "The plane of poolings",
        about,
        tag("div", left, _live(), class_="lab"),
        table,
        crystals_table(study.crystals) if study.crystals else None,
        data_block(plane_data(found, fit_pooling(study.fit or {})), "plane-data"),
    )


def _live() -> Markup:
    reading = tag(
        "p", tag("b", "", id="reading-values"), tag("span", "", id="reading-name"), " ",
        tag("span", "", id="reading-growth"), class_="reading",
    )  # fmt: skip
    sliders = tag(
        "div",
        tag("label", "p", for_="slider-p"),
        tag("input", type="range", id="slider-p", min=-200, max=200, step=1, value=100),
        tag("output", "1.00", id="out-p", for_="slider-p"),
        tag("label", "growth", for_="slider-growth"),
        tag("input", type="range", id="slider-growth", min=LOW, max=HIGH, step=0.01, value=1),
        tag("output", "1.00", id="out-growth", for_="slider-growth"),
        class_="sliders",
    )
    return tag(
        "div",
        reading,
        sliders,
        tag("h3", "Six values, and what they are pooled to"),
        tag("svg", id="bars", viewBox="0 0 320 148", role="img", aria_label="Six values"),
        tag("button", "Other values", id="other-values", type="button"),
        tag("h3", "Result against the number of elements"),
        tag("svg", id="growth", viewBox="0 0 320 170", role="img", aria_label="Growth"),
        class_="live live-only",
        hidden=True,
    )


def _learning(study: StoredStudy) -> Markup | None:
    colors = {name: color for table in study.tables for name, color in size_colors(size_lines(table)).items()}
    plain, other = learning_figures(study.trainings, colors)
    if not plain and not other:
        return None
    about = "Validation of the chosen setting over epochs: median over seeds, and the range as a band."
    parts = [tag("div", *plain, class_="figures")] if plain else []
    if other:
        title = f"Trainings on other data ({len(other)})"
        shown = tag("div", *other, class_="figures")
        parts.append(tag("details", tag("summary", title), shown) if plain else shown)
    return _section("learning", "Learning curves", about, *parts)


def _section(name: str, title: str, about: str, *content: Markup | None) -> Markup:
    return tag(
        "section", tag("h2", title, id=f"{name}-title"), tag("p", about), *content, id=name,
        aria_labelledby=f"{name}-title",
    )  # fmt: skip


def _foot() -> Markup:
    return tag("footer", "Made by gnpool from stored results alone. This file loads nothing from anywhere.")
