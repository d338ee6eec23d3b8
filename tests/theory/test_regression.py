from __future__ import annotations

import numpy as np
import pytest
import torch

from gnpool.theory import kernel_regression, mean_relative_error

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("rank", [1, 3, 12])
def test_minimum_norm_solution(rank: int) -> None:
    features = RNG.normal(size=(15, rank))
    y = RNG.normal(size=15)
    weights, *_ = np.linalg.lstsq(features[:8], y[:8], rcond=None)  # of least norm where there are several
    kernel = torch.from_numpy(features @ features.T)
    np.testing.assert_allclose(kernel_regression(kernel, torch.from_numpy(y), 8).numpy(), features @ weights, rtol=1e-8)


@pytest.mark.parametrize("steps", [0, 1, 25])
def test_steps_are_those_of_gradient_descent(steps: int) -> None:
    features = RNG.normal(size=(10, 4))
    y = RNG.normal(size=10)
    rate = 0.7 / np.linalg.eigvalsh(features[:6] @ features[:6].T)[-1]
    weights = np.zeros(4)
    for _ in range(steps):
        weights -= rate * features[:6].T @ (features[:6] @ weights - y[:6])
    found = kernel_regression(torch.from_numpy(features @ features.T), torch.from_numpy(y), 6, steps=steps, rate=0.7)
    np.testing.assert_allclose(found.numpy(), features @ weights, rtol=1e-8, atol=1e-12)


def test_error_is_in_percent() -> None:
    assert mean_relative_error(torch.tensor([1.1, -3.0]), torch.tensor([1.0, -2.0])) == pytest.approx(30.0)
