from __future__ import annotations

from typing import Any

import pytest

from gnpool.report import StoredStudy, answer, by_kind, count_verdicts, markdown, page, run_so_far
from gnpool.report.answer import distinct
from gnpool.report.verdicts import WORDS, is_gnp, word_of
from tests.report.shared import cell, tables


def table(*cells: dict[str, Any], name: str = "t", **meta: Any) -> dict[str, Any]:
    return {"table": name, "title": "Error", "metric": "MAPE", "cells": list(cells), "meta": meta}


def compared(*words: str, gnp: bool) -> list[dict[str, Any]]:
    return [
        cell("GNP" if gnp else "sum", str(k), None if word == "not run" else 1.0, 1.0, gnp=gnp, verdict=word)
        for k, word in enumerate(words)
    ]


@pytest.mark.parametrize(
    ("cells", "sentence", "more"),
    [
        pytest.param(
            [*compared("matched", "better", "both fail", gnp=True), *compared("worse", "matched", gnp=False)],
            "GNP matches or beats the paper in all 3 published cells",
            ("Of 2 published cells of the baselines, 1 are matched or better.",),
            id="all good",
        ),
        pytest.param(
            [*compared("matched", "worse", "not run", gnp=True), *compared("not run", gnp=False)],
            "GNP matches or beats the paper in 1 of 2 published cells that were run",
            ("Not run: 1 of GNP and 1 of the baselines.",),
            id="some not run",
        ),
        pytest.param(
            compared("matched", "different outcome", gnp=False),
            "1 of 2 published cells are matched or better",
            (),
            id="no GNP",
        ),
        pytest.param(compared("not run", gnp=True), "None of the 1 published cells was run", (), id="nothing run"),
        pytest.param(
            [cell("GNP", "a", 1.0), cell("sum", "a", 2.0), cell("GNP", "b", 3.0), cell("sum", "b", 2.0)],
            "GNP has the lowest error in 1 of 2 columns",
            (),
            id="nothing published",
        ),
        pytest.param([cell("sum", "a", 1.0)], "Results, with nothing published to compare them with", (), id="one row"),
        pytest.param([], "Results, with nothing published to compare them with", (), id="no cells"),
    ],
)
def test_answer(cells: list[dict[str, Any]], sentence: str, more: tuple[str, ...]) -> None:
    found = answer([table(*cells)])
    assert str(found) == sentence
    assert found.more == more


def test_what_was_reduced_is_said_once() -> None:
    both = [table(*compared("matched", gnp=True), name=name, notes="quick: less") for name in "ab"]
    assert answer(both).more == ("Reduced. quick: less.",)


def test_what_lacks_runs_is_said_on_the_page_in_markdown_and_here() -> None:
    part = {"part": "1 of 20 seeds"}, {"part": "3 of 20 seeds"}, {"part": None}, {}
    cells = [cell("GNP", column, 1.0, 1.0, gnp=True, verdict="matched") for column in "abcd"]
    some = table(*({**one, **more} for one, more in zip(cells, part, strict=True)), name="some")
    whole = table(*cells, name="whole")
    assert (run_so_far(some), run_so_far(whole)) == ("Run so far: 1 of 20 seeds; 3 of 20 seeds.", "")
    assert answer([some, whole]).more == ("Not all runs are done of some; each says how many.",)
    study = StoredStudy(name="here", tables=[some, whole])
    for text in (page(study), markdown([some, whole])):
        assert text.count("Run so far: 1 of 20 seeds; 3 of 20 seeds.") == 1


def test_a_published_cell_counts_once() -> None:
    here = table(*compared("matched", gnp=True), name="exp")
    again = table({**here["cells"][0], "row": "x", "published": ["exp", "GNP", "0"]}, name="demo")
    assert len(list(distinct([again, here]))) == 1
    assert str(answer([again, here])) == "GNP matches or beats the paper in all 1 published cells"


def test_of_two_the_cell_that_was_run_counts() -> None:
    missing = table(*compared("not run", gnp=True), name="exp")
    run = table({**compared("matched", gnp=True)[0], "published": ["exp", "GNP", "0"]}, name="demo")
    for order in ([missing, run], [run, missing]):
        assert [found["verdict"] for found in distinct(order)] == ["matched"]


def test_counts() -> None:
    found = by_kind(tables()[0]["cells"])
    assert str(found["GNP"]) == "1 matched, 1 better"
    assert str(found["baselines"]) == "1 both fail, 1 worse, 1 different outcome, 1 not run"
    assert (found["baselines"].total, found["baselines"].run, found["baselines"].good) == (4, 3, 1)
    assert str(count_verdicts([])) == "none"


def test_every_word_of_the_lab_is_counted() -> None:
    from gnpool.lab import verdict

    ours, paper = {"mean": 1.0, "std": 0.0}, {"mean": 1.0, "std": 0.0}
    found = {
        verdict(None, paper),
        verdict(ours, paper),
        verdict({"mean": 2.0, "std": 0.0}, paper),
        verdict({"mean": 0.5, "std": 0.0}, paper),
        verdict({"mean": 50.0, "std": 0.0}, paper, gnp=False),
        verdict({"mean": 50.0, "std": 0.0}, {"mean": 60.0, "std": 0.0}),
    }
    assert found == set(WORDS)


def test_older_results_are_understood() -> None:
    assert word_of({"verdict": "agrees"}) == "matched"
    assert is_gnp({"row": "BA", "column": "invsize/GNP"})
    assert not is_gnp({"row": "BA", "column": "sum"})
    assert not is_gnp({"row": "GNP", "column": "sum", "gnp": False})
