"""Runs ``gnpool reproduce graphcl_a``, from zips to accuracies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gnpool.cli.app import app
from gnpool.cli.reproduce import choose
from gnpool.lab import TABLES
from gnpool.lab.registry import table_names
from tests.real_data import use_real_data


def test_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_real_data(monkeypatch)
    result = CliRunner().invoke(app, ["reproduce", "graphcl_a", "--preset", "smoke", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "SAGPool with GNP" in result.stdout
    assert "NCI1: SAGPool with GNP minus SAGPool original:" in result.stdout
    assert "1 of 20 seeds, 1 of 10 folds" in result.stdout
    (table,) = json.loads((tmp_path / "results.json").read_text())["tables"]
    assert all(cell["ours"]["mean"] is not None for cell in table["cells"])


def test_json_and_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_real_data(monkeypatch)
    arguments = ["reproduce", "real_stat", "--preset", "smoke", "--out", str(tmp_path)]
    found = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(found.stdout)["tables"][0]["cells"][0]["ours"]["mean"] == 1178
    bad = CliRunner().invoke(app, [*arguments, "--folds", "2"])
    assert bad.exit_code == 2
    assert "--seeds and --folds are for tables that are cross-validated" in bad.stderr
    assert CliRunner().invoke(app, ["reproduce", "graphcl_a", "--folds", "11"]).exit_code == 2


def test_all_stands_for_what_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [name for name in table_names() if name.startswith(("graphcl", "real"))]
    for there, expected in ((lambda name: name != "NCI1", ["graphcl_optimizer"]), (lambda name: True, mine)):
        monkeypatch.setattr("gnpool.lab.table.at_hand", there)
        assert [name for name in choose(["all"]) if name in mine] == expected
        assert set(TABLES) <= set(choose(["all"]))
