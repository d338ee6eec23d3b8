"""The nearest combinations are proposed first, and the simplest of equals; never one that keeps every layer learned."""

from __future__ import annotations

import itertools

from gnpool.display.poolings import NAMES
from gnpool.insight.crystal import names_in
from gnpool.insight.proposals import combinations, is_part, neighbours
from gnpool.insight.reading import BranchReading, Reading

POSITIVE = ("sum", "mean", "max", "L2 norm", "root mean square")
NEGATIVE = ("min", "harmonic sum", "harmonic mean")


def branch(layer, name, share, **distances):
    known = {n.replace(" ", "_"): n for n in (*POSITIVE, *NEGATIVE, "geometric mean")}
    names = {"positive": POSITIVE, "negative": NEGATIVE, "one": [one.name for one in NAMES]}[name]
    ranking = sorted({n: distances.get(n.replace(" ", "_"), 0.9) for n in names}.items(), key=lambda pair: pair[1])
    assert set(distances) <= set(known)
    return BranchReading(layer, name, 1.5, 0.0, ranking[0][0], ranking[0][1], share, True, tuple(ranking))


def layer(path, positive, negative, share):
    return [branch(path, "positive", share, **positive), branch(path, "negative", 1 - share, **negative)]


def first(reading, count):
    return list(itertools.islice(combinations(reading), count))


def test_nearest_first():
    reading = Reading(tuple(layer("pool", {"mean": 0.01, "sum": 0.3}, {"min": 0.02}, 0.99)), True)
    found = first(reading, 3)
    assert found[0] == {"pool": {"positive": "mean"}}
    assert found[1] == {"pool": {"positive": "mean with a 0"}}  # its neighbour with an element more


def test_one_branch_comes_before_two():
    reading = Reading(tuple(layer("pool", {"max": 0.01}, {"min": 0.05}, 0.8)), True)
    found = first(reading, 20)
    assert found[0] == {"pool": {"positive": "max"}}
    assert {"pool": {"positive": "max", "negative": "min"}} in found


def test_one_branch_is_tried_with_names_of_either_sign_nearest_first():
    near = {"geometric_mean": 0.01, "min": 0.02, "sum": 0.03, "max": 0.6}
    found = list(combinations(Reading((branch("pool", "one", 1.0, **near),), True)))
    assert found[:4] == [{"pool": {"one": name}} for name in ("geometric mean", "min", "sum", "max")]
    two = Reading((branch("a", "one", 1.0, **near), branch("b", "one", 1.0, mean=0.0)), True)
    assert first(two, 1) == [{"a": {"one": "geometric mean"}, "b": {"one": "mean"}}]


def test_names_that_do_the_same_are_tried_once():
    same = {"sum": 0.2, "mean": 0.05, "max": 0.05, "root_mean_square": 0.05}
    reading = Reading(tuple(layer("aggr", same, {"min": 0.5}, 1.0)), True)
    tried = [names.get("positive") for poolings in combinations(reading) for names in poolings.values()]
    assert "mean" in tried
    assert "max" not in tried
    assert "root mean square" not in tried


def test_never_everything_learned_and_nothing_twice():
    branches = layer("a", {"sum": 0.1}, {"min": 0.1}, 0.5) + layer("b", {"max": 0.1}, {"min": 0.1}, 0.5)
    found = list(combinations(Reading(tuple(branches), True)))
    assert all(any(poolings.values()) for poolings in found)
    assert {"a": {}, "b": {"positive": "max"}} in found  # one layer may stay learned
    assert len({str(poolings) for poolings in found}) == len(found)


def test_of_many_layers_those_with_one_pooling_in_all_come_early():
    branches = []
    for k, name in enumerate(("max", "sum", "L2_norm")):
        branches += layer(f"layers.{k}", {name: 0.01}, {"min": 0.3}, 0.6)
    found = first(Reading(tuple(branches), True), 16)
    assert {f"layers.{k}": {"negative": "min"} for k in range(3)} in found


def test_one_step_away():
    found = list(neighbours({"pool": {"one": "max"}}, {"pool": ["one"]}))
    texts = [poolings["pool"]["one"] for poolings in found]
    assert {"max and min", "mean and max"} <= set(texts[:10])
    assert texts[10:13] == ["cubic mean", "n^(-1/2) max", "n^(1/2) max"]  # one step on the lattice
    assert {"sum", "mean with a 0", "geometric mean"} <= set(texts[13:])
    assert len(texts) == len(set(texts)) == 23
    pair = [poolings["pool"] for poolings in neighbours({"pool": {"one": "mean and min"}}, {"pool": ["one"]})]
    for text in ("mean and max", "sum and min", "mean", "min"):
        assert {"one": text} in pair
    assert not any(len(names_in(names["one"])) > 2 for names in pair)


def test_one_step_away_in_two_branches():
    found = list(neighbours({"a": {"positive": "max"}, "b": {}}, {"a": ["positive", "negative"], "b": ["one"]}))
    assert all(poolings["b"] == {} for poolings in found)  # what stays learned is left as it is
    assert {"a": {"positive": "mean and max"}, "b": {}} in found
    assert {"a": {"positive": "max", "negative": "min"}, "b": {}} in found
    assert {"a": {"positive": "sum"}, "b": {}} in found
    assert all(is_part({"a": {"positive": "max"}, "b": {}}, poolings) for poolings in found[:6])


def test_parts():
    both = {"a": {"one": "mean and min"}, "b": {"one": "sum"}}
    assert is_part({"a": {"one": "min"}, "b": {"one": "sum"}}, both)
    assert not is_part({"a": {"one": "max"}, "b": {"one": "sum"}}, both)
    assert not is_part({"a": {}, "b": {"one": "sum"}}, both)
