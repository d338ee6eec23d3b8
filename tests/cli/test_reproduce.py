from __future__ import annotations

import json
import typing
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from gnpool.cli import app
from gnpool.cli.reproduce import PresetName, choose, default_folder
from gnpool.lab import PRESETS, TABLES, Event
from gnpool.report import number
from gnpool.store import store as store_module
from tests.lab.shared import SMALL, read, smoke_folder, smoke_results, timeless


def invoke(*arguments: str, out: Path | None = None) -> Result:
    folder = smoke_folder() if out is None else out
    return CliRunner().invoke(app, ["reproduce", *arguments, "--preset", "smoke", "--out", str(folder), "--jobs", "1"])


@pytest.fixture
def _keep_results() -> typing.Iterator[None]:
    """The shared results.json keeps the results of all tables."""
    path = smoke_folder() / "results.json"
    content = path.read_bytes()
    yield
    path.write_bytes(content)


@pytest.mark.usefixtures("_keep_results")
def test_prints_ours_beside_the_paper() -> None:
    done = invoke(SMALL)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""  # nothing was left to do
    lines = done.stdout.splitlines()
    assert lines[0] == f"{SMALL}: {TABLES[SMALL].title} (MAPE); rows: test graph type"
    assert all(len(line) <= 120 for line in lines)
    row = next(line for line in lines if "Tree" in line)
    cell = next(c for c in smoke_results()[SMALL]["cells"] if c["row"] == "Tree" and c["column"] == "GNP")
    assert f"{number(cell['ours']['mean'], 2)} ± {number(cell['ours']['std'], 2)}" in row
    assert "14.7 ± 6.3" in next(line for line in lines if "paper" in line and "14.7" in line)
    assert "6 published cells: " in done.stdout
    assert "smoke preset, 2 seeds, cpu: " in done.stdout
    assert f"Reduced. {PRESETS['smoke'].notes}" in done.stdout
    assert lines[-1] == f"wrote {smoke_folder() / 'results.json'}"


@pytest.mark.usefixtures("_keep_results")
def test_json_is_what_the_file_holds() -> None:
    done = invoke(SMALL, "ablation_a", "--json")
    assert done.exit_code == 0
    results = json.loads(done.stdout)
    assert results == read(smoke_folder())
    assert [table["table"] for table in results["tables"]] == [SMALL, "ablation_a"]


@pytest.mark.usefixtures("_keep_results")
@pytest.mark.parametrize("figure", ["fig_size", "fig_pq"])
def test_figures_are_drawn(figure: str) -> None:
    pytest.importorskip("matplotlib", reason="figures are an extra")
    done = invoke(figure)
    assert done.exit_code == 0, done.stderr
    path = smoke_folder() / f"{figure}.png"
    assert done.stdout.splitlines()[-1] == f"wrote {path}"
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    path.unlink()


def test_progress_goes_to_stderr(tmp_path: Path) -> None:
    done = invoke(SMALL, out=tmp_path)
    assert done.exit_code == 0
    first, second = done.stderr.splitlines()
    assert first.startswith("[1 of 8] harmonic: gnp: trained, lowest validation error ")
    assert second.startswith("[5 of 8] harmonic: gnp+: trained, lowest validation error ")
    assert timeless(read(tmp_path)["tables"][0]) == timeless(smoke_results()[SMALL])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("graph_dif", "there is no table 'graph_dif'; did you mean 'graph_diff'?"),
        ("al", "there is no table 'al'; did you mean 'all'?"),
        ("xyz", "there is no table 'xyz'; 'gnpool tables' lists them."),
    ],
)
def test_unknown_table(name: str, hint: str, tmp_path: Path) -> None:
    done = invoke(name, out=tmp_path / "new")
    assert done.exit_code == 2
    assert hint in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--preset", "huge"), ("--device", "tpu"), ("--search", "best"), ("--engine", "x")]
)
def test_bad_choice(option: str, value: str) -> None:
    done = CliRunner().invoke(app, ["reproduce", SMALL, option, value])
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", SMALL, "--device", "cuda", "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert done.stderr == "Error: --device is cuda, but torch finds no GPU here; use --device cpu\n"


def test_training_and_tests_apart_give_the_same(tmp_path: Path) -> None:
    first = invoke(SMALL, "--no-tests", out=tmp_path)
    assert first.exit_code == 0, first.stderr
    assert "6 published cells: 6 not run" in first.stdout
    assert first.stdout.splitlines()[-1].startswith("Models were only trained.")
    second = invoke(SMALL, "--no-training", out=tmp_path)
    assert second.exit_code == 0, second.stderr
    (table,) = read(tmp_path)["tables"]
    assert [cell["ours"] for cell in table["cells"]] == [c["ours"] for c in smoke_results()[SMALL]["cells"]]
    assert "nothing to do" in invoke(SMALL, "--no-tests", "--no-training", out=tmp_path).stderr


def test_jobs_must_be_positive() -> None:
    assert CliRunner().invoke(app, ["reproduce", SMALL, "--jobs", "0"]).exit_code == 2


def test_names() -> None:
    assert choose(["all"])[: len(TABLES)] == list(TABLES)  # then those whose data is at hand
    assert choose(["act", "demo", "act"]) == ["act", "demo"]
    assert set(typing.get_args(PresetName)) == set(PRESETS)
    assert default_folder("quick") == Path("results/quick")


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    done = invoke(SMALL, out=taken)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: '{taken}': ")
    assert "there is a file where a folder is expected" in done.stderr


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module, "_write_both", full)
    done = invoke(SMALL, out=tmp_path)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: '")
    assert line.endswith("the disk is full; free some space and start again, since what was stored is still there")


@pytest.mark.usefixtures("_keep_results")
def test_damaged_file_is_a_line(tmp_path: Path) -> None:
    assert invoke("ablation_b", out=tmp_path).exit_code == 0
    record = next(tmp_path.glob("units/score/**/*.json"))
    record.write_bytes(b"")
    done = invoke("ablation_b", out=tmp_path)
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Warning: '{record}' is damaged: it is empty")
    assert line.endswith("it is done again")


def test_live_display(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from gnpool.cli import reproduce as command

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with command._progress() as show:
        show(Event("harmonic: gnp", 0.5, 1.234, None, 0, 8, 0.25, 90.0))
        show(Event("harmonic: gnp", 1.0, 1.234, "training", 1, 8, 0.5, 60.0))
    shown = capsys.readouterr()
    assert shown.out == ""
