"""Predictors without a network reach known errors on the data of every generator and reading."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.tasks import get_task

COUNT = 1800  # 200 per probability of the grid


def labels(data: list[Data]) -> np.ndarray:
    return torch.cat([one.y for one in data]).numpy()


def sizes(data: list[Data]) -> np.ndarray:
    return np.array([one.num_nodes for one in data], dtype=float)


def best_by_mape(ratio: np.ndarray, weight: np.ndarray) -> float:
    """The c that minimises sum of weight |ratio - c|: the weighted median."""
    order = np.argsort(ratio)
    total = np.cumsum(weight[order])
    return float(ratio[order][np.searchsorted(total, total[-1] / 2)])


def error(prediction: np.ndarray | float, y: np.ndarray) -> float:
    return float(100 * np.mean(np.abs(prediction - y) / np.abs(y)))


def four_errors(train: list[Data], test: list[Data]) -> list[float]:
    """Test MAPE of a constant and of a multiple of n, each fitted by least squares and by MAPE."""
    y, n, y_test, n_test = labels(train), sizes(train), labels(test), sizes(test)
    return [
        error(y.mean(), y_test),
        error(best_by_mape(y, 1 / y), y_test),
        error((y @ n) / (n @ n) * n_test, y_test),
        error(best_by_mape(y / n, n / y) * n_test, y_test),
    ]


@pytest.mark.parametrize(
    ("name", "train_mean", "test_mean", "errors"),
    [
        ("maxdegree", 15.6, 45.1, [57.9, 65.1, 57.2, 47.5]),
        ("harmonic", 0.462, 0.485, [92.7, 64.3, 376, 104]),
        ("invsize", 0.0414, 0.0140, [208, 198.3, 848, 822]),
    ],
)
def test_graph_tasks(name: str, train_mean: float, test_mean: float, errors: list[float]) -> None:
    task = get_task(name)
    train, test = task.dataset("train", count=COUNT), task.dataset("test", count=COUNT)
    assert labels(train).mean() == pytest.approx(train_mean, rel=0.02)
    assert labels(test).mean() == pytest.approx(test_mean, rel=0.02)
    assert four_errors(train, test) == pytest.approx(errors, rel=0.05)


@pytest.mark.parametrize(
    ("split", "structure", "mean", "gap", "beyond"),
    [
        # From graphs of networkx and dense matrices of lengths: mean label, its excess over the true distance, and the
        # percentage of nodes beyond three hops.
        ("train", "er", 1.91, 0.213, 3.4),
        ("test", "er", 2.90, 0.557, 0.75),
        ("test", "ba", 3.48, 0.660, 0.2),
        ("test", "expander", 1.17, 0.226, 0.0),
        ("test", "regular4", 11.45, 1.35, 37),
        ("test", "tree", 9.82, 0.0, 84.2),
        ("test", "ladder", 8.37, 0.20, 80.8),
    ],
)
def test_shortest(split: str, structure: str, mean: float, gap: float, beyond: float) -> None:
    task = get_task("shortest")
    count = {"er": COUNT, "ba": 900, "ladder": 2500}.get(structure, 600)
    near = task.dataset(split, structure=structure, count=count)
    exact = task.dataset(split, structure=structure, count=count, reading="exact")
    y, weight, true = labels(near), torch.cat([one.weight for one in near]).numpy() > 0, labels(exact)
    assert y[weight].mean() == pytest.approx(mean, rel=0.04)
    assert (y - true)[weight].mean() == pytest.approx(gap, rel=0.07, abs=1e-9)
    assert 100 * (1 - weight.mean()) == pytest.approx(beyond, rel=0.05, abs=0.2)


def test_sigma2_post() -> None:
    task = get_task("sigma2_post")
    train, test = task.dataset("train"), task.dataset("test")
    assert four_errors(train, test) == pytest.approx([157.0, 135.9, 524, 420], rel=0.03)


@pytest.mark.parametrize(
    ("reading", "mean", "by_nll", "total"),
    [("gamma", 107.2, 115.5, 374), ("swapped", 105.0, None, 372)],
)
def test_sigma2_map(reading: str, mean: float, by_nll: float | None, total: float) -> None:
    task = get_task("sigma2_map")
    train, test = task.dataset("train", reading=reading), task.dataset("test", reading=reading)
    found = four_errors(train, test)
    assert (found[1], found[3]) == pytest.approx((mean, total), rel=0.04)
    if by_nll is not None:
        concentration = torch.cat([one.concentration for one in train]).numpy()
        best = (concentration @ labels(train)) / concentration.sum()
        assert error(best, labels(test)) == pytest.approx(by_nll, rel=0.03)


def test_literal_variances_defeat_a_constant() -> None:
    task = get_task("sigma2_map")
    gaps = {}
    for reading in task.readings:
        y = labels(task.dataset("train", count=1000, reading=reading))
        gaps[reading] = np.quantile(y, 0.99) / np.quantile(y, 0.01)
    assert gaps["gamma"] < 2.5
    assert gaps["swapped"] < 2.5
    assert gaps["literal_sigma2"] > 100
    assert gaps["literal_sigma"] > 10_000


@pytest.mark.parametrize("name", ["mu_post", "mu_map"])
def test_mean_tasks(name: str) -> None:
    task = get_task(name)
    train, test = task.dataset("train"), task.dataset("test")
    means, totals = (
        [np.array([float(f(one.x.double())) for one in data]) for data in (train, test)]
        for f in (torch.mean, torch.sum)
    )
    y, y_test = labels(train), labels(test)
    assert error((y @ means[0]) / (means[0] @ means[0]) * means[1], y_test) == pytest.approx(2.06, abs=0.15)
    assert error((y @ totals[0]) / (totals[0] @ totals[0]) * totals[1], y_test) == pytest.approx(137, abs=9)
