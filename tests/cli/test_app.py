from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import gnpool
from gnpool.cli import app
from gnpool.cli.errors import describe, in_options, reporting
from gnpool.store import StoreError

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]
PACKAGE = Path(gnpool.__file__).parent


def gnpool_program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gnpool", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_speaks_json(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"])
    assert done.exit_code == 0
    assert f"gnpool {command}" in done.output.split("Example")[1]
    assert "--json" in done.output


def test_program_lists_its_commands() -> None:
    done = gnpool_program("--help")
    assert done.returncode == 0
    assert all(f"  {command} " in done.stdout for command in COMMANDS)
    assert gnpool_program("--version").stdout == f"gnpool {gnpool.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command 'nope'"),
        (["theory", "--nope"], "--nope"),
        (["--nope"], "--nope"),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_the_command_line_alone_does_not_import_torch() -> None:
    # A bare package stands in for gnpool, so that only what the command line imports itself is seen.
    code = (
        "import sys, types; package = types.ModuleType('gnpool'); "
        f"package.__path__ = [{str(PACKAGE)!r}]; sys.modules['gnpool'] = package; "
        "import gnpool.cli; print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def stored_at(cause: OSError) -> StoreError:
    error = StoreError(Path("results"), "it was not written")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "line", "status"),
    [
        (ValueError("'count' must be positive, got 0"), "'count' must be positive, got 0", 2),
        (FileNotFoundError(2, "No such file or directory", "a.csv"), "a.csv: No such file or directory", 2),
        (OSError(28, "No space left on device"), "No space left on device", 1),
        (OSError("odd"), "odd", 1),
        (ImportError("figures need matplotlib"), "figures need matplotlib", 1),
        (ValueError(), "ValueError", 2),
        (stored_at(OSError(28, "No space left on device")), "'results': it was not written", 1),
        (stored_at(NotADirectoryError(20, "Not a directory")), "'results': it was not written", 2),
    ],
)
def test_an_error_is_one_line_and_a_status(
    error: Exception, line: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert describe(error) == line
    with pytest.raises(typer.Exit) as leave, reporting():
        raise error
    assert leave.value.exit_code == status
    assert capsys.readouterr() == ("", f"Error: {line}\n")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("'data_seed' must be one of 0, 1, got 7", "--data-seed must be one of 0, 1, got 7"),
        ("read_graphs: 'out' must not be 'size'", "--out must not be 'size'"),
        ("'seeds' and 'data_seed' exclude each other", "'seeds' and 'data_seed' exclude each other"),
        ("the column 'out' is missing", "the column 'out' is missing"),
    ],
)
def test_messages_name_options(message: str, shown: str) -> None:
    assert in_options(message, {"data_seed": "--data-seed", "out": "--out"}) == shown


def test_help_has_no_sentence_that_is_cut() -> None:
    for arguments in ([], ["influence"], ["store"]):
        shown = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "80"}).stdout
        commands = shown.split("Commands:\n")[1].split("\n\n")[0].splitlines()
        assert commands
        assert all(line.endswith(".") and not line.endswith("...") for line in commands)


def test_one_word_for_the_same_option() -> None:
    """An option of one name has one help text and one short form in the commands for users' own data."""
    from typer.main import get_command

    commands = get_command(app).commands
    seen: dict[str, set[Any]] = {}
    for name in ("fit", "predict", "export", "read", "report"):
        for option in commands[name].params:
            for text in option.opts:
                seen.setdefault(text, set()).add((option.name, tuple(option.opts)))
    assert {text for text, found in seen.items() if len(found) > 1} == set()
    assert {("out", ("--out", "-o"))} == seen["--out"] == seen["-o"]


def test_traceback_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNPOOL_TRACEBACK", "1")
    with pytest.raises(typer.Exit) as leave, reporting():
        raise ValueError("no")
    assert leave.value.exit_code == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(AttributeError, match="bug"), reporting():
        raise AttributeError("bug")


def test_interruption_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as leave, reporting():
        raise KeyboardInterrupt
    assert leave.value.exit_code == 130
    assert capsys.readouterr() == ("", "Interrupted.\n")


# The program with one more command, written to a file and run: what happens between it and the shell.
PROGRAM = """
import time, typer
from gnpool.cli import app, main
@app.command()
def wait():
    typer.echo("ready")
    import sys; sys.stdout.flush()
    time.sleep(60)
@app.command()
def talk(lines: int):
    for _ in range(lines):
        typer.echo("x" * 100)
main()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_ctrl_c(program: Path) -> None:
    with subprocess.Popen(
        [sys.executable, program, "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "Interrupted.\n"


@pytest.mark.parametrize("lines", [1, 100_000], ids=["buffered", "long"])
def test_closed_pipe_is_silent(program: Path, lines: int) -> None:
    with subprocess.Popen(
        [sys.executable, program, "talk", str(lines)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == ""
    assert process.returncode == 1
