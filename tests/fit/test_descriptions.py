"""What a saved model says about its columns and its target is checked before it predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnpool.data import Column, GraphTable
from gnpool.fit.predict import load_predictor
from gnpool.fit.preprocess import Preprocessing, Rule
from gnpool.fit.problem import Problem
from gnpool.models import SavedModelError, SetNet, save_model

RULES = (Rule("mass", "log", 2.0, 1.0, True), Rule("kind", "one-hot", categories=("C",)))
TABLE = GraphTable(
    np.arange(2),
    np.array([2, 1]),
    None,
    (Column("mass", np.array([1.0, np.nan, 3.0])), Column("kind", np.array([0, -1, 0]), ("C",))),
    None,
)


def saved(folder: Path) -> Path:
    arguments = {"in_channels": 3, "pool": "sum", "hidden": 4}
    extra = {
        "problem": Problem("regression", "graph", False, scale=2.0).to_dict(),
        "preprocessing": Preprocessing(RULES).to_dict(),
    }
    return save_model(folder / "model", SetNet(**arguments), {"class": "SetNet", "arguments": arguments}, extra)


PROBLEM: dict[str, dict[str, Any]] = {
    "scale as a word": {"scale": "2"},
    "scale of nothing": {"scale": None},
    "scale of truth": {"scale": True},
    "scale of 0": {"scale": 0},
    "infinite scale": {"scale": float("inf")},
    "scale that is none": {"scale": float("nan")},
    "task": {"task": ["regression"]},
    "level": {"level": "edge"},
    "edges": {"edges": "no"},
    "edges of a set": {"edges": True},
    "classes": {"classes": [1, 2]},
    "no classes": {"task": "classification", "classes": []},
    "more classes than outputs": {"task": "classification", "classes": ["a", "b"]},
    "column": {"column": 3},
    "one more": {"colour": 3},
}
RULE: dict[str, dict[str, Any]] = {
    "kind": {"kind": "square"},
    "scale as a word": {"scale": "1"},
    "scale of 0": {"scale": 0.0},
    "fill that is none": {"fill": float("nan")},
    "missing": {"missing": 1},
    "categories": {"categories": [1]},
    "categories as a number": {"categories": 3},
    "name": {"name": 5},
    "another width": {"kind": "constant"},
    "one more": {"colour": 3},
}


def refused(folder: Path, part: str, change: Any) -> None:
    path = saved(folder) / "model.json"
    load_predictor(path.parent).outputs(TABLE)
    found = json.loads(path.read_text())
    place = found["extra"]["preprocessing"][0] if part == "preprocessing" else found["extra"]["problem"]
    place.update(change)
    path.write_text(json.dumps(found))
    with pytest.raises(SavedModelError, match=r"'gnpool fit' .*\(") as caught:
        load_predictor(path.parent)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", PROBLEM.values(), ids=PROBLEM)
def test_a_target_that_cannot_be(change: dict[str, Any], tmp_path: Path) -> None:
    refused(tmp_path, "problem", change)


@pytest.mark.parametrize("change", RULE.values(), ids=RULE)
def test_a_column_that_cannot_be(change: dict[str, Any], tmp_path: Path) -> None:
    refused(tmp_path, "preprocessing", change)
