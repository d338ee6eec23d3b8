"""Other data of the same kind has a separate place in the store and gives the same answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gnpool.cli.app import app
from gnpool.lab import PRESETS, TABLES, get_preset, reproduce
from gnpool.lab.recipes import Exam
from gnpool.lab.recipes.stored import stored_model
from gnpool.store import Store
from gnpool.tasks import get_task
from gnpool.training import Batches
from tests.lab.shared import SMALL

RECIPE = TABLES["exp_graph_harmonic"].cells[0].recipe


def test_seed_0_is_the_preset_itself() -> None:
    assert get_preset("paper", 0) == PRESETS["paper"]
    assert RECIPE.key(get_preset("paper", 0), "all")["data"] == "standard"


def test_keys_differ_in_the_data_alone() -> None:
    first, second = (RECIPE.key(get_preset("paper", seed), "all") for seed in (0, 1))
    assert second == {**first, "data": "standard, data seed 1"}
    exams = [Exam().key(key, get_preset("paper", seed), RECIPE.spec) for seed, key in enumerate((first, second))]
    assert exams[1] == {**exams[0], "data": "standard, data seed 1"}


@pytest.mark.parametrize("split", ["train", "val"])
def test_training_data_is_that_of_the_seed(split: str) -> None:
    preset = get_preset("smoke", 7)
    data = RECIPE.batches(split, preset)
    drawn = get_task("harmonic").dataset(split, seed=7, count=preset.counts[split])
    other = RECIPE.batches(split, get_preset("smoke"))
    fresh = Batches(drawn, 8, seed=None, sorted_edges=True)
    assert all(torch.equal(value, fresh.values[name]) for name, value in data.values.items())
    assert not torch.equal(data.values["y"], other.values["y"])


def test_test_data_is_that_of_the_seed() -> None:
    preset = get_preset("smoke", 7)
    exam = Exam(structure="tree")
    drawn = get_task("harmonic").dataset("test", seed=7, count=9, structure="tree")
    found = [value for batch in exam.batches(RECIPE.spec, preset) for value in batch.y.tolist()]
    assert found == [data.y.item() for data in drawn]


def test_two_seeds_share_a_folder(tmp_path: Path) -> None:
    tables = [reproduce([SMALL], tmp_path, preset="smoke", jobs=1, data_seed=seed)["tables"][0] for seed in (0, 1, 0)]
    means = [[cell["ours"]["mean"] for cell in table["cells"]] for table in tables]
    assert means[0] == means[2]
    assert all(one != other for one, other in zip(means[0], means[1], strict=True))
    assert [table["meta"]["seed"] for table in tables] == [0, 1, 0]
    kept = {key["data"] for key in Store(tmp_path, create=False).keys("training")}
    assert kept == {"standard", "standard, data seed 1"}
    weights = [
        stored_model(tmp_path, SMALL, "BA", "GNP", preset="smoke", data_seed=seed).state_dict() for seed in (0, 1)
    ]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_given_data_has_no_seed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'data_seed' is for .* the data of real_stat is not generated"):
        reproduce(["real_stat"], tmp_path, preset="smoke", data_seed=1)


def test_a_seed_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="'data_seed' must be at least 0, got -1"):
        get_preset("paper", -1)


def test_command(tmp_path: Path) -> None:
    folder = str(tmp_path)
    options = ["--preset", "smoke", "--out", folder, "--jobs", "1", "--device", "cpu"]
    done = CliRunner().invoke(app, ["reproduce", SMALL, *options, "--data-seed", "3", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "results.json").read_text())["tables"][0]["meta"]["seed"] == 3
    left = CliRunner().invoke(app, ["reproduce", SMALL, *options, "--data-seed", "3", "--dry-run", "--json"])
    assert json.loads(left.stdout)["tables"][SMALL]["done"] == 2
    left = CliRunner().invoke(app, ["reproduce", SMALL, *options, "--dry-run", "--json"])
    assert json.loads(left.stdout)["tables"][SMALL]["done"] == 0
