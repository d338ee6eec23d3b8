"""The parts of a fit: preprocessing, split, recognition of the task, the choice."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.data import Column, DataError, GraphTable, from_list
from gnpool.fit import Preprocessing, histogram, make_split
from gnpool.fit.answer import _choose, _help
from gnpool.fit.networks import frames
from gnpool.fit.pipeline import pooling_names
from gnpool.fit.prepared import batch_size_for
from gnpool.fit.problem import Problem, recognise
from gnpool.fit.study import Entry

NAN = math.nan


def table_of(values: list[float] | list[int], categories: tuple[str, ...] | None = None) -> GraphTable:
    column = Column("c", np.array(values), categories)
    return GraphTable(np.arange(1), np.array([len(values)]), None, (column,), None)


NUMBERS: dict[str, tuple[list[float], list[list[float]]]] = {
    "negative": ([-3.0, 4.0], [[-3 / math.sqrt(12.5)], [4 / math.sqrt(12.5)]]),
    "zeros": ([0.0, 0.0, 2.0], [[0.0], [0.0], [math.sqrt(3)]]),
    "missing": ([1.0, NAN, 1.0], [[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]),
    "huge": ([-1e300, 1e300], [[-1.0], [1.0]]),
    "tiny": ([1e-300, -1e-300], [[1.0], [-1.0]]),
    "far apart": ([1.0, -1.0, 1.0, 1e6], [[math.log(2)], [-math.log(2)], [math.log(2)], [math.log(1 + 1e6)]]),
    "constant": ([5.0, 5.0], [[1.0], [1.0]]),
    "all missing": ([NAN, NAN], [[1.0], [1.0]]),
}


@pytest.mark.parametrize(("values", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(values: list[float], expected: list[list[float]]) -> None:
    table = table_of(values)
    rules = Preprocessing.learn(table)
    x, notes = rules.apply(table)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x, torch.tensor(expected))
    assert notes == []
    assert rules.width == x.size(1)
    again = Preprocessing.from_dict(rules.to_dict())
    assert again == rules
    assert len(rules.describe()) == 1


def test_categories() -> None:
    rules = Preprocessing.learn(table_of([0, 2, 0, -1], ("C", "H", "<b>")))
    x, _ = rules.apply(table_of([0, 2, 0, -1], ("C", "H", "<b>")))
    assert x.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    x, notes = rules.apply(table_of([0, 1, 2], ("<b>", "C", "Xe")))
    assert x.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert notes == ["1 nodes have a category of 'c' that was not seen in training"]
    numbered = Preprocessing.learn(table_of([0, 1], ("6", "7")))
    assert numbered.apply(table_of([7.0, 6.0]))[0].tolist() == [[0, 1], [1, 0]]
    mixed = Preprocessing.learn(table_of([0, 1, 2, -1], ("6", "7", "x")))
    x, notes = mixed.apply(table_of([7.0, NAN]))  # without words the column is read as numbers
    assert (x.tolist(), notes) == ([[0, 1, 0, 0], [0, 0, 0, 1]], [])


def test_columns_at_prediction() -> None:
    rules = Preprocessing.learn(table_of([1.0, 3.0]))
    other = GraphTable(np.arange(1), np.array([1]), None, (Column("d", np.ones(1)),), None)
    with pytest.raises(DataError, match="the column 'c', which the model was trained with, is missing"):
        rules.apply(other)
    both = GraphTable(np.arange(1), np.array([1]), None, (*other.features, Column("c", np.array([NAN]))), None)
    x, notes = rules.apply(both)
    assert x.tolist() == [[2.0 / np.float32(math.sqrt(5.0))]]
    assert len(notes) == 2
    with pytest.raises(DataError, match="'c' held numbers in training"):
        rules.apply(table_of([0], ("x",)))
    for bad in (table_of([math.inf]), table_of([1.0, math.inf])):
        with pytest.raises(DataError, match="'c' has an infinite value"):
            rules.apply(bad)
    many = tuple(str(k) for k in range(300))
    with pytest.raises(DataError, match="'c' has 300 categories, but at most 256"):
        Preprocessing.learn(table_of(list(range(300)), many))


@pytest.mark.parametrize("rules", [3, [3], [{"name": "a", "kind": "exec"}], [{"nome": "a"}]])
def test_rules_from_a_file_are_checked(rules: Any) -> None:
    with pytest.raises(ValueError, match="'preprocessing'"):
        Preprocessing.from_dict(rules)


def test_split_by_size() -> None:
    sizes = np.random.default_rng(0).integers(5, 30, 200)
    split = make_split(sizes, seed=1)
    parts = split.parts()
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(200))
    smaller = np.concatenate([parts[name] for name in ("train", "validation", "inside")])
    assert sizes[parts["larger"]].min() > sizes[smaller].max()
    assert 0.15 < len(parts["larger"]) / 200 < 0.25
    assert (len(parts["validation"]), len(parts["inside"])) == (30, 30)
    again = make_split(sizes, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(parts.values(), again.parts().values(), strict=True))


def test_other_splits() -> None:
    same = make_split(np.full(50, 7))
    assert same.by == "random"
    assert same.note == "all graphs have 7 nodes: the split is random, not by size"
    assert len(same.larger) == 10
    two = make_split(np.array([5] * 30 + [50] * 30))
    assert sorted(two.larger.tolist()) == list(range(30, 60))
    with pytest.raises(DataError, match="the data has 1 graph; to train, validate and test, at least 10"):
        make_split(np.array([5]))
    with pytest.raises(DataError, match="only 2 graphs below 50 nodes, too few to train with"):
        make_split(np.array([5] * 2 + [50] * 30))
    with pytest.raises(ValueError, match="'split' must be one of"):
        make_split(sizes_of(20), "colour")


def sizes_of(count: int) -> Any:
    return np.arange(1, count + 1)


def test_histogram() -> None:
    sizes = sizes_of(60)
    text = histogram(make_split(sizes))
    lines = text.splitlines()
    assert sum(int(line[15:].split()[0]) for line in lines[1:-1]) == 60
    assert "*" in lines[-2]
    assert "#" not in lines[-2]
    assert histogram(make_split(np.full(20, 3))).splitlines()[1].startswith("              3      20")


def problem_of(y: list[Any], task: str | None = None, categories: tuple[str, ...] | None = None) -> Any:
    table = GraphTable(np.arange(len(y)), np.ones(len(y), dtype=int), None, (), Column("y", np.array(y), categories))
    return recognise(table, table.targets, task)


TASKS: dict[str, tuple[list[Any], tuple[str, ...] | None, str]] = {
    "fractions": ([0.5, 1.5] * 50, None, "regression"),
    "0 and 1": ([0.0, 1.0] * 50, None, "classification"),
    "-1 and 1": ([-1.0, 1.0] * 50, None, "classification"),
    "1 to 6": ([1.0, 2, 3, 4, 5, 6] * 20, None, "classification"),
    "counts": ([3.0, 4, 5, 9] * 20, None, "regression"),
    "counts with a tail": ([*([0.0, 1, 2, 3, 4] * 20), 5, 6, 6], None, "regression"),
    "a rare second class": ([0.0] * 50 + [1.0], None, "classification"),
    "too many": ([float(k) for k in range(100)], None, "regression"),
    "words": ([0, 1] * 20, ("a", "b"), "classification"),
}


@pytest.mark.parametrize(("y", "categories", "task"), TASKS.values(), ids=TASKS)
def test_recognition(y: list[Any], categories: tuple[str, ...] | None, task: str) -> None:
    problem = problem_of(y, categories=categories)
    assert problem.task == task
    assert type(problem).from_dict(problem.to_dict()) == problem


def test_forced_tasks() -> None:
    assert problem_of([0.0, 1.0] * 50, "regression").scale == pytest.approx(math.sqrt(0.5))
    assert problem_of([0, 1] * 20, "regression", ("2", "4")).scale == pytest.approx(math.sqrt(10))
    assert problem_of([3.0, 5.0] * 20, "classification").classes == ("3", "5")
    with pytest.raises(DataError, match="column 'y': the target must be numbers, got words such as 'a'"):
        problem_of([0, 1] * 20, "regression", ("a", "b"))
    with pytest.raises(DataError, match="there is only one class, 'a'"):
        problem_of([0] * 20, None, ("a",))
    with pytest.raises(DataError, match="column 'y': there are 40 classes for 40 graphs"):
        problem_of([float(k) for k in range(40)], "classification")
    with pytest.raises(DataError, match="column 'y': there are 30 classes for 30 graphs"):
        problem_of(list(range(30)), None, tuple(f"name {k:02}" for k in range(30)))
    near, far = (
        GraphTable(np.arange(3), np.ones(3, int), None, (), Column("y", np.array(y)))
        for y in ([1.5, 2, 3], [1.5, 2, -1e150])
    )
    with pytest.raises(DataError, match=r"a target is -1e\+150, but those in training are about 2.2"):
        recognise(far, near.targets)
    for same in (0.0, 3.5):
        with pytest.raises(DataError, match=f"column 'y': all targets are {same:g}: there is nothing to learn"):
            problem_of([same] * 20, "regression")


def test_errors_and_targets() -> None:
    problem = problem_of([2.0, 4.0, 6.0])
    found = problem.summary(np.array([1.0, 0.0, 1.0]), np.array([2.0, 4.0, 6.0]))
    assert found == {
        "error": pytest.approx(1 / 6),
        "absolute": pytest.approx(2 / 3),
        "r2": pytest.approx(1 - (2 / 3) / (8 / 3)),
    }
    none = problem.summary(np.array([1.0, 2.0]), np.zeros(2))
    assert none == {"error": None, "absolute": pytest.approx(1.5), "r2": None}  # relative to nothing
    assert problem.summary(np.array([1.0, math.inf]), np.ones(2)) == {"error": None, "absolute": None, "r2": None}
    huge = problem.summary(np.array([1e300, 0.0, 1e300]), np.array([2e300, 4e300, 6e300]))
    assert huge == {**found, "absolute": pytest.approx(2e300 / 3)}
    batch = Data(y=torch.tensor([1.0, 2.0]))
    assert problem.loss(torch.tensor([[1.0], [4.0]]), batch).tolist() == [0.0, 4.0]
    torch.testing.assert_close(
        problem.error(torch.tensor([[1.0], [4.0]]), batch), torch.tensor([0.0, 2.0 * problem.scale])
    )
    classes = problem_of([0.0, 1.0] * 10)
    batch = Data(y=torch.tensor([0, 1]))
    assert classes.error(torch.tensor([[2.0, 1.0], [2.0, 1.0]]), batch).tolist() == [0.0, 1.0]
    torch.testing.assert_close(classes.loss(torch.zeros(2, 2), batch), torch.full((2,), math.log(2)), check_dtype=False)


def test_the_simplest_that_is_as_good_is_chosen() -> None:
    def entry(label: str, poolings: tuple[str, ...] | None) -> Entry:
        return Entry(label, poolings, torch.nn.Identity(), {}, np.zeros(1), {}, [])

    entries = [entry("GNP", None), entry("GNP*", ("harmonic sum",)), entry("sum", ("sum",))]
    none = np.zeros(3)
    assert _choose(np.array([1.0, 2.0, 3.0]), entries, none, 0.0) == 0
    assert _choose(np.array([1.0, 1.1, 3.0]), entries, np.full(3, 0.5), 0.0) == 1  # within a fifth, and noise
    assert _choose(np.array([1.0, 1.1, 3.0]), entries, none, 0.0) == 0  # surely worse
    assert _choose(np.array([1e-9, 1e-8, 1e-7]), entries, none, 1e-6) == 2  # all exact


HELP = {
    "not needed": "Learned GNP is not better than the best fixed pooling: ",
    "helps": "Learned GNP is better than the best fixed pooling: ",
    "hurts": "Learned GNP is worse than the best fixed pooling: ",
}


@pytest.mark.parametrize("verdict", HELP)
def test_what_is_said_of_gnp_is_the_verdict(verdict: str) -> None:
    gnp, fixed = (
        Entry(label, poolings, torch.nn.Identity(), {}, np.zeros(1), {}, [], {"larger": {"error": error}})
        for label, poolings, error in (("GNP", None, 0.25), ("sum/max", ("sum", "max"), 0.5))
    )
    study: Any = SimpleNamespace(split=SimpleNamespace(by="size", unit="graph"), options=SimpleNamespace(metric="mcc"))
    text = _help(study, gnp, fixed, verdict)
    assert text.startswith(HELP[verdict])
    assert text.endswith("error 25.0 % against 50.0 % of sum/max on the larger graphs.")


def test_small_things() -> None:
    assert [batch_size_for(n) for n in (5, 100, 2000, 60_000)] == [16, 16, 32, 512]
    layers = {"layers.0.aggr": {"positive": "sum"}, "layers.1.aggr": {"positive": "max", "negative": "min"}}
    assert pooling_names(layers, ("aggr",)) == ("sum, then max and min",)
    assert pooling_names({"aggr": {"positive": "sum"}, "readout": {}}, ("aggr", "readout")) == ("sum", "learned")


def test_networks_to_choose_from() -> None:
    words = [frame.describe() for frame in frames(Problem("regression", "node", edges=True))]
    assert words == [
        f"{form}, {layers} layers of messages, {constant} a constant term"
        for form in ("messages, then pooling", "GIN")
        for layers in (2, 3)
        for constant in ("without", "with")
    ]
    words = [frame.describe() for frame in frames(Problem("classification", "graph", edges=True, classes=("a", "b")))]
    assert words == ["messages, then pooling, with a constant term", "GIN, with a constant term"]
    depths = [dict(frame.options)["depth"] for frame in frames(Problem("regression", "graph", edges=False))]
    assert depths == [1, 1, 2, 2]


def test_sets_have_no_edges_to_predict_nodes_with() -> None:
    from gnpool.fit import Options, run_study

    table = from_list([Data(x=torch.ones(2, 1), y=torch.ones(2))] * 12, "node")
    with pytest.raises(DataError, match="must have edges"):
        run_study(table, Options())
