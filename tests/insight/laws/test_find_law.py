"""``find_law`` finds the right laws on small data, prints them, and states how far to trust them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool import find_law
from gnpool.insight.laws import Law, Point, Sample, Term
from gnpool.insight.laws.classes import Rule, search_classes, with_other_cuts
from gnpool.insight.laws.points import FINE, POINTS, pool
from gnpool.insight.laws.probes import permuted_relation
from gnpool.insight.laws.search import Candidate, Matrix, fit, fit_simply, nearest_nice, structure_left
from gnpool.insight.laws.space import terms_and_values, values_at, values_of
from gnpool.insight.laws.trust import certify, grown
from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Stream
from gnpool.tasks.structures import connected_er

INF = math.inf
SUM, MEAN, MAX, MIN = Point(1.0, 1.0), Point(1.0, 0.0), Point(INF, 0.0), Point(-INF, 0.0)


def sets(count, label, seed=0, low=6, high=16, width=1):
    generator = torch.Generator().manual_seed(seed)
    found = []
    for k in range(count):
        x = torch.rand(low + k % (high - low), width, generator=generator, dtype=torch.float64)
        found.append(Data(x=x, y=torch.as_tensor(label(x), dtype=torch.float64).view(1)))
    return found


def graphs(count, label, seed=0, low=8, high=16):
    stream = Stream("laws of tests", seed)
    found = []
    for k in range(count):
        n = stream.integer(low, high)
        graph = connected_er(n, 0.3 + 0.1 * (k % 5), stream)
        x = stream.uniform(n)
        y = torch.tensor(np.atleast_1d(label(x, graph)), dtype=torch.float64)
        found.append(Data(x=torch.from_numpy(x[:, None]), edge_index=torch.from_numpy(graph.edges), y=y))
    return found


def neighbours(reduce, x, graph: Graph):
    return reduce.reduceat(x[graph.edges[0]], graph.starts[:-1])


def medians(x, graph: Graph):
    """The median over the neighbours of each node."""
    return np.array([np.median(part) for part in np.split(x[graph.edges[0]], graph.starts[1:-1])])


SET_LAWS = {
    "sum": (lambda x: x.sum(), "y = sum_i(x_i)"),
    "size": (lambda x: len(x), "y = n"),
    "half of the size to the power -1": (lambda x: 2 / len(x), "y = 2 * 1/n"),
    "L2 norm": (lambda x: x.square().sum().sqrt(), "y = l2_i(x_i)"),
    "L4 norm": (lambda x: (x**4).sum() ** 0.25, "y = l4_i(x_i)"),
    "p = 3/2": (lambda x: (x**1.5).mean() ** (2 / 3), "y = mean_p3/2_i(x_i)"),
    "growth 1/3": (lambda x: len(x) ** (1 / 3) * x.mean(), "y = n^(1/3)*mean_i(x_i)"),
    "geometric": (lambda x: x.log().mean().exp(), "y = geometric_mean_i(x_i)"),
    "two of one sign": (lambda x: 2 * x.max() - x.mean(), "y = -mean_i(x_i) + 2 * max_i(x_i)"),
    "with a constant": (lambda x: x.max() + 7, "y = max_i(x_i) + 7"),
    "a prior": (lambda x: x.sum() / (len(x) + 1), "y = mean_with_0_i(x_i)"),
}


@pytest.mark.parametrize("name", SET_LAWS)
def test_laws_of_sets_are_found_exactly(name):
    label, formula = SET_LAWS[name]
    found = find_law(sets(120, label))
    assert (found.verdict, str(found.law)) == ("law", formula)
    large = sets(3, label, seed=1, low=300, high=303)
    np.testing.assert_allclose(found.law.predict(large), [float(one.y) for one in large], rtol=1e-6)


GRAPH_LAWS = {
    "max of sums": (lambda x, g: neighbours(np.add, x, g).max(), "y = max_v(sum_u(x_u))"),
    "edges": (lambda x, g: g.degree.sum() / 2, "y = 1/2 * sum_v(degree_v)"),
    "closed sums": (lambda x, g: (x + neighbours(np.add, x, g)).max(), "y = max_v(sum_u*(x_u))"),
    "two hops": (
        lambda x, g: neighbours(np.maximum, neighbours(np.add, x, g), g).mean(),
        "y = mean_v(max_u(sum_t(x_t)))",
    ),
    "paths": (
        lambda x, g: (g.degree * (g.degree - 1)).sum() / 2,
        "y = -1/2 * sum_v(degree_v) + 1/2 * sum_v(sum_u(degree_u))",
    ),
    "one hop of nodes": (lambda x, g: neighbours(np.minimum, x, g), "y = min_u(x_u)"),
    "three hops of nodes": (
        lambda x, g: neighbours(np.add, neighbours(np.maximum, neighbours(np.minimum, x, g), g), g),
        "y = sum_u(max_t(min_s(x_s)))",
    ),
    "a node and its neighbours": (lambda x, g: x - 3 * neighbours(np.maximum, x, g), "y = x_v - 3 * max_u(x_u)"),
}


@pytest.mark.parametrize("name", GRAPH_LAWS)
def test_laws_of_graphs_and_nodes_are_found_exactly(name):
    label, formula = GRAPH_LAWS[name]
    found = find_law(graphs(100, label))
    assert (found.verdict, str(found.law)) == ("law", formula)
    large = graphs(2, label, seed=1, low=60, high=61)
    np.testing.assert_allclose(found.law.predict(large), np.concatenate([one.y for one in large]), rtol=1e-6)


def test_noise_does_not_hide_a_law():
    noise = np.random.default_rng(0)
    data = sets(300, lambda x: float(x.max() - x.min()) * (1 + 0.05 * noise.standard_normal()), low=10, high=30)
    found = find_law(data)
    assert found.found
    assert str(found.law) == "y = max_i(x_i) - min_i(x_i)"
    assert 0.04 < found.noise < 0.06


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_found_in_noise(seed):
    noise = np.random.default_rng(seed)
    found = find_law(sets(200, lambda x: noise.standard_normal(), seed=seed))
    assert found.verdict == "nothing"
    assert found.law is None
    assert not found.found


@pytest.mark.parametrize(
    "label", [torch.median, torch.std, lambda x: x.max() * x.min()], ids=["median", "std", "product"]
)
def test_what_is_outside_is_called_approximate(label):
    found = find_law(sets(400, label, low=10, high=20))
    assert found.verdict == "approximate"
    assert not found.found
    assert not found.alternatives


def test_a_tie_that_larger_sizes_would_break_is_undecided():
    """With 5 % noise sum / (n + 1) and a smaller mean cannot be told apart at 20 to 29 elements."""
    noise = np.random.default_rng(1)
    data = sets(300, lambda x: 1.1 * float(x.mean()) * (1 + 0.05 * noise.standard_normal()), low=20, high=30)
    found = find_law(data)
    assert found.verdict == "undecided"
    assert "mean_with_0" in " ".join(map(str, found.alternatives))
    assert "mean_i(x_i)" in str(found.law)


def test_a_factor_of_one_is_more_likely_than_another_simple_one():
    """The mean of the noise is 2.5 standard errors from 0. A fitted number would fit the noise; 1 is right."""
    noise = np.random.default_rng(1).standard_normal(400)
    noise = (noise - noise.mean()) / noise.std() + 2.5 / 20
    draws = iter(noise.tolist())
    found = find_law(sets(400, lambda x: float(x.max()) * (1 + 0.05 * next(draws))))
    assert (found.verdict, str(found.law)) == ("law", "y = max_i(x_i)")


def with_mean_of_noise(count, errors):
    """Noise of size 1, with a mean that is the given number of standard errors from 0."""
    noise = np.random.default_rng(1).standard_normal(count)
    return (noise - noise.mean()) / noise.std() + errors / math.sqrt(count)


@pytest.mark.parametrize(("errors", "factor"), [(3.5, 1.0), (6.0, 1 + 0.05 * 6 / 20)])
def test_a_law_has_a_fitted_factor_only_if_no_simple_one_could_be_meant(errors, factor):
    """At 3.5 standard errors a fitted factor has the shorter description, but a factor of 1 is still a rival."""
    draws = iter(with_mean_of_noise(400, errors).tolist())
    found = find_law(sets(400, lambda x: float(x.max()) * (1 + 0.05 * next(draws))))
    assert found.found
    assert found.law.factors == pytest.approx((factor,), rel=2e-3 if factor > 1 else 0)


def test_numbers_of_many_targets_are_chosen_by_all_of_them():
    """The first 1,000 sets do not speak against 1; all 4,000 do."""
    random = np.random.default_rng(0)
    found = find_law(
        sets(4000, lambda x: 1.006 * float(x.max()) * (1 + 0.05 * random.standard_normal()), low=3, high=6)
    )
    assert found.law.factors == pytest.approx((1.006,), abs=3 * 0.05 / math.sqrt(4000))
    assert found.law.factors != (1.0,)


def test_an_approximate_formula_is_not_trusted_where_a_constant_is_as_near():
    """A constant errs by less than three times the formula's error, so the formula says nothing about larger sizes."""
    data = graphs(60, medians, low=20, high=30)
    found, y = find_law(data), torch.cat([one.y for one in data])
    assert found.verdict == "approximate"
    assert found.tolerance > float((y - y.median()).abs().mean() / y.abs().mean())
    assert found.trusted_size == found.largest == 29


def test_features_have_the_names_they_are_given():
    found = find_law(sets(100, lambda x: x[:, 1].max(), width=2), features=["mass", "charge"])
    assert str(found.law) == "y = max_i(charge_i)"


REFUSED = {
    "few": (lambda: sets(10, torch.sum), {}, "at least 30 targets"),
    "must be finite": (lambda: sets(40, lambda x: math.nan), {}, "must be finite"),
    "names": (lambda: sets(40, torch.sum), {"features": ["a", "b"]}, "1 columns, but .* 2 names"),
    "no graphs": (list, {}, "is empty"),
    "no targets": (lambda: [Data(x=torch.ones(3, 1))] * 40, {}, "target 'y'"),
    "half a class": (lambda: sets(40, lambda x: 0.5), {"classes": True}, "numbered from 0"),
    "shape of y": (lambda: [Data(x=torch.ones(3, 1), y=torch.ones(2))] * 40, {}, "one number for each graph"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_searched_is_refused(name):
    make, options, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        find_law(make(), **options)


CLASSES = {
    "a threshold": (lambda x: float(x.mean() > 0.5), "y = 0 if mean_i(x_i) <= 0.5, else 1"),
    "the other way round": (lambda x: float(x.max() <= 0.9), "y = 1 if max_i(x_i) <= 0.9, else 0"),
    "three classes": (
        lambda x: float(len(x) > 8) + float(len(x) > 12),
        "y = 0 if n <= 8.5, 1 if n <= 12.5, else 2",
    ),
    "two terms": (lambda x: float(x.max() - x.min() > 0.8), "y = 0 if max_i(x_i) - min_i(x_i) <= 0.8, else 1"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_laws_of_classes(name):
    label, formula = CLASSES[name]
    data = sets(500, label)
    found = find_law(data, classes=True)
    assert found.found
    words = str(found.law)
    assert words.split("<=")[0] == formula.split("<=")[0]
    assert found.noise == 0.0
    large = sets(200, label, seed=2)
    assert (found.law.predict(large) == np.array([float(one.y) for one in large])).mean() >= 0.98


def test_wrong_labels_do_not_hide_classes():
    flips = np.random.default_rng(0)
    data = sets(400, lambda x: float((x.mean() > 0.5) != (flips.random() < 0.05)))
    found = find_law(data, classes=True)
    assert found.found
    assert "mean_i(x_i)" in str(found.law)
    assert 0.02 < found.noise < 0.08


def test_classes_at_random_are_nothing():
    draws = np.random.default_rng(0)
    assert find_law(sets(200, lambda x: float(draws.integers(2))), classes=True).verdict == "nothing"


# -- the parts


@pytest.mark.parametrize("point", FINE[::7], ids=lambda point: point.name)
def test_pool_is_the_formula(point):
    x = np.array([[0.5], [2.0], [3.0], [0.25]])
    starts = np.array([0, 3, 3, 4])
    for segment, rows in ((0, x[:3, 0]), (2, x[3:, 0])):
        n = len(rows)
        if math.isinf(point.p):
            mean = rows.max() if point.p > 0 else rows.min()
        elif point.p == 0:
            mean = math.exp(np.log(rows).mean())
        else:
            mean = (rows**point.p).mean() ** (1 / point.p)
        if not point.joined:
            assert pool(x, starts, [point])[segment, 0, 0] == pytest.approx(n**point.growth * mean, rel=1e-12)
    assert pool(x, starts, [point])[1, 0, 0] == 0.0


def test_joined_points():
    x, starts = np.array([[0.5], [2.0]]), np.array([0, 2])
    values = dict(zip((point.name for point in POINTS), pool(x, starts, POINTS)[0, 0], strict=True))
    assert values["mean_with_0"] == pytest.approx(2.5 / 3)
    assert values["harmonic_sum_with_1"] == pytest.approx(1 / (1 + 2 + 0.5))


def test_powers_that_do_not_exist_are_left_out():
    x, starts = np.array([[-1.0], [2.0]]), np.array([0, 2])
    values = dict(zip((point.name for point in POINTS), pool(x, starts, POINTS)[0, 0], strict=True))
    assert (values["sum"], values["max"], values["min"]) == (1.0, 2.0, -1.0)
    assert math.isnan(values["geometric_mean"])
    assert math.isnan(values["harmonic_mean"])


def test_prices_are_probabilities():
    """The prior shares of all points sum to at most 1, and the common points are the cheapest."""
    assert sum(math.exp(-point.cost) for point in FINE) <= 1.0
    assert max(point.cost for point in (SUM, MEAN, MAX, MIN)) < min(
        point.cost for point in FINE if point not in (SUM, MEAN, MAX, MIN)
    )


def test_values_of_every_term_are_those_of_the_matrix():
    sample = Sample.of(graphs(6, lambda x, g: x.sum()))
    terms, values = terms_and_values(sample, "graph")
    for k in range(0, len(terms), 97):
        np.testing.assert_array_equal(values_of(terms[k], sample), values[:, k])


def test_values_at_puts_points_into_one_place():
    sample = Sample.of(graphs(4, lambda x, g: x.sum()))
    term = Term(0, (SUM, MAX))
    for place in (0, 1):
        columns = values_at(term, place, (MEAN, MIN), sample)
        for k, point in enumerate((MEAN, MIN)):
            poolings = (point, MAX) if place == 0 else (SUM, point)
            np.testing.assert_array_equal(columns[:, k], values_of(Term(0, poolings), sample))


def test_a_selection_of_graphs_is_those_graphs():
    data = graphs(5, lambda x, g: x.sum())
    part, same = Sample.of(data).select(np.array([3, 1])), Sample.of([data[3], data[1]])
    for name in ("x", "starts", "sources", "edge_starts"):
        np.testing.assert_array_equal(getattr(part, name), getattr(same, name))


def test_simple_factors_win_where_they_fit():
    x = np.random.default_rng(0).random((200, 2))
    exact = fit(x, x @ [2.0, -0.5], 0.0, (0, 1), False, "constant")
    assert exact.coefficients == (2.0, -0.5)
    assert exact.fitted_numbers == 0
    odd = fit(x, x @ [2.0, -0.63], 0.0, (0, 1), False, "constant")
    assert odd.coefficients == pytest.approx((2.0, -0.63), rel=1e-6)
    assert odd.fitted_numbers == 1


@pytest.mark.parametrize(("factor", "near"), [(0.9, 1.0), (-2.2, -2.0), (0.26, 0.25), (-1e-9, -0.25), (17.0, 4.0)])
def test_nearest_nice(factor, near):
    assert nearest_nice(factor) == near


def test_equal_terms_are_one_and_the_cheaper_stays():
    sample = Sample.of([Data(x=torch.ones(n, 1), y=torch.ones(1)) for n in (2, 3, 5)])
    matrix = Matrix.of(*terms_and_values(sample, "set"), 1)
    names = [term.describe(("x",), "i") for term in matrix.terms]
    assert "n" in names
    assert "sum_i(x_i)" not in names  # the feature is 1: its sum is n


def test_structure_is_seen_and_noise_is_not():
    random = np.random.default_rng(3)
    x = random.random(300)
    noise = 0.1 * random.standard_normal(300)
    law = Candidate((0,), False, "constant", (1.0,), (0.0,), 0.1, 0.0)
    probes = np.column_stack([x**2, random.random(300)])
    chance = structure_left(law, x[:, None], probes, probes, x + noise)
    bent = structure_left(law, x[:, None], probes, probes, x + noise + 0.8 * (x - 0.5) ** 2)
    assert chance > 0.05
    assert bent < 0.005


def test_a_relation_is_measured_against_random_orders():
    random = np.random.default_rng(0)
    columns, target = random.random((100, 5)), random.random(100)
    assert permuted_relation(columns, target[:, None]) > 0.05
    assert permuted_relation(columns, columns[:, [2]] + 0.1 * target[:, None]) < 0.005
    assert permuted_relation(np.ones((100, 2)), target[:, None]) == 1.0
    assert permuted_relation(columns, np.ones((100, 1))) == 1.0


def test_cuts_lie_in_the_gap():
    matrix = Matrix([Term(0, (SUM,))], np.array([[1.0], [2.0], [3.4], [3.9]]), np.array([1.0]), 1)
    (rule, *_) = search_classes(matrix, np.array([0, 0, 1, 1]), 2)
    assert isinstance(rule, Rule)
    assert rule.wrong == 0
    assert 2.0 <= rule.cuts[0] < 3.4
    assert rule.order == (0, 1)


def test_other_cuts_are_those_that_the_classes_allow():
    scores = np.arange(1.0, 201.0)
    matrix = Matrix([Term(0, (SUM,))], scores[:, None], np.array([1.0]), 1)
    classes = (scores > 100).astype(np.int64)
    (rule, *_) = search_classes(matrix, classes, 2)
    odds = 1.5 * math.log(200)  # one error costs log(400), a second one log(133)
    low, high = with_other_cuts(rule, matrix, classes, 2, odds)
    assert (low.cuts[0], high.cuts[0]) == (99.0, pytest.approx(102.0))
    none = with_other_cuts(rule, matrix, classes, 2, 0.0)
    assert [one.cuts[0] for one in none] == [100.0, pytest.approx(101.0)]
    assert [(one.predict(matrix.values) != classes).sum() for one in (low, high, *none)] == [1, 1, 0, 0]


def test_simple_numbers_win_up_to_the_odds():
    x = 1 + np.random.default_rng(0).random((400, 1))
    y = x[:, 0] * (1 + 0.05 * with_mean_of_noise(400, 3.5))
    assert fit(x, y, 0.0, (0,), False, "relative").fitted_numbers == 1
    assert fit_simply(x, y, 0.0, (0,), False, "relative", 0.0).fitted_numbers == 1
    assert fit_simply(x, y, 0.0, (0,), False, "relative", 7.0).coefficients == (1.0,)
    assert fit_simply(x, 1.5 * y, 0.0, (0,), False, "relative", 7.0).fitted_numbers == 1


# -- trust


def test_trust_of_classes_ends_where_other_cuts_part():
    """The mean of a large set lies near the cut, where a cut that fits as well gives another class."""
    near, far = (find_law(sets(300, lambda x, c=c: float(x.mean() > c)), classes=True) for c in (0.5, 0.7))
    assert near.verdict == far.verdict == "law"
    assert near.trusted_size < far.trusted_size == 16 * 15


@pytest.mark.parametrize("way", ["degree", "density"])
def test_grown_graphs_keep_degree_or_density(way):
    sample = Sample.of(graphs(40, lambda x, g: x.sum()))
    larger = grown(sample, 4, way)
    degree, usual = np.diff(larger.edge_starts), np.diff(sample.edge_starts).mean()
    assert np.diff(larger.starts).mean() == pytest.approx(4 * np.diff(sample.starts).mean(), rel=0.25)
    wanted = usual if way == "degree" else 4 * usual
    assert degree.mean() == pytest.approx(wanted, rel=0.25)
    assert degree.min() > 0


def test_shares_of_classes_are_measured_on_more_grown_graphs():
    """A cut one hundredth of the spread away gives other classes to about one set in a hundred."""
    sample = Sample.of(sets(60, torch.sum, low=8, high=9))
    law, near = (Law((Term(0, (MAX,)),), (1.0,), 0.0, "set", ("x",), (cut,), (0, 1)) for cut in (0.97, 0.98))
    trust = certify(sample, "set", law, [near], 1.0)
    larger = grown(sample, 2, "degree", count=100)
    assert len(larger.starts) == 101
    assert 0.0 < trust.apart < 0.5
    assert trust.apart * 100 == pytest.approx(round(trust.apart * 100))


def test_trust_ends_where_rivals_part():
    """x n / 8 and x differ by a factor that grows with the size; at twice the size they differ by more than 10 %."""
    sample = Sample.of(sets(60, torch.sum, low=8, high=9))
    law = Law((Term(0, (MEAN,)),), (1.0,), 0.0, "set", ("x",))
    near = Law((Term(0, (Point(1.0, 0.25),)),), (8**-0.25,), 0.0, "set", ("x",))
    same = Law((Term(0, (MEAN,)),), (1.001,), 0.0, "set", ("x",))
    assert certify(sample, "set", law, [same], 0.01).size == 16 * 8
    trust = certify(sample, "set", law, [same, near], 0.25)
    assert trust.size == 2 * 8  # 2^(1/4) - 1 = 0.19, 4^(1/4) - 1 = 0.41
    assert trust.apart == pytest.approx(2**0.25 - 1, rel=1e-6)
    assert trust.parted == pytest.approx((0.001, 1.0), rel=1e-6)  # 16^(1/4) - 1


def test_trust_ends_where_the_error_would_grow():
    sample = Sample.of(sets(60, torch.sum, low=8, high=9))
    law = Law((Term(0, (MEAN,)),), (1.0,), 0.0, "set", ("x",))
    assert certify(sample, "set", law, [], 0.1, error=0.03, slope=1.0).size == 2 * 8
    assert certify(sample, "set", law, [], 0.1, error=0.03, slope=0.0).size == 16 * 8


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (lambda x: x.sum(), "y = sum_i(x_i)"),
        (lambda x: x.mean(), "y = mean_i(x_i)"),
        (lambda x: x.max() - x.min(), "y = max_i(x_i) - min_i(x_i)"),
    ],
    ids=["sum", "mean", "range"],
)
def test_sets_of_one_size_cannot_tell_growths_apart(target, name):
    generator = torch.Generator().manual_seed(0)
    draws = [torch.rand(30, 1, generator=generator) for _ in range(200)]
    found = find_law([Data(x=x, y=target(x).view(1)) for x in draws])
    assert (found.verdict, str(found.law), found.trusted_size) == ("undecided", name, 30)
    larger = Data(x=torch.rand(300, 1, generator=generator))
    assert found.law.predict([larger])[0] == pytest.approx(float(target(larger.x)), rel=1e-5)
    assert any(abs(one.predict([larger])[0] / found.law.predict([larger])[0] - 1) > 0.5 for one in found.alternatives)


def test_classes_of_sets_of_one_size_have_rivals_too():
    generator = torch.Generator().manual_seed(0)
    draws = [torch.rand(30, 1, generator=generator) for _ in range(200)]
    found = find_law([Data(x=x, y=(x.mean() > 0.5).long()) for x in draws], classes=True)
    assert found.verdict == "undecided"
    assert found.trusted_size == 30


def test_terms_that_are_equal_everywhere_are_no_rivals():
    generator = torch.Generator().manual_seed(0)
    sizes = [int(torch.randint(5, 15, (), generator=generator)) for _ in range(100)]
    found = find_law([Data(x=torch.ones(n, 1), y=torch.tensor([1.0 / n])) for n in sizes])
    assert (found.verdict, str(found.law), found.alternatives) == ("law", "y = 1/n", ())


def test_a_class_that_never_occurs_is_never_predicted():
    generator = torch.Generator().manual_seed(0)
    draws = [torch.rand(3 + k % 7, 1, generator=generator) for k in range(100)]
    found = find_law([Data(x=x, y=2 * (x.max() > 0.9).long()) for x in draws], classes=True)
    assert (found.verdict, found.law.order) == ("law", (0, 2))
    assert found.law.predict([Data(x=torch.full((5, 1), value)) for value in (0.1, 100.0)]).tolist() == [0.0, 2.0]
    assert find_law([Data(x=x, y=torch.tensor(3)) for x in draws], classes=True).verdict == "nothing"


def test_features_that_are_not_finite_are_an_error():
    given = sets(40, lambda x: x.sum())
    given[7].x[0] = math.nan
    with pytest.raises(ValueError, match="every feature must be finite"):
        find_law(given)


def test_an_empty_graph_is_an_error():
    given = sets(40, lambda x: x.sum())
    given[7] = Data(x=torch.zeros(0, 1), y=torch.zeros(1))
    with pytest.raises(ValueError, match="graph 7"):
        find_law(given)


def test_targets_must_be_as_many_as_the_level_says():
    given = [Data(x=one.x, y=torch.ones(1, 2)) for one in sets(40, lambda x: x.sum())]
    with pytest.raises(ValueError, match="there must be 40 targets, got 80"):
        find_law(given, level="set")


def test_graphs_have_the_same_features():
    given = sets(40, lambda x: x.sum())
    given[3].x = given[3].x.repeat(1, 2)
    with pytest.raises(ValueError, match=r"same features, got \[1, 2\] columns"):
        find_law(given)


def test_a_law_of_classes_without_rivals_says_how_far_its_cuts_reach():
    found = find_law(sets(100, lambda x: float(x.mean() > 0.5)), classes=True)
    assert (found.verdict, found.rivals) == ("law", ())
    assert found.trusted_size < 16 * found.largest
    assert str(found.trusted_size) in found.trust()
