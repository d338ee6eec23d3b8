"""Tests the pieces of the search for laws one by one, where a found law would not show an error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gnpool.insight.laws import Sample, Term, classes, search, space, trust
from gnpool.insight.laws.points import POINTS, Point
from gnpool.insight.laws.search import Matrix

PAIR = np.array([[0, 1], [1, 0]])  # one edge, both directions


def test_classes_explain_four_fifths_of_four_ranks() -> None:
    values, y = np.array([[1.0, 3.0], [2.0, 1.0], [3.0, 4.0], [4.0, 2.0]]), np.array([0, 0, 1, 1])
    # the ranks less their mean: halves of -1 and 1 in the first column, of -0.5 and 0.5 in the second; 5 in all
    np.testing.assert_allclose(classes._related(values, y, 2), [4 / 5, 1 / 5])


def test_a_fitted_ratio_costs_half_of_the_logarithm_of_the_rows() -> None:
    random = np.random.default_rng(0)
    values = random.random((400, 2))
    y = (values @ [1.0, 0.73] > 0.9).astype(np.int64)
    matrix = Matrix([Term(0, (Point(1.0, 1.0),)), Term(1, (Point(1.0, 1.0),))], values, np.array([1.0, 2.0]), 2)
    fitted = classes._pair_rules(matrix, (0, 1), y)[0]
    assert fitted.factors[1] == pytest.approx(0.73, rel=0.1)
    free = classes.rule_of(matrix, (0, 1), fitted.factors, 0.0, y, 2)
    assert fitted.length - free.length == pytest.approx(math.log(400) / 2 + search.RANGE + search.ANOTHER)


def test_features_of_a_node_are_terms_and_the_one_is_none() -> None:
    sample = Sample.of_arrays(np.random.default_rng(0).random((3, 2)), np.array([3]), PAIR)
    terms, values = space.terms_and_values(sample, "node")
    own = {term.feature: values[:, place] for place, term in enumerate(terms) if not term.poolings}
    assert sorted(own) == [0, 1]
    np.testing.assert_array_equal(own[1], sample.x[:, 1])


def test_all_points_are_tried_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample.of_arrays(np.ones((4, 1)), np.array([2, 2]), PAIR)
    numbers = 2 * 2 * 2 * len(POINTS) ** 2  # two graphs, two features, neighbours with and without the node
    monkeypatch.setattr(space, "MOST_VALUES", numbers)
    assert space._points(sample, "graph", 2) == (POINTS, POINTS)
    monkeypatch.setattr(space, "MOST_VALUES", numbers - 1)
    assert space._points(sample, "graph", 2) == (space._plain(), POINTS)


@pytest.mark.parametrize(("size", "alone"), [(2, False), (3, True)])
def test_nodes_without_neighbours_are_grown_where_there_were_some(size: int, alone: bool) -> None:
    sample = Sample.of_arrays(np.ones((size, 1)), np.array([size]), PAIR)
    edges = trust._edges(sample, 0, 30, 10, "degree", np.random.default_rng(0))
    assert (len(np.unique(edges)) < 30) == alone


@pytest.mark.parametrize("scale", [1.0, 1e-8], ids=["about 1", "of large targets"])
def test_weights_of_rows_do_not_hide_a_law(scale: float) -> None:
    random = np.random.default_rng(0)
    values, weights = random.random((50, 3)) + 0.5, scale * 10 ** random.uniform(-2, 2, 50)
    found = search._screen(values, 3 * values[:, 1], np.zeros(3), weights, False, "relative")
    assert min(found)[1] == (1,)
