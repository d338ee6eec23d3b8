from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from examples import demo
from gnpool.lab import PRESETS, find_table
from gnpool.store import Store

DEMO = Path(demo.__file__)
TASKS = ("invsize", "harmonic", "maxdegree")
NUMBER = r"[\d,]+\.\d"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def result(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, DEMO, "--preset", "smoke", "--out", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_exits_with_0(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("model", ["GNP", r"GNP\*", "sum,sum", "sum,mean", "sum,max", "sum,min"])
def test_prints_every_model_on_every_task(result: subprocess.CompletedProcess[str], model: str) -> None:
    cell = r"[\d,.]+ ± [\d,.]+"
    assert re.search(rf"^│ {model} +│ ours +│ +{cell} │ +{cell} │ +{cell} │$", result.stdout, re.MULTILINE)


def test_says_what_was_reduced(result: subprocess.CompletedProcess[str]) -> None:
    assert f"Reduced. {PRESETS['smoke'].notes}" in result.stdout


@pytest.mark.parametrize("task", TASKS)
def test_prints_what_each_branch_learned(result: subprocess.CompletedProcess[str], task: str) -> None:
    part = result.stdout.split(f"\n{task}: GNP ")[1].split("exact: ")[0]
    for layer in ("aggregation", "readout"):
        for branch, sign in (("positive", ""), ("negative", "-")):
            row = rf"^  {layer} +{branch} +{sign}\d+\.\d\d +-?\d+\.\d\d +{NUMBER} %   \w+"
            assert re.search(row, part, re.MULTILINE), part


@pytest.mark.parametrize("task", TASKS)
def test_prints_what_it_was_crystallized_to(result: subprocess.CompletedProcess[str], task: str) -> None:
    part = result.stdout.split(f"\n{task}: GNP ")[1].split("exact: ")[0]
    line = r"^  crystallized \(GNP\*\): aggr: [\w ]+, readout: [\w ,:;]+: [\d.]+ %$"
    assert re.search(line, part, re.MULTILINE), part


def test_progress_goes_to_stderr_one_line_a_training(result: subprocess.CompletedProcess[str]) -> None:
    assert len(re.findall(r"^\[\d+ of 36\] \w+: .*: trained", result.stderr, re.MULTILINE)) == 18  # 3 of them GNP*
    assert "\r" not in result.stderr  # the live display is for terminals only


def test_again_from_the_folder(
    result: subprocess.CompletedProcess[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.main(["--preset", "smoke", "--out", str(folder)])
    captured = capsys.readouterr()
    assert captured.out == result.stdout
    assert captured.err == ""  # nothing was left to do


@pytest.mark.usefixtures("result")
def test_a_branch_that_is_switched_off_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = find_table("demo").cells[0].recipe
    store, preset = Store(folder), PRESETS["smoke"]
    before = demo.describe(recipe, preset, store)
    assert len(before) == 4
    monkeypatch.setattr(demo, "HARDLY", 1e9)
    assert all(line.endswith("hardly used") for line in demo.describe(recipe, preset, store))


@pytest.mark.parametrize(
    ("errors", "line"),
    [
        (
            {"GNP": 2.0, "GNP*": 0.0, "sum,sum": 80.0, "sum,max": 70.0},
            "beats the fixed poolings, 2.0 % against 70.0 % of sum,max.",
        ),
        (
            {"GNP": 9.0, "sum,sum": 8.0, "sum,max": None},
            "does not beat the fixed poolings, 9.0 % against 8.0 % of sum,sum.",
        ),
    ],
)
def test_summary_follows_the_numbers(errors: dict[str, float | None], line: str) -> None:
    cells: list[dict[str, Any]] = [
        {"row": row, "column": "harmonic", "ours": {"mean": error}} for row, error in errors.items()
    ]
    assert demo.summarize({"cells": cells}, "harmonic") == f"harmonic: GNP {line}"


def test_summary_names_the_exact_pooling() -> None:
    cells = [{"row": row, "column": "maxdegree", "ours": {"mean": 1.0 * (row == "GNP")}} for row in ("GNP", "sum,max")]
    assert demo.summarize({"cells": cells}, "maxdegree").endswith("of sum,max, which is exact here.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "huge"), "argument --preset: invalid choice: 'huge'"),
        (("--nodes", "5"), "unrecognized arguments: --nodes 5"),
    ],
)
def test_bad_arguments_exit_with_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        demo.main(arguments)
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("p", "q", "reading"),
    [
        (1.05, -0.1, "near the sum (p = 1, q = 0)"),
        (1.1, 0.95, "near the mean (p = 1, q = 1)"),
        (20.0, 0.0, "near the max (p = inf, q = 0)"),
        (-50.0, 0.1, "near the min (p = -inf, q = 0)"),
        (-1.08, 0.1, "near the harmonic sum (p = -1, q = 0)"),
        (-1.5, 0.1, "between the names, nearest is the harmonic sum (p = -1, q = 0)"),
    ],
)
def test_reading_names_the_nearest_pooling(p: float, q: float, reading: str) -> None:
    assert demo.nearest_name(p, q) == reading
    assert demo.in_words("harmonic", "readout", p, q) == reading


def test_equal_elements_leave_a_power_of_their_number() -> None:
    assert demo.in_words("harmonic", "aggregation", 1.25, -0.2) == "gives degree^1.00 (the sum: degree^1)"
    assert demo.in_words("invsize", "readout", -1.25, 0.2) == "gives size^-1.00 (the harmonic sum: size^-1)"


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_interrupt_exits_with_130_and_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, DEMO, "--out", tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
    )
    begin = time.monotonic()
    while not list(tmp_path.glob("checkpoints/*")):
        assert time.monotonic() - begin < 120
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.strip() == "stopped"
