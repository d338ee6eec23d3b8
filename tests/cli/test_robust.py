"""If something goes wrong, a command prints one line with the right status; no output runs in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gnpool.cli import app, errors
from gnpool.cli.inputs import progress, stored_in
from gnpool.fit.predict import as_csv

NAMES = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "'quoted'", "plain", "a=b", "-5", "+1e3", "1-2", "-", "", "- 1"]


def test_names_are_no_formulas_and_come_back() -> None:
    text = as_csv(["graph", "=head"], [(name, -1.5) for name in NAMES])
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    cells = [row[0] for row in rows]
    assert head == ["graph", "'=head"]
    assert all(cell[:1] not in "=+-@\t\r\n" or cell in ("", "-5", "+1e3") for cell in cells)
    assert [cell.removeprefix("'") for cell in cells] == NAMES
    assert {row[1] for row in rows} == {"-1.5"}


def test_files_of_influence_that_ask_for_too_much(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("1000000000 1\n0 1 0.5\n")
    (tmp_path / "s.txt").write_text("0\n")
    found = CliRunner().invoke(
        app, ["influence", "simulate", str(tmp_path / "g.txt"), "--seeds", str(tmp_path / "s.txt")]
    )
    assert found.exit_code == 2
    assert found.stderr.startswith(f"Error: {tmp_path}/g.txt: a graph of 1,000,000,000 nodes would need 64.0 GB")
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "allowed", "message"),
    [
        ("RLIMIT_NOFILE", 40, "Error: only 40 files may be open at once here (ulimit -n); gnpool needs 64\n"),
        ("RLIMIT_AS", 2**30, "Error: only 1024 MiB of address space may be used here (ulimit -v); gnpool needs 1280\n"),
        ("RLIMIT_AS", 2**31, None),
        ("RLIMIT_NOFILE", 64, None),
    ],
)
def test_little_of_everything(
    kind: str, allowed: int, message: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {getattr(resource, kind): (allowed, allowed)}
    free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda one: limits.get(one, free))
    if message is None:
        errors.check_resources()
        return
    with pytest.raises(SystemExit) as leaving:
        errors.check_resources()
    assert leaving.value.code == 1
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("error", "meant", "text"),
    [
        (MemoryError(), True, "there is not enough memory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory:\nyou tried"),
            True,
            "there is not eno",
        ),
        (RuntimeError("can't start new thread"), True, "there is not enough memory (can't start new thread)"),
        (RuntimeError("a bug"), False, "a bug"),
    ],
)
def test_memory_that_has_run_out(error: Exception, meant: bool, text: str) -> None:
    assert errors.is_told(error) == meant
    assert errors.describe(error).startswith(text)
    assert "\n" not in errors.describe(error)


def test_warnings_of_libraries_are_not_for_users(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GNPOOL_TRACEBACK", raising=False)
    errors.show_warning("theirs", FutureWarning, "/site-packages/torch/x.py", 1)
    assert capsys.readouterr().err == ""
    errors.show_warning("ours,\nin two lines", RuntimeWarning, errors.__file__, 1)
    assert capsys.readouterr().err == "Warning: ours, in two lines\n"
    monkeypatch.setenv("GNPOOL_TRACEBACK", "1")
    errors.show_warning("theirs", FutureWarning, "/site-packages/torch/x.py", 1)
    assert "FutureWarning: theirs" in capsys.readouterr().err


def test_an_interruption_leaves_without_taking_torch_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []

    def exit_(status: int) -> None:
        left.append(status)
        raise SystemExit(status)

    def interrupted(**_: Any) -> None:
        raise SystemExit(errors.INTERRUPTED)

    module = sys.modules["gnpool.cli.app"]
    monkeypatch.setattr(module, "app", interrupted)
    monkeypatch.setattr(errors.atexit, "_run_exitfuncs", lambda: left.append("registered"))
    monkeypatch.setattr(os, "_exit", exit_)
    before = warnings.showwarning
    with pytest.raises(SystemExit):
        module.main()
    warnings.showwarning = before
    assert left == ["registered", errors.INTERRUPTED]


@pytest.mark.parametrize("step", ["read_study", "page"])
def test_a_damaged_result_is_one_line(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(_: Any) -> None:
        raise KeyError("models")

    (tmp_path / "fit.json").write_text(json.dumps({"schema": 1, "answer": {"text": "x"}, "models": []}))
    monkeypatch.setattr(f"gnpool.report.{step}", stumble)
    found = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert found.exit_code == 2, found.output
    assert found.stderr.startswith(f"Error: {tmp_path}: ")
    assert "KeyError: 'models'" in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["fit.json"]


def test_other_errors_are_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), stored_in(tmp_path):
        _ = 1 / 0


def test_a_line_of_progress_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gnpool.cli.inputs.SECONDS", -1.0)
    with progress() as show:
        show("training", 0.25)
        show("done", 1.0)
    assert capsys.readouterr().err == " 25 %  training\n100 %  done\n"
