"""Recipes and exams with the same data share one copy of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from gnpool.lab import PRESETS
from gnpool.lab.recipes import EVALUATION_BATCH, Exam
from gnpool.lab.recipes.models import graph_fixed, graph_gnp, node, set_model
from gnpool.lab.running.data import DataCache, Wanted
from gnpool.tasks import get_task
from gnpool.training import Batches

SMOKE = PRESETS["smoke"]
RECIPES = [
    graph_gnp("harmonic"),
    graph_gnp("harmonic", "tree"),
    node("shortest", "gnp"),
    set_model("mu_post", "basic/gnp"),
]


def same(mine: Batches, theirs: Batches) -> None:
    assert mine.describe() == theirs.describe()
    for one, other in zip(mine.epoch(3), theirs.epoch(3), strict=True):
        assert one.fields.keys() == other.fields.keys()
        for name, value in one.fields.items():
            assert (
                torch.equal(value, other.fields[name])
                if isinstance(value, torch.Tensor)
                else value == other.fields[name]
            )


def drawn(wanted: Wanted) -> list[Data]:
    """The data that is asked for, straight from its task."""
    return get_task(wanted.task).dataset(wanted.split, **dict(wanted.options))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"{recipe.task} {recipe.data}")
def test_batches_are_those_of_the_data(recipe: Any) -> None:
    edges = recipe.spec.level != "set"
    train, val = (drawn(recipe.wanted(split, SMOKE)) for split in ("train", "val"))
    same(recipe.batches("train", SMOKE), Batches(train, 16, seed=0, sorted_edges=edges))
    whole = Batches(val, EVALUATION_BATCH, seed=None, sorted_edges=edges)
    same(recipe.batches("val", SMOKE), whole)
    exam = Exam(structure="tree") if recipe.spec.structures else Exam()
    test = drawn(exam.wanted(recipe.spec, SMOKE))
    fresh = Batches(test, exam.batch_size(recipe.spec), seed=None, sorted_edges=edges)
    for one, other in zip(exam.batches(recipe.spec, SMOKE), fresh, strict=True):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)


def test_recipes_with_the_same_data_share_it() -> None:
    first, second = graph_fixed("harmonic", "sum", "max"), graph_gnp("harmonic")
    assert first.batches("train", SMOKE) is second.batches("train", SMOKE)
    assert first.batches("train", SMOKE) is not graph_gnp("harmonic", "tree").batches("train", SMOKE)
    assert first.batches("train", SMOKE) is not graph_gnp("invsize").batches("train", SMOKE)


def test_threads_wait_for_the_one_that_makes_it() -> None:
    cache, made, together = DataCache(), [], threading.Barrier(4)

    def ask(_: int) -> Any:
        together.wait(60)
        return cache.held("key", lambda: made.append(1) or object())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert len(made) == 1
    assert all(one is found[0] for one in found)


def test_only_the_last_are_kept() -> None:
    cache = DataCache(kept=2)
    first = [cache.held(key, object) for key in "aba"]
    assert first[0] is first[2]
    cache.held("c", object)  # in place of b, which was not asked for since
    assert cache.held("a", object) is first[0]
    assert cache.held("b", object) is not first[1]


def test_a_failure_is_not_kept() -> None:
    cache = DataCache()
    with pytest.raises(ZeroDivisionError):
        cache.held("key", lambda: 1 / 0)
    assert cache.held("key", lambda: 5) == 5


def test_graphs_are_not_kept_beside_their_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DataCache()
    cache.batches(Wanted.of("harmonic", "val", 4, None, count=8, structure=None))
    ((_, (held,)),) = cache._found.values()
    assert isinstance(held, Batches)
    asked: list[str] = []
    monkeypatch.setattr("gnpool.lab.running.data.get_task", lambda name: asked.append(name) or get_task(name))
    assert cache.batches(Wanted.of("harmonic", "val", 4, None, count=8)) is held
    assert asked == []
    assert cache.batches(Wanted.of("harmonic", "val", 8, None, count=8)) is not held
    assert asked == ["harmonic"]
