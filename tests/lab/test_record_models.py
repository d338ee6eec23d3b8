"""The trained networks and the small data sets that come with the source: made from the store, and ready to use."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch
from typer.testing import CliRunner

from gnpool.cli import app
from gnpool.lab import get_preset
from gnpool.lab.recipes.crystallized import crystallized
from gnpool.lab.recipes.recipe import METHODS
from gnpool.lab.recipes.stored import models_of, stored
from gnpool.models import load_model
from gnpool.store import Store
from gnpool.tasks import get_task
from gnpool.training import Batches, evaluate_items
from tools import pretrained

TASKS = [path.name for path in sorted(pretrained.DATA.iterdir())]
MODELS = [path.name for path in sorted(pretrained.MODELS.iterdir())]
PREDICTED = [name for name in MODELS if name.removesuffix(pretrained.EXACT) in TASKS]
# Percent, of the mean error over the small data set; bfs in units of its target.
BOUND = {
    "invsize": 1.5,
    "harmonic": 1.5,
    "maxdegree": 3.0,
    "bfs": 0.01,
    "mu_post": 4.0,
    "sigma2_post": 2.0,
    "mu_map": 3.0,
    "sigma2_map": 5.0,
    "sigma2_post-exact": 2.0,
    "sigma2_map-exact": 5.0,
}
NEARLY_NOTHING = 0.01  # of the other exact ones: rounding of float32, where a target of mu_post is near 0


def command(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def targets(task: str) -> list[float]:
    name = "nodes.csv" if get_task(task).level == "node" else "graphs.csv"
    with (pretrained.DATA / task / name).open(encoding="utf-8", newline="") as file:
        return [float(row["y"]) for row in csv.DictReader(file)]


def test_they_are_what_the_store_holds() -> None:
    made = dict(pretrained.models(Store(pretrained.STORE, create=False)))
    assert sorted(made) == MODELS, "run: python -m tools.pretrained"
    for name, files in made.items():
        kept = {path.name: path.read_bytes() for path in (pretrained.MODELS / name).iterdir()}
        assert kept == files, f"{name}: run python -m tools.pretrained"


def test_every_task_has_its_models() -> None:
    store, preset = Store(pretrained.STORE, create=False), get_preset("paper")
    for task in ("invsize", "harmonic", "maxdegree", "bfs", "shortest", *pretrained.SET_TASKS):
        recipe = pretrained.recipe_of(task)
        assert task in MODELS
        exact = [replace(crystallized(recipe), method=method).key(preset, "all") in store for method in METHODS]
        assert (task + pretrained.EXACT in MODELS) == any(exact)


@pytest.mark.parametrize("task", TASKS)
def test_data_is_that_of_the_task(task: str) -> None:
    kept = {path.name: path.read_bytes() for path in (pretrained.DATA / task).iterdir()}
    assert kept == pretrained.data_files(get_task(task)), "run: python -m tools.pretrained"


@pytest.mark.parametrize("name", PREDICTED)
def test_predict(name: str) -> None:
    task = get_task(name.removesuffix(pretrained.EXACT))
    rows = json.loads(command("predict", pretrained.MODELS / name, pretrained.DATA / task.name, "--json"))
    found = torch.tensor([row["prediction"] for row in rows], dtype=torch.float64)
    wanted = torch.tensor(targets(task.name), dtype=torch.float64)
    errors = (found - wanted).abs()
    if task.level != "node":
        errors = 100 * errors / wanted.abs()
    assert errors.mean().item() < BOUND.get(name, NEARLY_NOTHING)
    # The same network on the same data, without tables in between.
    recipe = pretrained.recipe_of(task.name)
    recipe = crystallized(recipe) if name.endswith(pretrained.EXACT) else recipe
    store = Store(pretrained.STORE, create=False)
    one = stored(store, recipe, pretrained.PAPER)
    model = models_of(one)[pretrained.best_seed(one.learned(store, pretrained.PAPER))]
    count = pretrained.SETS if task.level == "set" else pretrained.GRAPHS
    data = Batches(task.dataset("test", count=count), 64, seed=None, sorted_edges=task.level != "set")
    values = evaluate_items(model, list(data), task.metric, device=torch.device("cpu"))
    torch.testing.assert_close(errors, values.double(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("maxdegree-exact", ["  aggr: sum", "  readout: max"]),
        ("harmonic-exact", ["  aggr: sum", "  readout: harmonic sum"]),
        ("mu_post-exact", ["  pool: mean with a 0"]),
    ],
)
def test_read_names_exact_poolings(name: str, lines: list[str]) -> None:
    found = command("read", pretrained.MODELS / name).splitlines()
    assert [line for line in found if line.startswith("  ")] == lines


def test_read_names_learned_poolings() -> None:
    found = json.loads(command("read", pretrained.MODELS / "maxdegree", "--json"))
    names = {(one["layer"], one["branch"]): one["name"] for one in found["branches"]}
    assert names["aggr", "positive"] == "sum"
    assert names["readout", "positive"] == "max"


@pytest.mark.parametrize("name", MODELS)
def test_models_load(name: str) -> None:
    model = load_model(pretrained.MODELS / name)
    assert sum(parameter.numel() for parameter in model.parameters()) > 500


def test_weighted_edges_have_no_tables() -> None:
    done = CliRunner().invoke(app, ["predict", str(pretrained.MODELS / "shortest"), str(pretrained.DATA / "bfs")])
    assert done.exit_code != 0
    assert "built with edge_weights=True, but none was given" in done.output


def test_they_are_small() -> None:
    files = [path for root in (pretrained.MODELS, pretrained.DATA) for path in root.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000


def test_an_exact_network_is_right_on_larger_graphs() -> None:
    model = load_model(pretrained.MODELS / "maxdegree-exact")
    graphs = Batch.from_data_list(get_task("maxdegree").dataset("test", count=3, sizes=(400, 500)))
    with torch.no_grad():
        found = model(graphs.x, graphs.edge_index, batch=graphs.batch).flatten()
    torch.testing.assert_close(found.double(), graphs.y, rtol=1e-5, atol=0)
