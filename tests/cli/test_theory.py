from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gnpool.theory
from gnpool.cli import app
from gnpool.theory import Check
from tests.theory.small import small_study


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gnpool.theory, "run_study", lambda **_: small_study())


@pytest.mark.usefixtures("_small")
def test_tables() -> None:
    done = CliRunner().invoke(app, ["theory"])
    assert done.exit_code == 0
    for text in ("linear head:", "MLP head:", "ER 200-299", "GNP (-1, 0)", "growing width", "harmonic sum", "holds"):
        assert text in done.stdout
    assert f"{len(small_study().checks)} checks: all hold." in done.stdout


@pytest.mark.usefixtures("_small")
def test_json() -> None:
    done = CliRunner().invoke(app, ["theory", "--json"])
    assert done.exit_code == 0
    expected = json.loads(json.dumps(small_study().to_dict()))
    assert json.loads(done.stdout) == {**expected, "pictures": []}


@pytest.mark.usefixtures("_small")
def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures are an extra")
    done = CliRunner().invoke(app, ["theory", "--json", "--out", str(tmp_path / "figures")])
    assert done.exit_code == 0
    paths = [Path(path) for path in json.loads(done.stdout)["pictures"]]
    assert len(paths) == 3
    assert all(path.is_file() and path.parent == tmp_path / "figures" for path in paths)


def test_failed_check_is_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = dataclasses.replace(small_study(), checks=[Check("one is zero", 1.0, 0.0)])
    monkeypatch.setattr(gnpool.theory, "run_study", lambda **_: failing)
    done = CliRunner().invoke(app, ["theory"])
    assert done.exit_code == 1
    assert "1 checks: 1 FAIL." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--graphs", "0"], "Invalid value for '--graphs'"),
        (["--width", "0"], "Invalid value for '--width'"),
        (["--graphs", "many"], "Invalid value for '--graphs'"),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["theory", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr


def test_options_reach_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    monkeypatch.setattr(gnpool.theory, "run_study", lambda **options: seen.update(options) or small_study())
    assert CliRunner().invoke(app, ["theory", "--graphs", "7", "--width", "2", "--width", "4"]).exit_code == 0
    del seen["progress"]
    assert seen == {"graphs": 7, "widths": [2, 4], "seed": 0}


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures are an extra")
    (tmp_path / "taken").write_text("")
    done = CliRunner().invoke(app, ["theory", "--out", str(tmp_path / "taken")])
    assert done.exit_code == 2
    assert done.stderr == f"Error: {tmp_path / 'taken'}: File exists\n"


@pytest.mark.slow
def test_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gnpool", "theory", "--json", "--graphs", "18", "--width", "4"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0
    assert done.stderr == ""  # no progress where nobody watches
    assert all(check["holds"] for check in json.loads(done.stdout)["checks"])
