from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gnpool.theory import NormReadout, PlainReadout, Readout
from gnpool.theory.networks import operator_pool
from tests.theory import oracle

ROWS = [
    [[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]],
    [[2.0, 2.0]],
    [[1.0, 0.1], [4.0, 1.0], [0.2, 3.0], [1.0, 1.0], [2.0, -2.1]],
]
DIRECTIONS = [[1.0, 0.3], [-0.4, 1.1], [-1.0, -1.0], [0.2, -0.7]]
CASES: list[tuple[Readout, oracle.Pool]] = [
    *((NormReadout(p, q), oracle.gnp(p, q)) for p, q in [(-1, 0), (1, 0), (2, 0.5), (-3, -1), (0.7, 1), (40, 0.2)]),
    *((NormReadout(p), oracle.gnp(p, 0)) for p in (math.inf, -math.inf)),
    *(
        (PlainReadout(name, relu), oracle.plain(name, relu))
        for name in ("sum", "mean", "max", "min")
        for relu in (True, False)
    ),
]
IDS = [str(readout) for readout, _ in CASES]


@pytest.mark.parametrize(("readout", "expected"), CASES, ids=IDS)
def test_value_and_slope(readout: Readout, expected: oracle.Pool) -> None:
    graphs = oracle.graphs_of(ROWS)
    w = torch.tensor(DIRECTIONS, dtype=torch.float64)
    value, by_node = readout.pool(graphs.h @ w.T, graphs)
    for g, h in enumerate(oracle.split(graphs)):
        for k, direction in enumerate(w.numpy()):
            assert value[g, k].item() == pytest.approx(expected(h @ direction), rel=1e-12, abs=1e-12)
            slope = h.T @ by_node[graphs.index == g, k].numpy()
            np.testing.assert_allclose(slope, oracle.slope(expected, h, direction), rtol=1e-6, atol=1e-8)
            assert slope @ direction == pytest.approx(value[g, k].item(), abs=1e-12)  # Euler, for degree 1


@pytest.mark.parametrize(("readout", "expected"), CASES, ids=IDS)
def test_operator_is_the_same_pooling(readout: Readout, expected: oracle.Pool) -> None:
    graphs = oracle.graphs_of(ROWS)
    w = torch.tensor(DIRECTIONS, dtype=torch.float64)
    found = operator_pool(graphs.h @ w.T, graphs, readout)
    wanted = [[expected(h @ direction) for direction in w.numpy()] for h in oracle.split(graphs)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("readout", [NormReadout(math.inf), PlainReadout("max"), PlainReadout("min")])
def test_ties_share(readout: Readout) -> None:
    graphs = oracle.graphs_of([[[2.0], [2.0], [2.0], [2.0]]])
    assert readout.pool(graphs.h, graphs)[1].flatten().tolist() == [0.25] * 4


def test_extreme_scales_do_not_overflow() -> None:
    graphs = oracle.graphs_of([[[1e-200], [2e-200]], [[1e200], [2e200]]])
    value, by_node = NormReadout(-3.0).pool(graphs.h, graphs)
    expected = (1 + 2.0**-3) ** (-1 / 3)
    assert value.flatten().tolist() == pytest.approx([1e-200 * expected, 1e200 * expected])
    assert by_node[:2].flatten().tolist() == pytest.approx(by_node[2:].flatten().tolist())


@pytest.mark.parametrize("p", [0.0, math.nan])
def test_no_exponent(p: float) -> None:
    with pytest.raises(ValueError, match="'p' must be a number other than 0, got"):
        NormReadout(p)


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="'name' must be one of sum, mean, max, min, got 'median'"):
        PlainReadout("median")
