"""``gnpool store pack``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gnpool.cli import app
from gnpool.store import Store
from tests.store.helpers import holds, put, tree, unit_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store(tmp_path)
    for unit in range(2):
        put(store, unit)
    store.put(unit_key(0, "maxdegree"), scores=[1.5])
    return tmp_path


def pack(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["store", "pack", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_says_what_it_packed(folder: Path) -> None:
    assert pack(folder).startswith(f"packed 3 units into '{folder}/units/1.zip': 0.0 MB, now 0.0 MB; nothing was drop")
    assert holds(Store(folder), 1)
    assert pack(folder) == f"{folder} has no units as single files; nothing was packed.\n"


def test_it_says_what_it_dropped(folder: Path) -> None:
    before = sum(map(len, tree(folder).values()))
    told = json.loads(pack(folder, "--drop", "wei*", "--drop", "none", "--json"))
    assert told == {
        "pack": f"{folder}/units/1.zip",
        "units": 3,
        "before": before,
        "after": (folder / "units" / "1.zip").stat().st_size,
        "dropped": {"weight": 2},
    }
    record = Store(folder).get(unit_key())
    assert record is not None
    assert (list(record.tensors or {}), record.dropped) == (["p"], ("weight",))
    assert json.loads(pack(folder, "--json")) == {"pack": None, "units": 0, "dropped": {}}


def test_one_table(folder: Path) -> None:
    assert json.loads(pack(folder, "--table", "maxdegree", "--json"))["units"] == 1
    assert (folder / "units" / "invsize").is_dir()


def test_a_folder_in_place_of_a_pack_is_one_line(folder: Path) -> None:
    odd = folder / "units" / "1.zip"
    odd.mkdir()
    done = CliRunner().invoke(app, ["store", "pack", str(folder)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: '{odd}': a pack of units is expected there: '1.zip' is a folder")
    assert len(done.stderr.splitlines()) == 1
