"""results/ has few and small files, with everything that the documentation's commands read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gnpool.lab import get_preset
from gnpool.lab.recipes.crystallized import crystallized
from gnpool.lab.recipes.models import GRAPH_TASKS, SET_TASKS
from gnpool.lab.recipes.stored import models_of, stored, stored_model
from gnpool.store import Record, Store
from tools.pack_results import KEPT, drop
from tools.pretrained import NODE_TASKS, recipe_of

RESULTS = Path(__file__).parents[1] / "results"
PAPER = get_preset("paper")


@pytest.fixture(scope="module")
def store() -> Store:
    return Store(RESULTS / "paper", create=False)


@pytest.fixture(scope="module")
def trainings(store: Store) -> list[Record]:
    return list(store.records("training", tensors=True))


def test_they_are_few_and_small() -> None:
    ignored = {"quick", "smoke", "locks", "checkpoints", "results.json", "report.html"}  # by .gitignore
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    kept = [path for path in files if not ignored & set(path.relative_to(RESULTS).parts)]
    assert len(kept) <= 60
    assert sum(path.stat().st_size for path in kept) <= 20e6


def test_nothing_in_the_store_is_damaged(store: Store) -> None:
    assert len(store.keys()) == 2205
    assert store.verify() == []


def test_every_training_has_its_validation_curves(trainings: list[Record]) -> None:
    assert len(trainings) == 307
    for one in trainings:
        assert {"curve/train", "curve/loss", "curve/metric"} <= (one.tensors or {}).keys()
        assert not any(name.startswith("curve/") for name in one.dropped)


def test_what_was_dropped_is_what_nothing_reads(trainings: list[Record]) -> None:
    for one in trainings:
        assert all(drop(one.key, name) for name in one.dropped)
        assert not any(drop(one.key, name) for name in one.tensors or {})


@pytest.mark.parametrize("task", [*GRAPH_TASKS, *NODE_TASKS, *SET_TASKS])
def test_networks_that_commands_of_the_documentation_read(store: Store, task: str) -> None:
    for recipe in (recipe_of(task), crystallized(recipe_of(task))):
        assert list(models_of(stored(store, recipe, PAPER))) == [0, 1, 2, 3, 4]


def test_a_network_whose_weights_were_dropped_is_one_line(store: Store) -> None:
    with pytest.raises(ValueError, match=r"the tensors 'loss/\.\.\.' of .*'basic, sum'.* were dropped when the store"):
        stored_model(store, "set", "basic/sum")


def test_curves_alone_are_no_weights(trainings: list[Record]) -> None:
    def told(key: dict[str, Any]) -> tuple[Any, ...]:
        return key["task"], key["data"], key["model"]

    whole = {told(one.key) for one in trainings if any(name.startswith("loss/") for name in one.tensors or {})}
    assert whole == {
        *((task, data, model) for data in KEPT for task in GRAPH_TASKS for model in ("gnp", "gnp, gin")),
        *((task, "standard", "gnp") for task in NODE_TASKS),
        ("bfs", "standard, data seed 2", "gnp"),
        *((task, data, "basic, gnp") for data in KEPT for task in SET_TASKS),
    }
