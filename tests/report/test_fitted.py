from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnpool.report import answer_of, page, read_study
from gnpool.report.fitted import fit_answer, fit_boxes, fit_facts, fit_tables, fit_trainings
from gnpool.report.page.sizes import size_figures, size_lines
from tests.report.browser import PROGRAM, Browser
from tests.report.shared import EVIL

FIT: dict[str, Any] = {
    "schema": 1,
    "answer": {
        "text": f"Pool by the sum {EVIL}. Error: 0.1 %. GNP helps.",
        "poolings": ["max", "sum"],
    },
    "problem": {"task": "regression", "level": "graph", "edges": True, "classes": []},
    "data": {"graphs": 2000, "columns": ["a: number", EVIL], "nested": {"a": 1}},
    "split": {
        "by": "size",
        "inside": {"graphs": 30, "smallest": 8, "largest": 22},
        "larger": {"graphs": 40, "smallest": 23, "largest": 110},
    },
    "models": [
        {
            "label": "mean/sum",
            "finished": False,
            "validation_loss": 9.0,
            "inside": {"error": 0.5},
            "larger": {"error": 1.5},
        },
        {
            "label": "GNP",
            "poolings": None,
            "validation_loss": 1.0,
            "inside": {"error": 0.01},
            "larger": {"error": 0.02},
        },
        {
            "label": "GNP*",
            "poolings": ["sum", "sum"],
            "chosen": True,
            "validation_loss": 2.0,
            "inside": {"error": 0.001, "r2": 1.0},
            "larger": {"error": 0.002},
        },
        "odd",
    ],
    "constant": {"validation_loss": 20.0, "inside": {"error": 0.7}, "larger": {"error": None}},
    "by_size": {
        "sizes": [10.2, 30.0, 99.6],
        "errors": {"GNP": [0.01, None, 0.03], "GNP*": [0.001] * 3, "mean/sum": [0.4, 0.9, 2.0]},
    },
    "notes": ["a column was left out"],
    "meta": {"epochs": 60, "seed": 0, "device": "cpu", "seconds": 61.25},
}


def test_errors_by_part() -> None:
    table = fit_tables(FIT)[1]
    found = {(cell["row"], cell["column"]): cell["ours"] for cell in table["cells"]}
    inside, larger = "inside: 30 graphs of 8 to 22 nodes", "larger: 40 graphs of 23 to 110 nodes"
    assert list(dict.fromkeys(row for row, _ in found)) == [
        "GNP* (sum/sum), chosen",
        "GNP",
        "mean/sum, a first look",
        "best constant",
    ]
    assert found["GNP", larger]["mean"] == 2.0
    assert found["best constant", inside]["mean"] == 70.0
    assert ("best constant", larger) not in found
    assert table["metric"] == "relative error (%)"


def test_errors_by_size() -> None:
    table = fit_tables(FIT)[0]
    found = {(cell["row"], cell["column"]): cell["ours"] for cell in table["cells"]}
    assert {column for _, column in found} == {"10", "30", "100"}
    assert found["/GNP", "30"] is None
    assert found["/mean/sum", "100"]["mean"] == 200.0
    assert [cell["gnp"] for cell in table["cells"]] == [True] * 6 + [False] * 3


def test_one_size_needs_no_curve() -> None:
    one = {"sizes": [30.0], "errors": {"GNP": [0.01], "GNP*": [0.001], "mean/sum": [0.4]}}
    assert [table["table"] for table in fit_tables({**FIT, "by_size": one})] == ["fit"]


def test_the_limit_of_training_is_drawn() -> None:
    fit = {**FIT, "by_size": {**FIT["by_size"], "trained_up_to": 22}}
    table = fit_tables(fit)[0]
    assert (table["trained_up_to"], table["sizes_of"]) == (22.0, "nodes")
    (figure,) = size_figures(size_lines(table), limit=table["trained_up_to"])
    assert figure.count('class="limit"') == 1
    assert "The largest size in training is 22." in figure
    assert 'class="limit"' not in size_figures(size_lines(table), limit=500.0)[0]  # beyond the picture
    random = {**fit, "split": {**FIT["split"], "by": "random"}}
    assert "trained_up_to" not in fit_tables(random)[0]


def test_boxes_beside_the_answer() -> None:
    shares = {"train": {"a": 0.25, "b": 0.75}, "larger": {"a": 0.5, "b": 0.5}}
    law = {"answer": {"text": "y", "model": "law"}, "law": {"trusted_size": 1600}}
    sizes, classes = fit_boxes({**FIT, **law, "class_shares": shares})
    assert sizes[2] == [
        ["test, same sizes", "30", "8 to 22"],
        ["test, larger", "40", "23 to 110"],
        ["trusted", "", "up to 1,600"],
    ]
    assert classes[1:] == (
        ["class", "training", "test, larger"],
        [["a", "25.0 %", "50.0 %"], ["b", "75.0 %", "50.0 %"]],
    )
    of_nodes = {**FIT, "split": {**FIT["split"], "of": "nodes"}}
    assert fit_boxes(of_nodes)[0][1] == ["part", "nodes", "neighbours"]
    assert "larger: 40 nodes of 23 to 110 neighbours" in {cell["column"] for cell in fit_tables(of_nodes)[1]["cells"]}
    for odd in ({}, {"split": 3, "class_shares": {"train": 1}}, {"split": {"train": {"graphs": "x"}}}):
        assert fit_boxes(odd) == []


def test_nothing_learned_is_saved_and_not_chosen() -> None:
    fit = {**FIT, "answer": {"text": "Nothing was learned.", "learned": False}}
    rows = {cell["row"] for cell in fit_tables(fit)[1]["cells"]}
    assert "GNP* (sum/sum), saved" in rows


def test_shares_of_a_classification() -> None:
    tables = fit_tables({**FIT, "problem": {"task": "classification"}})
    assert tables[0]["metric"] == "share of wrong answers (%)"
    assert tables[0]["scale"] == "linear"  # a share of 0 is common, and has no place on a logarithmic axis
    (figure,) = size_figures(size_lines(tables[0]), y_log=False)
    assert '<text x="' in figure
    assert ">0</text>" in figure
    assert "scale" not in fit_tables(FIT)[0]


def test_the_measure_that_was_asked_for_is_shown() -> None:
    measures = {"error": 0.25, "absolute": 3.5, "r2": None}
    models = [
        {**model, "inside": measures, "larger": {**measures, "r2": 0.5}} for model in FIT["models"] if model != "odd"
    ]
    fit = {**FIT, "models": models, "constant": {"inside": measures, "larger": measures}, "metric": "mae"}
    (title, head, rows) = fit_boxes(fit)[-1]
    assert (title, head) == ("Mean absolute error", ["", "test, same sizes", "test, larger"])
    assert rows == [["GNP* (sum/sum), chosen", "3.5", "3.5"], ["GNP", "3.5", "3.5"], ["best constant", "3.5", "3.5"]]
    assert fit_boxes({**fit, "metric": "r2"})[-1][2][0][1:] == ["undefined", "0.5"]
    assert fit_boxes({**fit, "metric": "error"}) == fit_boxes(FIT)
    odd = [{"label": "GNP", "inside": {"absolute": "x"}, "larger": {"absolute": 1.0}}, {"label": "sum", "inside": 3}]
    assert fit_boxes({**fit, "models": odd, "constant": None}) == fit_boxes(FIT)


@pytest.mark.parametrize(
    ("answer", "sentence", "more"),
    [
        ("The sum.", "The sum", ()),
        ({"text": "The sum. It was best: 0.5 % at 1.5 nodes."}, "The sum", ("It was best: 0.5 % at 1.5 nodes.",)),
        (None, "A fit, without an answer", ()),
        ({}, "A fit, without an answer", ()),
    ],
)
def test_answers(answer: Any, sentence: str, more: tuple[str, ...]) -> None:
    found = fit_answer({"answer": answer})
    assert (str(found), found.more) == (sentence, more)


def test_facts_are_plain_values() -> None:
    facts = fit_facts(FIT)
    assert facts["data: graphs"] == "2,000"
    assert facts["data: columns"] == f"a: number, {EVIL}"
    assert facts["split: larger"] == "40 graphs of 23 to 110 nodes"
    assert facts["epochs"] == "60"
    assert not {"data: nested", "problem: edges", "problem: classes", "answer: text"} & set(facts)


def test_the_page_of_a_fit(tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_text(json.dumps(FIT))
    study = read_study(tmp_path)
    assert str(answer_of(study)) == f"Pool by the sum {EVIL}"
    assert study.machines == [{"device": "cpu"}]
    text = page(study)
    assert EVIL not in text
    for words in ("61 s", "GNP helps.", "a column was left out", "100 nodes: 0.1 %"):
        assert words in text
    assert [name for name in ("sizes", "tables", "plane", "learning", "runs") if f'<section id="{name}"' in text] == [
        "sizes",
        "tables",
        "plane",
        "runs",
    ]
    assert "Ours beside the paper" not in text
    assert '"start":0' in text  # the handle begins at the sum
    assert "Each row: the best network of its kind" in text


CURVES: dict[str, Any] = {
    "seeds": [0, 1],
    "losses": {"epoch": [1, 50, 200], "train": [[9.0, 3.0, 2.0]] * 2, "loss": [[8.0, 4.0, 1.0], [8.0, None, 3.0]]},
    "exponents": {
        "epoch": [0, 200],
        "conv.aggr.p_pos": [[1.69, 1.002], [1.69, 1.001]],
        "conv.aggr.q_pos": [[0.0, 0.01], [0.0, 0.02]],
        "conv.aggr.p_neg": [[1.69, 30.0], [1.69, None]],
        "conv.aggr.q_neg": [[0.0, 0.5], [0.0, 0.5]],
    },
}
RUNS = [
    {"setting": {"lr": 0.01, "optimizer": "adam"}, "failed": None, "validation_loss": 2.0},
    {"setting": {"lr": 0.002, "optimizer": "adam"}, "failed": "in epoch 3", "validation_loss": None},
]


def with_curves(curves: Any = CURVES) -> dict[str, Any]:
    fixed = {"losses": CURVES["losses"], "seeds": [0, 1]}
    shown = {"label": EVIL, "curves": fixed, "runs": RUNS}
    return {**FIT, "models": [FIT["models"][0], {**FIT["models"][1], "curves": curves, "runs": RUNS}, shown, "odd"]}


def test_trainings_of_a_fit() -> None:
    gnp, fixed = fit_trainings(with_curves())
    assert (gnp.task, gnp.model, gnp.runs, gnp.failed) == ("regression of graphs", "GNP", 2, 1)
    assert gnp.setting == RUNS[0]["setting"]
    assert gnp.epochs == (1, 50, 200)
    np.testing.assert_equal(gnp.curves["loss"], [[8.0, 8.0], [4.0, np.nan], [1.0, 3.0]])
    np.testing.assert_equal(gnp.curves["conv.aggr.p_neg"], [[1.69, 1.69], [30.0, np.nan]])
    assert gnp.layers == ["conv.aggr"]
    assert not fixed.gnp


def test_the_page_shows_how_a_fit_was_trained(tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_text(json.dumps(with_curves()))
    text = page(read_study(tmp_path))
    assert EVIL not in text
    assert '<section id="learning"' in text
    assert "epoch 1: 8|epoch 50: 4|epoch 200: 2" in text  # the number of the epoch, and the median over seeds
    assert text.count('class="walk"') == 4  # two branches of two seeds
    assert "regression of graphs · GNP · conv.aggr" in text
    assert '"pos":[[1.69,0.5917,1.002,0.988],[1.69,0.5917,1.001,0.979]]' in text  # the growth is 1/p - q
    assert '"neg":[[-1.69,-0.5917,-30.0,-0.5333],[-1.69,-0.5917]]' in text
    assert "<td>rate 0.01, adam</td>" in text


def test_the_page_of_a_fit_that_learned_the_growth(tmp_path: Path) -> None:
    exponents = {"epoch": [0, 200], "readout.p": [[1.0, -0.2], [1.0, 40.0]], "readout.growth": [[1.0, 0.1], [1.0, 0.0]]}
    gnp, _ = fit_trainings(with_curves({**CURVES, "exponents": exponents}))
    assert (gnp.gnp, gnp.layers) == (True, ["readout"])
    (tmp_path / "fit.json").write_text(json.dumps(with_curves({**CURVES, "exponents": exponents})))
    text = page(read_study(tmp_path))
    assert '"one":[[1.0,1.0,-0.2,0.1],[1.0,1.0,40.0,0.0]]' in text
    assert text.count('class="walk"') == 2
    assert re.findall(r'<button id="learned[^>]*>', text) == [
        '<button id="learned" type="button" aria-label="Go to its end, p &gt; 0" hidden>',
        '<button id="learned-neg" type="button" aria-label="Go to its end, p &lt; 0" hidden>',
        '<button id="learned-one" type="button" aria-label="Go to its end">',
    ]


@pytest.mark.parametrize(
    "curves",
    [
        None,
        3,
        {"losses": 1},
        {"losses": {"loss": [[1.0]]}},
        {"losses": {"epoch": [1, 2], "loss": [[1.0], [1.0, 2.0]]}},
        {"losses": {"epoch": [1, 2], "loss": [[1.0]]}},
        {"losses": {"epoch": ["a"], "loss": [["b"]]}, "exponents": {"p_pos": []}},
    ],
)
def test_curves_that_are_none_are_left_out(curves: Any) -> None:
    assert [training.model for training in fit_trainings(with_curves(curves))] == [EVIL]


@pytest.mark.parametrize(
    "fit",
    [{}, {"answer": "a", "models": None, "notes": "x", "by_size": 3}, {"models": [{}], "split": 1, "by_size": {}}],
)
def test_almost_nothing_is_enough(tmp_path: Path, fit: dict[str, Any]) -> None:
    (tmp_path / "fit.json").write_text(json.dumps(fit))
    assert page(read_study(tmp_path)).startswith("<!doctype html>")


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium or Chrome")
def test_a_fit_in_a_browser(tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_text(json.dumps(with_curves()))
    path = tmp_path / "report.html"
    path.write_text(page(read_study(tmp_path)), encoding="utf-8")
    spoken = "document.getElementById('handle').getAttribute('aria-valuetext')"
    with Browser(tmp_path / "profile") as browser:
        browser.open(path)
        browser.run("document.getElementById('learned').click()")  # to the end of the way
        assert browser.run(spoken).startswith("p 1.00")
        assert browser.run("document.querySelectorAll('#plane-paths path').length") == 4
        assert browser.run("document.querySelectorAll('#learning .series').length") == 2
        assert browser.problems == []
        assert browser.requests == [path.absolute().as_uri()]
