"""Builds wheel and sdist; the wheel works where only its own requirements are installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_string
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import gnpool

ROOT = Path(__file__).parents[1]
EXTRAS = ("matplotlib", "onnx", "onnxruntime", "onnxscript", "pyarrow", "ray", "triton", "sklearn")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"gnpool-{gnpool.__version__}-py3-none-any.whl"


def required(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A distribution and what it requires without extras, as far as it is installed."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in found:
        found[key] = distribution(name)
        for line in found[key].requires or []:
            one = Requirement(line)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                required(one.name, found)
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment with the wheel; its requirements are links to those of this environment."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    found: dict[str, Distribution] = {}
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        required(Requirement(line).name, found)
    for one in found.values():
        for top in {path.parts[0] for path in one.files or [] if path.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(one.locate_file(top))
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    return folder / "bin"


def test_they_are_small(built: Path, wheel: Path) -> None:
    assert sorted(path.name for path in built.iterdir()) == [wheel.name, f"gnpool-{gnpool.__version__}.tar.gz"]
    assert wheel.stat().st_size < 0.85e6
    assert (built / f"gnpool-{gnpool.__version__}.tar.gz").stat().st_size < 3e6


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    tracked = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    expected = {name for name in tracked if "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if ".dist-info/" not in name} == expected
    assert "gnpool/py.typed" in expected


def test_the_sdist_builds_the_same_wheel(built: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(built / f"gnpool-{gnpool.__version__}.tar.gz") as file:
        file.extractall(tmp_path, filter="data")
    source = tmp_path / f"gnpool-{gnpool.__version__}"
    assert {"tests", "docs", "examples", "README.md", "CHANGELOG.md", "Makefile"} <= {p.name for p in source.iterdir()}
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=source)
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()


def test_what_the_wheel_says_of_itself(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        said = message_from_string(file.read(name).decode())
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("gnpool", gnpool.__version__, "MIT")
    assert said["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in said.get_all("Classifier")
    assert set(said.get_all("Provides-Extra")) == {"data", "dev", "docs", "export", "ray", "report"}
    plain = [one for one in said.get_all("Requires-Dist") if "extra ==" not in one]
    assert {Requirement(one).name for one in plain} == {
        *("numba", "numpy", "rich", "safetensors", "torch", "torch-geometric", "typer")
    }


def test_the_changelog_begins_with_this_version() -> None:
    first = re.search(
        r"^## \[(?!Unreleased)(.+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert first is not None
    assert first[1] == gnpool.__version__


def test_it_is_the_wheel_that_runs_and_without_extras(installed: Path, tmp_path: Path) -> None:
    code = f"""
import gnpool, importlib.util
print([name for name in {EXTRAS} if importlib.util.find_spec(name)], gnpool.__file__)"""
    absent, file = run(installed / "python", "-c", code, cwd=tmp_path).strip().split(" ", 1)
    assert absent == "[]"
    assert Path(file).is_relative_to(installed.parent)
    assert run(installed / "gnpool", "--version", cwd=tmp_path) == f"gnpool {gnpool.__version__}\n"


def test_it_fits_the_example_and_predicts(installed: Path, tmp_path: Path) -> None:
    run(
        installed / "python",
        ROOT / "examples" / "own_data.py",
        "tables",
        "--graphs",
        "100",
        "--high",
        "16",
        cwd=tmp_path,
    )
    run(installed / "gnpool", "fit", "tables", "--epochs", "2", "--out", "fit", cwd=tmp_path)
    assert json.loads((tmp_path / "fit" / "fit.json").read_text())["answer"]["law"] is not None
    lines = run(installed / "gnpool", "predict", "fit/model", "tables", cwd=tmp_path).splitlines()
    truth = (tmp_path / "tables" / "graphs.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == [line.split(",")[0] for line in truth]
    wrong = [
        (a, b)
        for a, b in zip(lines[1:], truth[1:], strict=True)
        if abs(float(a.split(",")[-1]) - float(b.split(",")[-1])) > 1e-3
    ]
    assert wrong == []
