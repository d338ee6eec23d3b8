"""Every command knows what a user registers in one file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.lab.shared import program as start
from tests.lab.shared import read

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments: str) -> tuple[str, str]:
    path = os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH")]))
    with start(*arguments, PYTHONPATH=path) as process:
        out, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    return out, errors


def test_a_file_with_a_task_a_pooling_and_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    run("--load", "own_table", "reproduce", "edges", "--preset", "smoke", "--out", str(folder), "--jobs", "2")
    (table,) = read(folder)["tables"]
    assert {(cell["row"], cell["column"]) for cell in table["cells"]} == {
        (row, column) for row in ("GNP", "median", "mean") for column in ("er", "tree")
    }
    assert all(len(cell["ours"]["runs"]) == 2 and cell["paper"] is None for cell in table["cells"])
    out, _ = run("--load", "own_table", "tables", "--preset", "smoke", "--out", str(folder), "--json")
    *_, mine = json.loads(out)
    assert (mine["table"], mine["cells"], mine["cells_done"], mine["trainings"], mine["done"]) == ("edges", 6, 6, 3, 3)


def test_a_module_that_is_not_there_is_bad_usage() -> None:
    with start("--load", "own_tabel", "tables") as process:
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 2
    assert "'--load': there is no module 'own_tabel' here or on PYTHONPATH" in errors
    assert "Traceback" not in errors


def test_the_example_is_in_the_docs() -> None:
    text = (EXAMPLES.parent / "docs" / "lab.md").read_text(encoding="utf-8")
    assert "gnpool --load own_table reproduce edges" in text
    assert "(../examples/own_table.py)" in text
