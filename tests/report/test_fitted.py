from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnpool.report import answer_of, page, read_study
from gnpool.report.fitted import fit_answer, fit_facts, fit_tables
from tests.report.shared import EVIL

FIT: dict[str, Any] = {
    "schema": 1,
    "answer": {
        "text": f"Pool by the sum {EVIL} (chosen on 98 % of 1000 resampled sets). Error: 0.1 %. GNP helps.",
        "confidence": 0.98,
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


def test_shares_of_a_classification() -> None:
    tables = fit_tables({**FIT, "problem": {"task": "classification"}})
    assert tables[0]["metric"] == "share of wrong answers (%)"


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
    assert facts["confidence of the answer"] == "98 % of resampled validation sets"
    assert not {"data: nested", "problem: edges", "problem: classes", "answer: text"} & set(facts)


def test_the_page_of_a_fit(tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_text(json.dumps(FIT))
    study = read_study(tmp_path)
    assert str(answer_of(study)) == f"Pool by the sum {EVIL} (chosen on 98 % of 1000 resampled sets)"
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


@pytest.mark.parametrize(
    "fit",
    [{}, {"answer": "a", "models": None, "notes": "x", "by_size": 3}, {"models": [{}], "split": 1, "by_size": {}}],
)
def test_almost_nothing_is_enough(tmp_path: Path, fit: dict[str, Any]) -> None:
    (tmp_path / "fit.json").write_text(json.dumps(fit))
    assert page(read_study(tmp_path)).startswith("<!doctype html>")
