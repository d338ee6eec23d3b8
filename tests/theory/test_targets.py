from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

from gnpool.theory import (
    TARGETS,
    NormReadout,
    Target,
    feature_map,
    join,
    kernel_regression,
    linear_head_kernel,
    plane_map,
    scalar_directions,
    study,
    target_labels,
)
from gnpool.theory.targets import GRID_P, GRID_Q
from tests.theory import oracle


def test_labels() -> None:
    graphs = oracle.graphs_of([[[1.0], [2.0], [2.0]], [[3.0], [3.0], [2.0], [4.0]]])
    expected = {
        "sum": [5, 12],
        "mean": [5 / 3, 3],
        "root mean square": [math.sqrt(3), math.sqrt(38 / 4)],
        "max": [2, 4],
        "min": [1, 2],
        "harmonic sum": [0.5, 1 / (1 / 3 + 1 / 3 + 1 / 2 + 1 / 4)],
    }
    assert [target.name for target in TARGETS] == list(expected)
    for target in TARGETS:
        assert target_labels(graphs, target).tolist() == pytest.approx(expected[target.name])


def test_grid_has_the_named_points() -> None:
    assert {-math.inf, -1.0, 1.0, 2.0, math.inf} < set(GRID_P)
    assert {0.0, 0.5, 1.0} < set(GRID_Q)
    steps = np.diff([1 / p for p in GRID_P])
    assert steps[len(GRID_P) // 2 - 1] == 0  # from min to max
    np.testing.assert_allclose(np.delete(np.abs(steps), len(GRID_P) // 2 - 1), 0.1)


def test_map_is_kernel_regression() -> None:
    train, tests = study.harmonic_graphs(12, 4)
    target = Target("any", 3.0, 0.25)
    found = plane_map(train, tests, target, p=[-2.0, 1.5], q=[0.0, 0.75])
    everything = join([train, *tests.values()])
    y = torch.tensor([target.label(h[:, 0]) for h in oracle.split(everything)], dtype=torch.float64)
    for row, q in enumerate(found.q):
        for column, p in enumerate(found.p):
            kernel = linear_head_kernel(feature_map(everything, NormReadout(p, q), scalar_directions()))
            off = ((kernel_regression(kernel, y, 12) - y).abs() / y)[12:]
            worst = max(100 * part.mean().item() for part in off.split(4))
            assert found.error[row, column].item() == pytest.approx(worst, rel=1e-8)


def test_only_the_pooling_that_is_the_target_learns_it_everywhere() -> None:
    train, tests = study.harmonic_graphs(18, 6)
    for target in TARGETS:
        found = plane_map(train, tests, target)
        exact = [(found.p[c], found.q[r]) for r, c in (found.error < 1e-6).nonzero().tolist()]
        assert exact == [(target.a, target.b)]


@pytest.mark.parametrize(("p", "q"), [(-1.0, -1.5), (2.0, 0.0), (math.inf, -0.5)])
def test_in_the_valley_regular_graphs_of_all_sizes_are_exact(p: float, q: float) -> None:
    def regular(degree: int, nodes: int) -> list[list[float]]:
        return [[float(d)] for _, d in nx.random_regular_graph(degree, nodes, seed=0).degree()]

    target = Target("any", 2.0, 0.0)
    assert 1 / p - q == pytest.approx(1 / target.a - target.b)
    train = oracle.graphs_of([regular(3, 10), regular(4, 12)])
    large = oracle.graphs_of([regular(3, 100), regular(7, 400)])
    assert plane_map(train, {"large": large}, target, [p], [q]).error.item() < 1e-9
    # Off the valley by d the error at a ratio r of sizes is r^d - 1: one training size, one test size.
    one, other = oracle.graphs_of([regular(3, 10)]), oracle.graphs_of([regular(4, 40)])
    error = plane_map(one, {"large": other}, target, [p], [q - 0.5]).error.item()
    assert error == pytest.approx(100 * (4**0.5 - 1))
