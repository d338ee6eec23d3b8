from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gnpool.report import read_study
from gnpool.report.study import thin
from gnpool.store import Store
from tests.report.shared import EVIL, make_study, tables


def test_a_folder_is_read(tmp_path: Path) -> None:
    study = read_study(make_study(tmp_path))
    assert study.tables == tables()
    assert study.units == {"score": 1, "training": 4}
    assert study.seconds == 121.5
    assert study.crystals == {"harmonic · gnp*": {"sum, then max": 2, f"b {EVIL}": 1}}
    assert study.machines == [{"device": "cpu: x"}, {"device": "cpu: x", "python": "3.12.0", "torch": "2.13.0"}]
    assert [(one.model.split()[0], one.data, one.gnp, one.layers) for one in study.trainings] == [
        ("gnp", "", True, ["readout"]),
        ("sum,max", "", False, []),
        ("gnp", "tree", True, ["readout"]),
    ]
    first = study.trainings[0]
    assert (first.runs, first.failed, first.seconds, first.setting["lr_p"]) == (3, 1, 30.0, 0.03)
    assert first.curves["metric"].shape == (100, 3)
    np.testing.assert_allclose(first.curves["metric"][0], [25.0, 30.0, 20.0])


def test_results_without_their_store_keep_their_exponents(tmp_path: Path) -> None:
    curves = {"p_pos": [[1.7, 1.7], [3.0, None]], "q_pos": [[0.0, 0.0], [0.5, None]]}
    cell = {"row": "harmonic", "column": "readout", "ours": None, "paper": None, "curves": curves}
    table = {"table": "fig_pq", "title": "p and q", "metric": "p, q", "cells": [cell]}
    (tmp_path / "results.json").write_text(json.dumps({"tables": [table]}))
    (training,) = read_study(tmp_path).trainings
    assert (training.task, training.layers) == ("harmonic", ["readout"])
    np.testing.assert_array_equal(training.curves["readout.p_pos"], [[1.7, 1.7], [3.0, np.nan]])


def test_any_store_can_be_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put({"table": "mine", "unit": 3}, scores=[{"seed": 0, "mape": 1.0}])
    store.put({"table": "mine", "unit": 4}, scores=[1.0], tensors={"curve/loss": torch.tensor([3.0, 2.0, 1.0])})
    study = read_study(tmp_path)
    assert study.units == {"mine": 2}
    (training,) = study.trainings
    assert (training.task, training.model, training.runs) == ("mine", "4", 0)
    assert training.curves["loss"].tolist() == [[3.0], [2.0], [1.0]]


def test_damage_is_told(tmp_path: Path) -> None:
    make_study(tmp_path)
    file = next((tmp_path / "units" / "score").rglob("*.json"))
    file.write_text(file.read_text().replace("1.0", "2.0"))
    study = read_study(tmp_path)
    assert study.units == {"training": 4}
    assert len(study.damaged) == 1
    assert "checksum" in study.damaged[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "holds neither results.json nor fit.json nor units of a store"),
        ("{", "results.json' is not JSON"),
        ("[]", "must hold an object, got list"),
        ('{"tables": 3}', "must hold a list 'tables', each with table, title, metric and cells"),
        ('{"tables": [{"table": "a"}]}', "must hold a list 'tables', each with table, title, metric and cells"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_study(tmp_path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gone' is not a folder"):
        read_study(tmp_path / "gone")


@pytest.mark.parametrize("length", [1, 2, 59, 60, 61, 300])
def test_thin_keeps_both_ends(length: int) -> None:
    kept = thin(length)
    assert (kept[0], kept[-1]) == (0, length - 1)
    assert len(kept) == min(length, 60)
    assert (np.diff(kept) > 0).all()
