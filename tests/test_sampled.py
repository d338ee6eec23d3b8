"""In the study of sampled neighbours ``sizes`` removes the bias, and the table is that of the raw outcomes."""

import numpy as np
import pytest
import torch

from studies import sampled
from studies.files import read_runs


@pytest.fixture(scope="module")
def found():
    return {(one["law"], one["fanout"], one["sizes"]): one for one in sampled.study(nodes=150, draws=40, seed=1)}


@pytest.mark.parametrize("fanout", sampled.FANOUTS)
def test_sum_and_mean_are_right_on_average(found, fanout):
    for law in ("sum", "mean"):
        assert abs(sampled.bias(found[law, fanout, True])) < 1.0
    assert sampled.bias(found["sum", fanout, False]) < -50.0


@pytest.mark.parametrize("fanout", sampled.FANOUTS)
def test_max_and_min_are_those_of_the_sample(found, fanout):
    for law in ("max", "min"):
        assert found[law, fanout, True] == {**found[law, fanout, False], "sizes": True}


@pytest.mark.parametrize("law", ["L2", "harmonic sum", "max", "min"])
def test_the_bias_of_the_others_shrinks_with_the_fan_out(found, law):
    few, some, many = (sampled.bias(found[law, fanout, True]) for fanout in sampled.FANOUTS)
    assert abs(few) > abs(some) > abs(many)
    assert (few < 0) == (law in ("L2", "max"))  # Jensen: a root of a mean is low, an inverse high


@pytest.mark.parametrize("law", sampled.CURVED)
def test_the_correction_takes_away_most_of_the_bias(law):
    found = sampled.corrections(nodes=150, draws=40, seed=1)
    by_key = {(one["features"], one["law"], one["fanout"], one["corrected"]): sampled.bias(one) for one in found}
    assert abs(by_key["uniform", law, 5, True]) < abs(by_key["uniform", law, 5, False]) / 2
    assert abs(by_key["log-normal", law, 5, True]) < 0.8 * abs(by_key["log-normal", law, 5, False])
    for fanout in sampled.FANOUTS:
        assert abs(by_key["uniform", law, fanout, True]) < 0.6


def test_the_correction_is_nothing_where_nothing_was_left_out():
    lists = sampled.graph(20, np.random.default_rng(0))
    sizes = torch.tensor([*map(len, lists)])
    assert torch.equal(sampled.corrected(lists, "L2", sizes), sampled.pooled(lists, "L2", sizes))


def test_the_largest_degree():
    lists = sampled.graph(20, np.random.default_rng(0))
    assert max(map(len, lists)) == sampled.MOST
    assert torch.equal(
        sampled.pooled(lists, "sum", None), sampled.pooled(lists, "sum", torch.tensor([*map(len, lists)]))
    )


def test_the_page_is_in_step_with_the_raw_outcomes():
    page = sampled.PAGE.read_text(encoding="utf-8")
    assert sampled.filled(page, read_runs(sampled.RESULTS)) == page
