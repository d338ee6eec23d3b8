from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gnpool.cli import app
from gnpool.models import GraphNet, save_model
from tests.lab.shared import smoke_folder


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["read", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    arguments = {"in_channels": 1, "hidden": 4}
    model = GraphNet(**arguments)  # type: ignore[arg-type]
    model.aggr.p_pos, model.aggr.q_pos = 1.05, 0.98
    return save_model(tmp_path / "model", model, {"class": "GraphNet", "arguments": arguments})


def test_a_saved_model(saved: Path) -> None:
    status, out, _ = invoke(str(saved))
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split() == ["layer", "branch", "p", "q", "growth", "reading"]
    assert lines[1].split() == ["aggr", "positive", "1.05", "0.98", "-0.03", "mean"]
    assert "a saved model has no data with it" in lines[-1]


def test_a_saved_model_that_learned_the_growth(tmp_path: Path) -> None:
    arguments = {"in_channels": 1, "aggr": "gnpg", "readout": "gnpg", "hidden": 4}
    model = GraphNet(**arguments)  # type: ignore[arg-type]
    model.aggr.p, model.aggr.growth, model.readout.p, model.readout.growth = 0.05, 0.02, -40.0, 0.0
    folder = save_model(tmp_path / "model", model, {"class": "GraphNet", "arguments": arguments})
    status, out, _ = invoke(str(folder))
    assert status == 0
    assert [line.split() for line in out.splitlines()[:3]] == [
        ["layer", "branch", "p", "growth", "reading"],
        ["aggr", "one", "0.05", "0.02", "geometric", "mean"],
        ["readout", "one", "-40.00", "0.00", "min"],
    ]
    status, out, _ = invoke(str(folder), "--json", "--figure", str(tmp_path / "plane.png"))
    found = json.loads(out)["branches"][0]
    assert (found["branch"], found["name"], found["coordinates"]) == ("one", "geometric mean", "growth")
    assert (found["growth"], found["q"]) == (pytest.approx(0.02), pytest.approx(19.98, rel=1e-3))
    assert (tmp_path / "plane.png").read_bytes()[:4] == b"\x89PNG"


def test_a_model_of_a_table_as_json() -> None:
    table = ("--table", "exp_graph_harmonic", "--preset", "smoke", "--seed", "1")
    status, out, errors = invoke(str(smoke_folder()), *table, "--json")
    assert status == 0, errors
    found = json.loads(out)
    assert found["with_data"] is True
    assert [(b["layer"], b["branch"]) for b in found["branches"]] == [
        ("aggr", "positive"),
        ("aggr", "negative"),
        ("readout", "positive"),
        ("readout", "negative"),
    ]
    assert sum(b["share"] for b in found["branches"][:2]) == pytest.approx(1.0)
    assert found["crystal"] is None


def test_what_it_was_crystallized_to() -> None:
    table = ("--table", "exp_graph_harmonic", "--row", "GNP*", "--preset", "smoke")
    status, out, errors = invoke(str(smoke_folder()), *table)
    assert status == 0, errors
    assert out.splitlines()[-1].startswith("Crystallized to aggr: ")


def test_figure(saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    status, out, _ = invoke(str(saved), "--figure", str(tmp_path / "new" / "plane.png"))
    assert status == 0
    assert out.splitlines()[-1] == f"wrote {tmp_path / 'new' / 'plane.png'}"
    assert (tmp_path / "new" / "plane.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{folder}/none",), "does not exist"),
        (("{folder}",), "holds neither a model.json nor results"),
        (("{model}", "--table", "demo"), "a saved model stands in no table"),
        (("{smoke}",), "say which model of these results"),
        (("{smoke}", "--table", "nope"), "there is no table 'nope'"),
        (("{smoke}", "--table", "demo", "--row", "x"), "table 'demo' has no row 'x'; its rows are GNP, "),
        (("{smoke}", "--table", "demo", "--row", "sum,max", "--preset", "smoke"), "has no GNPAggregation inside"),
        (("{smoke}", "--table", "demo", "--seed", "9", "--preset", "smoke"), "--seed must be one of 0, 1, got 9"),
        (("{smoke}", "--table", "demo"), "has no gnp for invsize"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, saved: Path, tmp_path: Path) -> None:
    places = {"folder": tmp_path, "model": saved, "smoke": smoke_folder()}
    code, out, errors = invoke(*(argument.format(**places) for argument in arguments))
    assert code == 2
    assert out == ""
    assert message in " ".join(errors.split())
    assert "Traceback" not in errors


def test_exact_poolings_have_nothing_to_read(tmp_path: Path) -> None:
    arguments = {"in_channels": 1, "aggr": "sum", "readout": "max"}
    folder = save_model(tmp_path / "model", GraphNet(**arguments), {"class": "GraphNet", "arguments": arguments})
    result = CliRunner().invoke(app, ["read", str(folder)])
    assert result.exit_code == 0
    assert result.stdout.split("\n")[1:3] == ["  aggr: sum", "  readout: max"]
    result = CliRunner().invoke(app, ["read", str(folder), "--json"])
    assert json.loads(result.stdout) == {"exact": {"aggr": "sum", "readout": "max"}}
    result = CliRunner().invoke(app, ["read", str(folder), "--figure", "plane.png"])
    assert (result.exit_code, "no point to draw" in result.stderr) == (2, True)
