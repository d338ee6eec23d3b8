"""``gnpool fit``, ``predict`` and ``export`` as a newcomer uses them, and the answers to bad input."""

from __future__ import annotations

import csv
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from gnpool.cli import app
from tests.faults.helpers import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]
LAW = "y = sum_i(<script>alert(1)</script>_i)"
QUICK = ["--epochs", "12", "--seeds", "1"]


def write_sets(folder: Path, count: int, low: int, high: int, seed: int = 0, **columns: str) -> Path:
    """Sets of numbers with their sum as target; names that a careless page or terminal would take for code."""
    generator = random.Random(seed)  # noqa: S311 -- not for secrets
    folder.mkdir()
    graphs, nodes = ["graph,y"], ["graph,<script>alert(1)</script>"]
    for k in range(count):
        values = [round(generator.random(), 3) for _ in range(generator.randint(low, high))]
        graphs.append(f"<b>{k}</b>,{sum(values):.6f}")
        nodes += [f"<b>{k}</b>,{value}" for value in values]
    (folder / "graphs.csv").write_text("\n".join(graphs) + "\n")
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    return folder


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp("fit")
    data = write_sets(place / "data", 100, 3, 12)
    done = CliRunner().invoke(app, ["fit", str(data), "--out", str(place / "out"), *QUICK])
    assert done.exit_code == 0, done.output
    return place, done.stdout


def test_fit_reports_and_writes(fitted: tuple[Path, str]) -> None:
    place, text = fitted
    assert sorted(path.name for path in (place / "out").iterdir()) == ["fit.json", "fit.png", "learned", "model"]
    assert "100 sets" in text
    assert "regression of graphs" in text
    assert "# train, + validation, o test, same sizes, * test, larger" in text
    result = json.loads((place / "out" / "fit.json").read_text())
    assert result["schema"] == 1
    assert result["answer"]["law"] == result["law"]["formula"] == LAW
    assert result["law"]["verdict"] == "law"
    assert result["answer"]["poolings"] is None
    assert result["answer"]["text"] in text
    assert (place / "out" / "fit.png").read_bytes().startswith(b"\x89PNG")
    curves = {model["label"]: model["curves"] for model in result["models"]}
    assert curves["GNP"]["exponents"]["epoch"] == list(range(3))  # the law is certain: a first look is enough
    assert {"pool.p", "pool.growth"} <= curves["GNP"]["exponents"].keys()
    assert curves["sum"] is None
    assert result["answer"]["gnp"] == "not compared"
    assert [path.name for path in place.iterdir() if path.name.startswith(".")] == []


def test_predict_larger_sets(fitted: tuple[Path, str], tmp_path: Path) -> None:
    data = write_sets(tmp_path / "data", 20, 60, 80, seed=1)
    out = tmp_path / "out.csv"
    done = CliRunner().invoke(app, ["predict", str(fitted[0] / "out" / "model"), str(data), "-o", str(out)])
    assert done.exit_code == 0, done.output
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))
    with (data / "graphs.csv").open(newline="") as file:
        truth = {row["graph"]: float(row["y"]) for row in csv.DictReader(file)}
    assert [row["graph"] for row in found] == list(truth)
    errors = [abs(float(row["prediction"]) / truth[row["graph"]] - 1) for row in found]
    assert sum(errors) / len(errors) < 0.01
    (data / "graphs.csv").unlink()  # targets are not needed
    printed = CliRunner().invoke(app, ["predict", str(fitted[0] / "out"), str(data)])
    assert printed.stdout == out.read_text()
    spoken = CliRunner().invoke(app, ["predict", str(fitted[0] / "out"), str(data), "--json"])
    assert [row["nodes"] for row in json.loads(spoken.stdout)] == [int(row["nodes"]) for row in found]


def test_a_folder_for_the_hub_is_a_saved_model(fitted: tuple[Path, str], tmp_path: Path) -> None:
    data, hub = write_sets(tmp_path / "data", 5, 6, 8, seed=2), tmp_path / "hub"
    done = CliRunner().invoke(app, ["export", str(fitted[0] / "out"), "--format", "hub", "-o", str(hub)])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in hub.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    first, second = (CliRunner().invoke(app, ["predict", str(one), str(data)]) for one in (fitted[0] / "out", hub))
    assert first.exit_code == second.exit_code == 0
    assert first.stdout == second.stdout
    assert CliRunner().invoke(app, ["read", str(hub)]).exit_code == 0


@pytest.mark.parametrize("form", ["torch", "pyg", "onnx"])
def test_export(form: str, fitted: tuple[Path, str], tmp_path: Path) -> None:
    if form == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package, reason=f"ONNX needs {package}")
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["export", str(fitted[0] / "out"), "--format", form, "-o", str(out), "--json"])
    assert done.exit_code == 0, done.output
    assert all(Path(path).exists() for path in json.loads(done.stdout)["files"])
    inputs = {"x": torch.rand(37, 1), "ptr": torch.tensor([0, 30, 31, 37])}  # other sizes than exported
    from gnpool.models import load_model

    expected = load_model(fitted[0] / "out" / "model")(**inputs)
    if form == "torch":
        found = torch.export.load(out).module()(**inputs)
    elif form == "pyg":
        code = "import torch; from model import load; m = load(); d = torch.load('in.pt'); torch.save(m(**d), 'out.pt')"
        torch.save(inputs, out / "in.pt")
        subprocess.run([sys.executable, "-c", code], cwd=out, check=True)
        found = torch.load(out / "out.pt")
    else:
        import onnx
        import onnxruntime

        session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
        found = torch.from_numpy(session.run(None, {name: value.numpy() for name, value in inputs.items()})[0])
        kept = {entry.key: entry.value for entry in onnx.load(out).metadata_props}
        assert json.loads(kept["gnpool"])["problem"]["task"] == "regression"
    torch.testing.assert_close(found, expected)


def test_a_fit_of_other_data_stays_unless_told(fitted: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copytree(fitted[0] / "out", tmp_path / "out")
    other = str(write_sets(tmp_path / "data", 40, 3, 9, seed=5))
    arguments = ["fit", other, "--out", str(tmp_path / "out"), "--epochs", "1", "--seeds", "1"]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {tmp_path / 'out'}: a fit of other data is there; choose another --out, or replace it with --force\n"
    )
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["data"]["graphs"] == 40
    assert CliRunner().invoke(app, arguments).exit_code == 0  # the same data again
    (tmp_path / "out" / "fit.json").write_text("{")
    assert CliRunner().invoke(app, arguments).exit_code == 2  # nobody knows of what data it is


def test_a_folder_of_a_fit_and_its_model_mean_the_same(fitted: tuple[Path, str], tmp_path: Path) -> None:
    place, data = fitted[0] / "out", str(fitted[0] / "data")
    for folder in (place, place / "model"):
        name = folder.name
        for command in (["predict", str(folder), data], ["export", str(folder), "--format", "torch"]):
            done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / f"{name}-{command[0]}")])
            assert done.exit_code == 0, done.output
        done = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / f"{name}-report")])
        assert done.exit_code == 0, done.output
    for kind in ("predict", "report"):
        assert (tmp_path / f"out-{kind}").read_bytes() == (tmp_path / f"model-{kind}").read_bytes()


class Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, ("bomb",)


def tables(folder: Path, graphs: str, nodes: str, edges: str | None = None) -> None:
    folder.mkdir()
    for name, text in (("graphs", graphs), ("nodes", nodes), ("edges", edges)):
        if text is not None:
            (folder / f"{name}.csv").write_text(text)


def zipped(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, "1, 2\n")


BAD: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "nothing there": ("d", lambda p: None, "d: there is no such file or folder"),
    "empty folder": ("d", lambda p: p.mkdir(), "d: it has neither graphs.csv and nodes.csv"),
    "missing column": (
        "d",
        lambda p: tables(p, "graph,y\n1,1\n", "node\n1\n"),
        "nodes.csv, line 1: the column 'graph'",
    ),
    "NaN target": (
        "d",
        lambda p: tables(p, "graph,y\n1,nan\n", "graph\n1\n"),
        "graphs.csv, line 2, column 'y': the ta",
    ),
    "one graph": ("d", lambda p: tables(p, "graph,y\n1,2\n", "graph\n1\n"), "the data has 1 graph; to train"),
    "unknown nodes": (
        "d",
        lambda p: tables(p, "graph,y\n1,2\n", "graph,node\n1,1\n", "graph,source,target\n1,1,<script>\n"),
        "edges.csv, line 2, column 'target': graph '1' has no node '<script>'",
    ),
    "bomb": ("d.pt", lambda p: torch.save([Bomb()], p), "d.pt: it holds objects other than tensors"),
    "zip that leads out": (
        "d.zip",
        lambda p: zipped(p, "../T_A.txt"),
        "it has a file '../T_A.txt', which leads out of",
    ),
    "no module": ("nowhere:graphs", lambda p: None, "there is no module 'nowhere'"),
    "no target": ("d.pt", lambda p: torch.save([Data(x=torch.ones(2, 1))], p), "'y' of graph 0"),
}


@pytest.mark.parametrize(("name", "make", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_status_2(
    name: str, make: Callable[[Path], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, ["fit", name, "--out", "out"])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_other_mistakes(fitted: tuple[Path, str], tmp_path: Path) -> None:
    model, data = str(fitted[0] / "out"), str(fitted[0] / "data")
    (tmp_path / "mine.txt").write_text("keep")
    (tmp_path / "broken").mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    cases = [
        (["fit", data, "--out", str(tmp_path)], "it holds other files; choose another folder"),
        (["fit", data, "--out", str(tmp_path / "mine.txt")], "it is a file; choose another folder"),
        (["predict", str(tmp_path), data], "there is no saved model, that is, no model.json in it"),
        (["predict", model, str(tmp_path)], "it has neither graphs.csv"),
        (["predict", model, data, "-o", str(tmp_path)], f"--out: '{tmp_path}' is a folder"),
        (
            ["predict", model, data, "-o", str(tmp_path / "no" / "a.csv")],
            f"--out: there is no folder '{tmp_path / 'no'}'",
        ),
        (["predict", model, data, "-o", str(pipe)], f"--out: '{pipe}' is not an ordinary file"),
        (["export", model, "-o", str(pipe)], f"--out: '{pipe}' is not an ordinary file"),
        (["read", model, "--figure", str(pipe)], f"--figure: '{pipe}' is not an ordinary file"),
        (["export", str(tmp_path / "broken"), "-o", str(tmp_path / "m.onnx")], "broken: there is no saved model"),
    ]
    for arguments, message in cases:
        done = CliRunner().invoke(app, arguments)
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "mine.txt", "pipe"]
    assert pipe.is_fifo()


def test_a_link_is_written_through(fitted: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    model, data = str(fitted[0] / "out"), str(fitted[0] / "data")
    done = CliRunner().invoke(app, ["predict", model, data, "-o", str(tmp_path / "link.csv")])
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("graph,nodes,prediction\n")


INTERRUPTIBLE = """
import os, sys
from pathlib import Path
import gnpool.fit.trainer as trainer
from gnpool.cli.app import main

fit_many = trainer.fit_many

def told(*arguments, progress, **options):
    def tell(event):
        Path(os.environ["MARK"]).touch()
        progress(event)

    return fit_many(*arguments, progress=tell, **options)

trainer.fit_many = told
main()
"""


def test_ctrl_c_leaves_nothing_and_says_so(fitted: tuple[Path, str], tmp_path: Path) -> None:
    mark, place = tmp_path / "training has begun", tmp_path / "place"
    place.mkdir()
    arguments = ["fit", str(fitted[0] / "data"), "--out", "out", "--epochs", "100000"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MARK": str(mark)},
    ) as process:
        wait_until(mark.exists, process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out == ""
    assert errors.splitlines()[-1] == "Interrupted; nothing was written to out."
    assert list(place.iterdir()) == []


NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_after(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has room for only some of the files."""
    written, fsync = iter(range(10_000)), os.fsync

    def sync(descriptor: int) -> None:
        if next(written) >= files:
            raise NO_SPACE
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)


def test_a_disk_that_is_full_shows_before_training(
    fitted: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_after(0, monkeypatch)
    done = CliRunner().invoke(app, ["fit", str(fitted[0] / "data"), "--out", str(tmp_path / "a" / "out")])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {tmp_path}: ")
    assert "No space left on device" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("files", [1, 3], ids=["at once", "after some files"])
def test_a_disk_that_fills_up_leaves_nothing_half(
    files: int, fitted: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_after(files, monkeypatch)
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["fit", str(fitted[0] / "data"), "--out", str(out), "--epochs", "1", "--seeds", "1"])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == f"Error: {out}: it could not be written (No space left on device)"
    assert list(tmp_path.iterdir()) == []


def test_an_old_result_stays_when_the_disk_is_full(tmp_path: Path) -> None:
    from gnpool.fit.predict import write_file
    from gnpool.models.folder import write_folder

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_text("old")
    (tmp_path / "out.csv").write_text("old")
    with pytest.MonkeyPatch.context() as patch:
        full_after(0, patch)
        with pytest.raises(OSError, match="it could not be written"):
            write_folder(tmp_path / "model", {"new": b"new"}, replaces=lambda folder: True)
    with pytest.MonkeyPatch.context() as patch:
        full_after(0, patch)
        with pytest.raises(OSError, match="it could not be written") as caught:
            write_file(tmp_path / "out.csv", b"new")
    assert caught.value.filename == str(tmp_path / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out.csv"]
    assert (tmp_path / "model" / "old").read_text() == (tmp_path / "out.csv").read_text() == "old"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a place where nobody can write, of Linux")
def test_a_place_where_nothing_can_be_written(fitted: tuple[Path, str], tmp_path: Path) -> None:
    data, model = str(fitted[0] / "data"), str(fitted[0] / "out")
    (tmp_path / "file").touch()
    for out, place in (("/proc/gnpool/out", "/proc"), (str(tmp_path / "file" / "out"), str(tmp_path / "file"))):
        done = CliRunner().invoke(app, ["fit", data, "--out", out])
        assert done.exit_code == 2
        assert done.stderr.startswith(f"Error: {place}: ")
    done = CliRunner().invoke(app, ["predict", model, data, "-o", "/proc/out.csv"])
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_no_gpu(command: str, fitted: tuple[Path, str], tmp_path: Path) -> None:
    data, model = str(fitted[0] / "data"), str(fitted[0] / "out")
    arguments = {"fit": [data, "--out", str(tmp_path / "out")], "predict": [model, data, "-o", str(tmp_path / "o.csv")]}
    done = CliRunner().invoke(app, [command, *arguments[command], "--device", "cuda"])
    assert done.exit_code == 2
    assert "Error: --device is cuda, but torch finds no GPU here; use --device cpu" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_where_an_error_came_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GNPOOL_TRACEBACK", "1")
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "no"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "Traceback" in done.stderr


def test_read_what_a_fit_left(fitted: tuple[Path, str]) -> None:
    by_folder, by_model = (
        CliRunner().invoke(app, ["read", str(folder)]) for folder in (fitted[0] / "out", fitted[0] / "out" / "learned")
    )
    assert by_folder.exit_code == 0
    assert by_folder.stdout == by_model.stdout
    assert "pool" in by_folder.stdout
    exact = CliRunner().invoke(app, ["read", str(fitted[0] / "out" / "model"), "--json"])
    assert json.loads(exact.stdout) == {"exact": {"law": LAW}}


@pytest.mark.slow
def test_the_way_of_a_newcomer(tmp_path: Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    example = str(ROOT / "examples" / "own_data.py")
    run(example, "edges")
    run(example, "larger", "--low", "100", "--high", "200", "--graphs", "20", "--seed", "1")
    text = run("-m", "gnpool", "fit", "edges", "--out", "fit")
    assert "y = 1/2 * sum_v(degree_v)" in text
    run("-m", "gnpool", "predict", "fit/model", "larger", "-o", "larger.csv")
    with (tmp_path / "larger.csv").open(newline="") as file:
        found = {row["graph"]: float(row["prediction"]) for row in csv.DictReader(file)}
    with (tmp_path / "larger" / "graphs.csv").open(newline="") as file:
        truth = {row["graph"]: float(row["y"]) for row in csv.DictReader(file)}
    assert max(abs(found[graph] / truth[graph] - 1) for graph in truth) < 0.01
