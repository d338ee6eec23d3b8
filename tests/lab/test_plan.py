"""A dry run writes nothing, and refuses what cannot fit; the error names the setting that would fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gnpool.cli import app
from gnpool.lab import PRESETS, TABLES, Scope, reproduce
from gnpool.lab import plan as planned
from gnpool.lab.plan import memory_problem, needed_megabytes, plan
from gnpool.lab.recipes.cost import MEASURED, training_megabytes
from gnpool.lab.table import PROGRAM
from tests.lab.shared import SMALL

PAPER, CPU = PRESETS["paper"], torch.device("cpu")


def dry(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["reproduce", *arguments, "--dry-run", "--device", "cpu"])
    return done.exit_code, done.stdout, done.stderr


def test_memory_of_a_training() -> None:
    recipe = TABLES[SMALL].recipes[0]  # 24 settings, 5 seeds, 5,000 graphs
    run = MEASURED["graph gnp"][3]
    assert training_megabytes(recipe, PAPER) == pytest.approx(PROGRAM + 5000 * 0.03 + 120 * run)
    assert training_megabytes(recipe, PRESETS["smoke"]) == pytest.approx(PROGRAM + 32 * 0.03 + 2 * run)
    one, two = (needed_megabytes(TABLES[SMALL].megabytes(Scope("paper")), jobs) for jobs in (1, 2))
    assert two == pytest.approx(2 * one)
    four = needed_megabytes(TABLES[SMALL].megabytes(Scope("paper")), 4)
    assert (
        needed_megabytes(TABLES[SMALL].megabytes(Scope("paper")), 9) == four == pytest.approx(2 * two)
    )  # two models, in both forms
    assert (
        needed_megabytes(TABLES[SMALL].megabytes(Scope("paper")), 9, processes=False) == four - 3 * PROGRAM
    )  # threads share the program


def test_every_network_has_its_size() -> None:
    assert all(training_megabytes(recipe, PAPER) > PROGRAM for table in TABLES.values() for recipe in table.recipes)


def test_the_largest_that_fits_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    demo = TABLES["demo"].megabytes(Scope("paper"))
    room = needed_megabytes(demo, 3) + 1
    monkeypatch.setattr(planned, "machine_megabytes", lambda: room)
    assert memory_problem(demo, CPU, 3) is None
    problem = memory_problem(demo, CPU, 8)
    assert problem is not None
    assert re.fullmatch(r"'jobs': 8 side by side need about .* GB of memory, .*; use --jobs 3", problem)
    assert memory_problem(demo, torch.device("cuda"), 8) is None
    with pytest.raises(ValueError, match="use --jobs 3"):
        reproduce(["demo"], tmp_path / "new", preset="paper", jobs=8, device="cpu", processes=True)
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr(planned, "machine_megabytes", lambda: 300.0)
    problem = memory_problem(demo, CPU, 2)
    assert problem is not None
    assert problem.endswith("use --preset quick, or --engine ray with larger machines")


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    code, out, errors = dry(SMALL, "--preset", "smoke", "--jobs", "2", "--out", str(tmp_path / "new"))
    assert (code, errors) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "smoke preset on cpu, 2 trainings side by side"
    assert any(SMALL in line for line in lines)
    assert lines[-1] == f"Nothing was written; results would go to {tmp_path / 'new'}."
    assert list(tmp_path.iterdir()) == []


def test_dry_run_as_json(tmp_path: Path) -> None:
    code, out, _ = dry(SMALL, "demo", "--json", "--jobs", "1", "--out", str(tmp_path / "new"))
    found = json.loads(out)
    assert code == 0
    assert found["tables"][SMALL]["trainings"] == 2
    assert found["minutes_left"] <= sum(table["minutes_left"] for table in found["tables"].values()) + 1e-9
    assert found["problem"] is None


def test_what_is_done_is_taken_off(tmp_path: Path) -> None:
    before = plan([SMALL], tmp_path, preset="smoke", device="cpu", jobs=1)
    reproduce([SMALL], tmp_path, preset="smoke", device="cpu", jobs=1)
    after = plan([SMALL], tmp_path, preset="smoke", device="cpu", jobs=1)
    assert before.minutes_left > after.minutes_left == 0


def test_only_what_the_run_would_do_is_counted(tmp_path: Path) -> None:
    def told(**options: bool) -> tuple[int, int, bool]:
        found = plan([SMALL], tmp_path, preset="smoke", device="cpu", jobs=1, **options)
        table = found.tables[SMALL]
        return table.trainings - table.done, table.exams, found.minutes_left > 0

    whole = told()[1]
    assert told() == (2, whole, True)
    assert told(test=False) == (2, 0, True)
    assert told(train=False) == (0, 0, False)  # nothing is trained yet that could be tested
    reproduce([SMALL], tmp_path, preset="smoke", device="cpu", jobs=1, test=False)
    assert told(test=False) == (0, 0, False)
    assert told(train=False) == (0, whole, True)
    reproduce([SMALL], tmp_path, preset="smoke", device="cpu", jobs=1, train=False)
    assert told(train=False) == (0, whole, False)


def test_dry_run_of_what_does_not_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planned, "machine_megabytes", lambda: 2000.0)
    code, out, errors = dry("demo", "--preset", "paper", "--jobs", "9", "--out", str(tmp_path / "new"))
    assert code == 2
    assert "GB of the 2.0 GB here." in out
    assert errors.startswith("Error: 'jobs': 9 side by side need about")


def runs(name: str, *options: str) -> tuple[int, int]:
    """The trainings and runs that a dry run tells of a table."""
    code, out, _ = dry(name, "--preset", "paper", "--json", *options)
    assert code == 0
    found = json.loads(out)["tables"][name]
    return found["trainings"], found["runs"]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        (SMALL, (), (4, 4 * 24 * 5)),  # two models, each in both forms
        (SMALL, ("--search", "point"), (4, 4 * (24 + 2 * 5))),  # the best by loss and by metric, each with all seeds
        ("graphcl_a", (), (6, 6 * 20 * 10)),
        ("graphcl_a", ("--seeds", "3", "--folds", "2"), (6, 6 * 3 * 2)),
        ("graphcl_a", ("--dataset", "NCI1"), (2, 2 * 20 * 10)),
        ("im_monstor", (), (27, 27)),
        ("im_monstor", ("--seeds", "1"), (9, 9)),
        ("im_monstor", ("--no-training",), (0, 0)),
        (SMALL, ("--no-training",), (0, 0)),
    ],
)
def test_dry_run_counts_what_the_options_leave(
    tmp_path: Path, name: str, options: tuple[str, ...], expected: tuple[int, int]
) -> None:
    assert runs(name, "--out", str(tmp_path / "new"), *options) == expected


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (SMALL, ("--seeds", "2"), "--seeds and --folds are for tables that are cross-validated"),
        ("im_monstor", ("--folds", "2"), "--seeds and --folds are for tables that are cross-validated"),
        ("graphcl_a", ("--data-seed", "1"), "--data-seed is for tables on generated data"),
        (SMALL, ("--no-training", "--no-tests"), "there is nothing to do"),
    ],
)
def test_dry_run_refuses_what_the_run_would(tmp_path: Path, name: str, options: tuple[str, ...], message: str) -> None:
    for words in (("--dry-run",), ()):
        done = CliRunner().invoke(app, ["reproduce", name, "--out", str(tmp_path / "new"), *options, *words])
        assert done.exit_code == 2
        assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
