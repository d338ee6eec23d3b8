"""The baselines compute what they claim, and the command is honest about the machine."""

import csv
import subprocess
import sys

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import timing
from benchmarks.cases import CASES, composed
from gnpool import norm_pool


def test_the_composed_operator_is_the_operator():
    x, index = torch.rand(50, 3, dtype=torch.float64), torch.randint(0, 7, (50,))
    p, q = torch.tensor(1.7, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)
    torch.testing.assert_close(composed(x, index, 9, p, q), norm_pool(x, index, p=p, q=q, dim_size=9))


def test_promises_name_contenders_that_exist():
    small = {name: CASES[name].make() for name in ("small", "small step")}
    for name, contenders in small.items():
        for promise in CASES[name].promises:
            assert {promise.numerator, promise.denominator} <= contenders.keys()


def test_time_in_turn_summarises_each_contender():
    calls = []
    timings = timing.time_in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=5)
    assert {t.samples for t in timings.values()} == {5}
    assert all(0 < t.low <= t.median <= t.high for t in timings.values())
    assert calls.count("a") > 5


def test_a_busy_machine_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--no-tests", "small"])
    monkeypatch.setattr(command, "busy_share", lambda: 0.5)
    assert command.main() == 1
    assert "The machine is busy: 50% of its cores are in use by others" in capsys.readouterr().err


def test_red_tests_give_no_figures(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "small"])
    monkeypatch.setattr(command, "tests_pass", lambda: False)
    assert command.main() == 1
    assert "no figures for wrong results" in capsys.readouterr().err


def test_rows_are_stored_with_versions_and_hardware(monkeypatch, tmp_path, capsys):
    path = tmp_path / "rows.csv"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--no-tests", "--csv", str(path), "small"])
    monkeypatch.setattr(command, "busy_share", lambda: 0.0)
    monkeypatch.setattr(timing, "LEAST_SECONDS", 1e-4)
    assert command.main() == 0
    assert "gnpool / PyG sum" in capsys.readouterr().out
    rows = list(csv.DictReader(path.open()))
    assert [row["contender"] for row in rows] == ["gnpool", "PyG sum"]
    assert all(float(row["p20_ms"]) <= float(row["median_ms"]) <= float(row["p80_ms"]) for row in rows)
    assert all("torch" in row["versions"] and "cores" in row["hardware"] for row in rows)


def test_an_unknown_case_is_bad_usage():
    run = subprocess.run([sys.executable, "-m", "benchmarks", "nope"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "no case is called 'nope'" in run.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/stat")
def test_the_share_of_a_machine_is_a_share():
    assert 0.0 <= timing.busy_share(0.05) <= 1.0
