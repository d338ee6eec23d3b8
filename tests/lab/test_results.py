from __future__ import annotations

from typing import Any

import pytest

from gnpool.lab import verdict
from gnpool.lab.results import summary


def ours(mean: float | None, std: float | None = 0.0, runs: int = 5) -> dict[str, Any]:
    return {"mean": mean, "std": std, "runs": [mean] * runs}


@pytest.mark.parametrize(
    ("mine", "paper", "percent", "word"),
    [
        pytest.param(None, (1.0, 0.1), True, "not run", id="not run"),
        pytest.param(ours(None, None), (1.0, 0.1), True, "failed", id="every run failed"),
        pytest.param(ours(1.0), None, True, "", id="not published"),
        pytest.param(ours(1.0), (None, None), True, "", id="published as missing"),
        pytest.param(ours(80.0), (100.0, 1.0), True, "both fail", id="both above 20 %"),
        pytest.param(ours(1.09), (1.0, 0.0), True, "agrees", id="within a tenth"),
        pytest.param(ours(0.1), (0.0, 0.0), True, "agrees", id="last digit"),
        pytest.param(ours(0.5), (0.0, 0.0), True, "worse", id="beyond the last digit"),
        pytest.param(ours(1.8, 0.6), (1.1, 0.8), True, "agrees", id="within deviations"),
        pytest.param(ours(2.5, 0.6), (1.1, 0.8), True, "worse", id="beyond deviations"),
        pytest.param(ours(0.3, 0.1), (1.5, 0.1), True, "better", id="better"),
        pytest.param(ours(358.0, 415.0), (1.2, 0.3), True, "worse", id="failure is not excused by its deviation"),
        pytest.param(ours(2.0, 0.1), (60.0, 99.0), True, "better", id="success is not hidden by the deviation"),
        pytest.param(ours(0.33, 0.0), (0.332, 0.0), False, "agrees", id="MAE"),
        pytest.param(ours(30.0, 0.0), (40.0, 0.0), False, "better", id="MAE has no failure"),
    ],
)
def test_verdict(
    mine: dict[str, Any] | None, paper: tuple[float | None, float | None] | None, percent: bool, word: str
) -> None:
    published = None if paper is None else {"mean": paper[0], "std": paper[1]}
    assert verdict(mine, published, percent=percent) == word


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
