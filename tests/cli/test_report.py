from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gnpool.cli import app
from gnpool.lab import TABLES, reproduce
from gnpool.lab.stored import stored_tables
from gnpool.report import bootstrap, page, read_study
from tests.lab.shared import SMALL
from tests.report.shared import make_study


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_study(tmp_path / "study")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one small table."""
    path = tmp_path_factory.mktemp("smoke")
    reproduce([SMALL], path, preset="smoke", jobs=1)
    return path


def test_writes_the_page_beside_the_results(folder: Path) -> None:
    done = invoke(folder)
    assert done.exit_code == 0, done.stderr
    path = folder / "report.html"
    assert done.stdout.splitlines() == [
        "GNP matches or beats the paper in all 2 published cells.",
        f"wrote {path} (0.1 MB)",
    ]
    assert done.stderr == ""
    assert path.read_text(encoding="utf-8") == page(read_study(folder))


def test_output_may_be_elsewhere(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.html"
    assert invoke(folder, "-o", path).exit_code == 0
    assert path.stat().st_size > 10_000
    assert not (folder / "report.html").exists()


def test_json(folder: Path) -> None:
    done = invoke(folder, "--json")
    found = json.loads(done.stdout)
    assert found["bytes"] == (folder / "report.html").stat().st_size
    assert found["answer"] == "GNP matches or beats the paper in all 2 published cells"
    first = found["tables"][0]
    assert first["counts"]["GNP"] == {
        "matched": 1, "both fail": 0, "better": 1, "worse": 0, "different outcome": 0, "not run": 0,
    }  # fmt: skip
    assert first["cells"][0]["interval"] == list(bootstrap(first["cells"][0]["ours"]["runs"]) or [])
    assert first["cells"][-1]["interval"] is None


def test_markdown_alone(folder: Path) -> None:
    done = invoke(folder, "--markdown", "--table", "demo")
    assert done.stdout.startswith("|  | GNP | GNP, paper | best baseline |\n")
    assert "fig\\_size" not in done.stdout
    assert not (folder / "report.html").exists()


def test_a_store_without_results_is_shown_as_far_as_it_is(smoke: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(smoke, folder)
    (table,) = json.loads((smoke / "results.json").read_text())["tables"]
    (folder / "results.json").unlink()
    found = {one["table"]: one for one in stored_tables(folder)}
    assert found[SMALL] == table
    assert set(found) <= set(TABLES)
    assert all(any(cell["ours"] for cell in one["cells"]) for one in found.values())
    done = invoke(folder)
    assert done.exit_code == 0, done.stderr
    assert f'id="table-{SMALL.replace("_", "-")}"' in (folder / "report.html").read_text(encoding="utf-8")


def test_refresh_computes_tables_anew(smoke: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(smoke, folder)
    old = (folder / "results.json").read_text().replace('"verdict": "', '"verdict": "old ')
    (folder / "results.json").write_text(old)
    assert "old " in invoke(folder, "--markdown").stdout
    assert "old " not in invoke(folder, "--markdown", "--refresh").stdout


def test_finished_tables_of_earlier_runs_are_shown(tmp_path: Path) -> None:
    for name in ("ablation_b", "behavior_app"):  # of the same trainings, which other tables share, too
        reproduce([name], tmp_path, preset="smoke")
    shown = json.loads(invoke(tmp_path, "--json").stdout)["tables"]
    assert [table["table"] for table in shown] == ["behavior_app", "ablation_b"]
    everything = json.loads(invoke(tmp_path, "--json", "--refresh").stdout)["tables"]
    assert len(everything) > 2


def test_damage_is_a_warning(folder: Path) -> None:
    file = next((folder / "units" / "score").rglob("*.json"))
    file.write_text(file.read_text()[:-5])
    done = invoke(folder)
    assert done.exit_code == 0
    assert done.stderr.startswith("Warning: ")
    assert "checksum" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["{}/gone"], 2, "does not exist"),
        (["{}", "--markdown", "--json"], 2, "'--markdown'"),
        (["{}", "--markdown", "-o", "a.html"], 2, "'--markdown'"),
        (["{}", "-o", "{}"], 2, "is a directory"),
        (["{}", "-o", os.devnull], 2, f"'{os.devnull}' is not an ordinary file"),
        (["{}", "--table", "nope"], 2, "no table 'nope'; their tables are demo, fig_size"),
    ],
)
def test_bad_usage(folder: Path, arguments: list[str], status: int, message: str) -> None:
    done = invoke(*(argument.format(folder) for argument in arguments))
    assert done.exit_code == status
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert done.stdout == ""


def test_nothing_to_show(tmp_path: Path) -> None:
    done = invoke(tmp_path)
    assert done.exit_code == 2
    assert done.stderr == (
        f"Error: '{tmp_path}' holds neither results.json nor fit.json nor units of a store; nothing can be shown\n"
    )
    (tmp_path / "results.json").write_text("{")
    assert invoke(tmp_path).exit_code == 2
