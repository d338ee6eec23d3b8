from __future__ import annotations

import re

import numpy as np
import pytest

from gnpool.report import bootstrap, markdown
from gnpool.report.markdown.tables import plain
from gnpool.report.page.markup import Markup, data_block, join, tag
from gnpool.report.page.tables import NOTHING, breakable, html_sheet, overview, sheets, shown, slug
from tests.report.shared import EVIL, cell, tables


def test_html_cell_holds_everything() -> None:
    (sheet,) = sheets(tables()[0])
    text = html_sheet(sheet)
    assert sheet.caption == "MAPE; rows: model; columns: task"
    first = re.search(r'<td class="gnp">(.*?)</td>', text)
    assert first is not None
    words = re.sub(r"<[^>]*>", " ", first[1]).split()
    assert " ".join(words) == "1.31 ± 0.13 1.18 to 1.44 paper 1.1 ± 0.1 ● matched"
    assert text.count("<th scope=") == 2 + 3
    assert "paper</i> 1.0 ± 0.1" in text.split("not run")[0][-200:]  # of the cell that was not run


def test_markdown() -> None:
    evil = "&lt;script&gt;alert(1)&lt;/script&gt;"
    lines = markdown(tables()[:1]).splitlines()
    assert lines[:4] == [
        "|  | GNP | GNP, paper | best baseline |",
        "| --- | --- | --- | --- |",
        f"| demo: harmonic | **1.31 ± 0.13** matched | 1.1 ± 0.1 | a {evil}: 2.00 ± 0.20 |",
        f"| demo: invsize | **0.50 ± 0.05** better | 1.2 ± 0.1 | a {evil}: 1.0 ± 0.1 (paper) |",
    ]
    lines = lines[5:]
    assert lines[:3] == [
        "| table | GNP | baselines |",
        "|---|---|---|",
        "| demo | 1 matched, 1 better | 1 both fail, 1 worse, 1 different outcome, 1 not run |",
    ]
    assert lines[4:7] == ["### demo", "", f"Errors {evil} (MAPE; rows: model; columns: task)"]
    cells = (
        "1.31 ± 0.13 [1.18 to 1.44]<br>paper 1.1 ± 0.1<br>matched",
        "0.50 ± 0.05 [0.45 to 0.55]<br>paper 1.2 ± 0.1<br>better",
    )
    assert lines[8:11] == ["|  | harmonic | invsize |", "| --- | --- | --- |", f"| GNP | {cells[0]} | {cells[1]} |"]
    assert lines[-1].endswith("| paper 1.0 ± 0.1<br>not run |")
    assert all(line.count(" | ") == 2 for line in lines[8:])


def test_models_beside_the_grid_are_a_sheet_of_their_own() -> None:
    table = {**tables()[0], "cells": [cell("sum", "max", 1.0), cell("GNP", "model", 2.0), cell("Sort", "model", 3.0)]}
    first, second = sheets(table)
    assert (first.rows, first.columns) == (("sum",), ("max",))
    assert (second.rows, second.columns) == (("",), ("GNP", "Sort"))
    assert second.caption == "demo, models beside the grid"
    assert 'scope="row"' not in html_sheet(second)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({"ours": None, "paper": None}, (NOTHING, None, None, "not run"), id="not run, not published"),
        pytest.param(
            {"ours": {"mean": None, "std": None, "runs": [None], "failed": 1}, "verdict": "failed"},
            ("all 1 failed", None, None, None),
            id="every run failed",
        ),
        pytest.param(
            {"ours": {"mean": 2.0, "std": None, "runs": [2.0], "failed": 0}},
            ("2.00", None, None, None),
            id="one run has no deviation",
        ),
        pytest.param(
            {"ours": {"mean": 2.0, "std": 1.0, "runs": [1.0, 3.0, None], "failed": 1}, "metric": "MAE"},
            ("2.000 ± 1.000 (1 failed)", None, None, None),
            id="some runs failed",
        ),
        pytest.param(
            {"ours": {"mean": 2e9, "std": 1e9, "runs": [2e9], "failed": 0}, "paper": {"mean": None, "std": None}},
            ("2e+09 ± 1e+09", None, None, None),
            id="huge, published as missing",
        ),
    ],
)
def test_cells_in_words(fields: dict[str, object], words: tuple[str | None, ...]) -> None:
    found = shown({"row": "a", "column": "b", "metric": "MAPE", "verdict": "not run", "paper": None, **fields})
    assert (found.ours, found.interval, found.paper, found.verdict) == words


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({}, None),
        ({"search": "point"}, "setting by one run"),
        ({"form": "message", "forms": {"message": {}, "gin": {}}}, None),
        ({"form": "gin", "forms": {"message": {}, "gin": {}}}, "GIN's form"),
        ({"form": "gin"}, "GIN's form"),
        ({"form": "gin", "forms": {"message": {}, "gin": {}}, "search": "point"}, "setting by one run; GIN's form"),
        ({"form": "message", "forms": {"message": {}}}, "messages first only"),
    ],
)
def test_remarks(fields: dict[str, object], remark: str | None) -> None:
    assert shown({"row": "a", "column": "b", "ours": None, "paper": None, "verdict": "", **fields}).remark == remark


def test_overview_leaves_out_what_is_not_published() -> None:
    found = overview(tables())
    assert found is not None
    assert "#table-demo" in found
    assert "fig_size" not in found
    assert overview(tables()[1:]) is None


def test_bootstrap_is_the_percentile_interval() -> None:
    values = [1.0, 1.2, 1.4, 1.1, 2.0]
    low, high = bootstrap(values) or (0.0, 0.0)
    every = np.array(np.meshgrid(*[values] * 5)).reshape(5, -1).mean(axis=0)  # all 3125 resamples
    np.testing.assert_allclose([low, high], np.quantile(every, [0.025, 0.975]), atol=0.02)
    assert bootstrap(values) == (low, high)
    assert bootstrap([*values, None]) == (low, high)


@pytest.mark.parametrize("values", [[], [1.0], [None, 1.0], [None], [1.0, 2.0], [1.0, None, 2.0]])
def test_no_interval_without_three_runs(values: list[float | None]) -> None:
    assert bootstrap(values) is None


def test_text_is_escaped_once() -> None:
    assert tag("p", EVIL, tag("b", "&"), class_='a"b') == (
        '<p class="a&quot;b">&lt;script&gt;alert(1)&lt;/script&gt;<b>&amp;</b></p>'
    )
    assert join("<", None, Markup("<br>"), between=",") == "&lt;,<br>"
    assert breakable("a/b(<c>)") == "a/<wbr>b<wbr>(&lt;c&gt;)"
    assert "</script><" not in data_block({"a": EVIL}, "x").removesuffix("</script>")
    assert plain("a|b\n`c`") == "a\\|b \\`c\\`"
    assert (slug("Different Outcome"), slug("<>")) == ("different-outcome", "x")


def test_data_must_be_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        data_block(float("nan"), "x")
