from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from gnpool.lab import PRESETS, TABLES, verdict
from gnpool.lab.recipes.table import has_gnp, summary, table_results
from gnpool.lab.recipes.training import CRITERIA
from gnpool.store import Store


def ours(mean: float | None, std: float | None = 0.0, runs: int = 5) -> dict[str, Any]:
    return {"mean": mean, "std": std, "runs": [mean] * runs}


BASELINE = {"gnp": False}


@pytest.mark.parametrize(
    ("mine", "paper", "options", "word"),
    [
        pytest.param(None, (1.0, 0.1), {}, "not run", id="not run"),
        pytest.param(None, None, {}, "not run", id="neither run nor published"),
        pytest.param(ours(None, None), None, {}, "failed", id="every run failed, and nothing to compare with"),
        pytest.param(ours(None, None), (1.0, 0.1), {}, "worse", id="every run failed"),
        pytest.param(ours(None, None), (1.0, 0.1), BASELINE, "different outcome", id="every run of a baseline failed"),
        pytest.param(ours(None, None), (90.0, 0.1), BASELINE, "both fail", id="every run failed, and the paper's"),
        pytest.param(ours(None, None), (0.7, 0.1), {"metric": "ACCURACY", "higher": True}, "worse", id="no accuracy"),
        pytest.param(ours(1.0), None, {}, "", id="not published"),
        pytest.param(ours(1.0), (None, None), {}, "", id="published as missing"),
        pytest.param(ours(80.0), (100.0, 1.0), {}, "both fail", id="both above 20 %"),
        pytest.param(ours(1.05), (1.0, 0.0), {}, "matched", id="half a printed digit"),
        pytest.param(ours(1.06), (1.0, 0.0), {}, "worse", id="more than half a printed digit"),
        pytest.param(ours(2.75, 0.6), (1.1, 0.8), {}, "matched", id="within two of the paper's deviation"),
        pytest.param(ours(2.75, 0.8), (1.1, 0.6), {}, "matched", id="within two of our deviation"),
        pytest.param(ours(2.76, 0.8), (1.1, 0.6), {}, "worse", id="beyond the larger deviation"),
        pytest.param(ours(0.3, 0.1), (1.5, 0.1), {}, "better", id="better"),
        pytest.param(ours(1.0, None), (1.3, None), {}, "better", id="no deviations"),
        pytest.param(ours(358.0, 415.0), (1.2, 0.3), {}, "worse", id="failure is not excused by its deviation"),
        pytest.param(ours(2.0, 0.1), (60.0, 99.0), {}, "better", id="success is not hidden by the deviation"),
        pytest.param(ours(358.0, 415.0), (1.2, 0.3), BASELINE, "different outcome", id="a baseline fails here"),
        pytest.param(ours(2.0, 0.1), (60.0, 99.0), BASELINE, "different outcome", id="a baseline fails there"),
        pytest.param(ours(20.02), (20.0, 5.0), BASELINE, "matched", id="equal at the limit"),
        pytest.param(ours(0.3325), (0.332, 0.0), {"metric": "MAE"}, "matched", id="MAE"),
        pytest.param(ours(0.334), (0.332, 0.0), {"metric": "MAE"}, "worse", id="MAE, worse"),
        pytest.param(ours(30.0), (40.0, 0.0), {"metric": "MAE", "gnp": False}, "better", id="MAE has no failure"),
        pytest.param(ours(0.8), (0.75, 0.01), {"metric": "ACCURACY", "higher": True}, "better", id="accuracy"),
        pytest.param(ours(1200.0), (1222.5, 0.4), {"metric": "INFLUENCE", "higher": True}, "worse", id="influence"),
    ],
)
def test_verdict(
    mine: dict[str, Any] | None,
    paper: tuple[float | None, float | None] | None,
    options: dict[str, Any],
    word: str,
) -> None:
    published = None if paper is None else {"mean": paper[0], "std": paper[1]}
    assert verdict(mine, published, **options) == word


def test_gnp_in_any_form_is_no_baseline() -> None:
    rows = {
        row: {has_gnp(cell.recipe) for cell in TABLES[table].cells if cell.row == row or cell.column == row}
        for table, row in [
            ("exp_graph_harmonic", "GNP"),
            ("exp_graph_harmonic", "SortPool"),
            ("set", "basic/GNP"),
            ("set", "deep/set2set"),
            ("ablation_a", "GNP_plus_only"),
            ("node_b", "bfs/GNP"),
            ("node_b", "shortest/min"),
        ]
    }
    gnp = {row for row, found in rows.items() if found == {True}}
    assert gnp == {"GNP", "basic/GNP", "GNP_plus_only", "bfs/GNP"}
    assert all(len(found) == 1 for found in rows.values())


def test_summary_leaves_failed_runs_out() -> None:
    runs = [{"mean": 1.0, "median": 0.5}, {"mean": None, "median": None}, {"mean": 4.0, "median": 1.5}]
    found = summary(runs)
    assert found["mean"] == 2.5
    assert found["std"] == pytest.approx(2.1213203435596424)
    assert found["runs"] == [1.0, None, 4.0]
    assert found["failed"] == 1
    assert found["median"] == 1.0


def test_summary_of_nothing() -> None:
    found = summary([{"mean": None, "median": None}])
    assert (found["mean"], found["std"], found["runs"], found["failed"]) == (None, None, [None], 1)


@pytest.mark.parametrize(("loss", "told"), [(0.25, 0.25), (math.inf, None)])
def test_validation_loss_is_told_also_of_runs_that_diverged(tmp_path: Path, loss: float, told: float | None) -> None:
    store, preset, cell = Store(tmp_path), PRESETS["smoke"], TABLES["ablation_b"].cells[0]
    key = cell.recipe.key(preset, "all")
    runs = [{"seed": 0, "mean": 1.0, "median": 1.0}]
    chosen = {criterion: {"setting": {}, "validation": loss} for criterion in CRITERIA}
    store.put(key, scores={"chosen": chosen}, meta={"seconds": 1.0})
    exam = cell.exam.key(key, preset, cell.recipe.spec)
    store.put(exam, scores={"loss": runs, "metric": runs}, meta={"seconds": 1.0})
    found = table_results(TABLES["ablation_b"], store, preset)
    assert found["cells"][0]["validation"] == told
    json.dumps(found, allow_nan=False)  # as results.json is written
