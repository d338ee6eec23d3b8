from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gnpool.cli import app
from gnpool.lab import PRESETS, TABLES, all_tables
from gnpool.lab.recipes.cost import MEASURED, kind_of, training_seconds
from gnpool.store import Store
from tests.lab.shared import estimate, smoke_folder


def test_lists_every_table(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    done = CliRunner().invoke(app, ["tables", "--preset", "paper", "--out", str(missing), "--device", "cpu"])
    assert done.exit_code == 0, done.stderr
    assert all(f"│ {name} " in done.stdout for name in all_tables())
    assert f"Nothing is done: there is no folder {missing}." in done.stdout
    assert all(len(line) <= 120 for line in done.stdout.splitlines())
    assert "together, with shared models" in done.stdout
    assert not missing.exists()


def test_json_says_what_is_done() -> None:
    done = CliRunner().invoke(app, ["tables", "--preset", "smoke", "--out", str(smoke_folder()), "--json"])
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["table"] for row in rows] == list(all_tables())
    for row in rows[: len(TABLES)]:  # those behind need data that is not generated
        assert row["title"] == TABLES[row["table"]].title
        assert row["cells_done"] == row["cells"] == len(TABLES[row["table"]].cells)
        trained = [recipe for recipe in TABLES[row["table"]].recipes if not recipe.crystallized]
        assert row["done"] == row["trainings"] == len(trained)
        assert row["minutes_left"] == 0
        assert row["minutes"] > 0


@pytest.mark.parametrize(
    ("table", "preset", "search", "trainings", "runs"),
    [
        ("exp_graph_harmonic", "paper", "all", 39, 41 * 120),  # all but SAGPool in both forms
        ("exp_graph_harmonic", "quick", "all", 20, 21),  # Set2Set twice, with one step and with two
        ("behavior_app", "paper", "all", 6, 6 * 120),
        ("behavior_app", "paper", "point", 6, 6 * (24 + 10)),
    ],
)
def test_counts(table: str, preset: str, search: str, trainings: int, runs: int) -> None:
    found = estimate(TABLES[table], PRESETS[preset], "cpu", search=search)
    assert (found.trainings, found.runs, found.done, found.cells_done) == (trainings, runs, 0, 0)
    assert found.minutes == found.minutes_left > 0


def test_model_of_the_cost() -> None:
    gnp = TABLES["behavior_app"].recipes[0]
    alone, base, each, _ = MEASURED["graph gnp"]
    steps = 24 * 200  # epochs times 1,600 graphs in batches of 8
    assert training_seconds(gnp, PRESETS["quick"], "all", "cpu") == pytest.approx(1.1 * steps * alone / 1000)
    steps = 200 * 313
    assert training_seconds(gnp, PRESETS["paper"], "all", "cpu") == pytest.approx(
        1.1 * steps * (base + 120 * each) / 1000
    )
    point = 1.1 * steps * ((base + 24 * each) + 2 * (base + 5 * each)) / 1000
    assert training_seconds(gnp, PRESETS["paper"], "point", "cpu") == pytest.approx(point)
    assert training_seconds(gnp, PRESETS["paper"], "all", "cuda") < 100
    kinds = {kind_of(recipe) for table in TABLES.values() for recipe in table.recipes}
    assert kinds == set(MEASURED)


@pytest.mark.parametrize(("task", "model", "seconds"), [("bfs", "min", 48), ("shortest", "sum", 450)])
def test_node_grids_take_what_was_measured_on_a_gpu(task: str, model: str, seconds: float) -> None:
    recipe = next(r for r in TABLES["node_a"].recipes if (r.task, r.model) == (task, model))
    assert seconds / 2 < training_seconds(recipe, PRESETS["paper"], "all", "cuda") < 2 * seconds


def test_crystallizing_node_tasks_takes_long_refits() -> None:
    graph, node = (
        next(cell.recipe for cell in TABLES[table].cells if cell.recipe.crystallized)
        for table in ("graph_diff", "node_a")
    )
    paper = PRESETS["paper"]
    assert training_seconds(graph, paper, "all", "cpu") == training_seconds(graph, paper, "all", "cuda") == 5 * 30
    assert training_seconds(node, paper, "all", "cpu") == pytest.approx(5 * (30 + 33 * 5000 * 0.0051))
    assert training_seconds(node, paper, "all", "cuda") < 5 * 60


def test_jobs_share_the_work() -> None:
    one, two = (estimate(TABLES["demo"], PRESETS["quick"], "cpu", jobs=jobs).minutes for jobs in (1, 2))
    assert one == pytest.approx(2 * two)


def test_stored_trainings_correct_the_estimate(tmp_path: Path) -> None:
    table, preset, store = TABLES["behavior_app"], PRESETS["quick"], Store(tmp_path)
    recipe = table.recipes[0]
    expected = training_seconds(recipe, preset, "all", "cpu")
    store.put(recipe.key(preset, "all"), scores={}, meta={"seconds": 3 * expected, "device": "cpu: slow"})
    before = estimate(table, preset, "cpu")
    after = estimate(table, preset, "cpu", store=store)
    assert after.done == 1
    assert after.minutes == pytest.approx(3 * before.minutes)
    assert after.minutes_left < after.minutes
    assert estimate(table, preset, "cuda", store=store).minutes == estimate(table, preset, "cuda").minutes
