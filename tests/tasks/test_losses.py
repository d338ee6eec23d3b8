"""Losses and metrics: values from their definitions, gradients, items that do not count, replicas."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from gnpool.tasks import get_task, mae, mape, mean_nll, median_ape, squared_error, variance_nll

ALL = [squared_error, mae, mape, median_ape, mean_nll, variance_nll]


def make_batch(**rest: Any) -> Data:
    y = torch.tensor([0.5, 2.0, 1.5, 4.0], dtype=torch.float64)
    precision = torch.tensor([21.0, 31.0, 26.0, 40.0], dtype=torch.float64)
    return Data(y=y, precision=precision, concentration=precision / 2, **rest)


PREDICTION = torch.tensor([0.6, 1.0, 1.5, 7.0])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (squared_error, [0.01, 1.0, 0.0, 9.0]),
        (mae, [0.1, 1.0, 0.0, 3.0]),
        (mape, [20.0, 50.0, 0.0, 75.0]),
        (median_ape, [35.0, 35.0, 35.0, 35.0]),
        (mean_nll, [0.105, 15.5, 0.0, 180.0]),
    ],
)
@pytest.mark.parametrize("column", [False, True])
def test_values(function: Any, expected: list[float], column: bool) -> None:
    value = function(PREDICTION.view(-1, 1) if column else PREDICTION, make_batch())
    assert value.dtype == torch.float64
    torch.testing.assert_close(value, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-12)


def nll_of_mean(elements: Tensor, m: Tensor) -> Tensor:
    return 0.5 * (elements - m).square().sum() + 0.5 * m.square()


def nll_of_variance(elements: Tensor, s: Tensor) -> Tensor:
    return (elements.numel() / 2 + 2) * s.log() + (15 + 0.5 * (elements - 5).square().sum()) / s


@pytest.mark.parametrize(("name", "nll"), [("mu_map", nll_of_mean), ("sigma2_map", nll_of_variance)])
def test_nll_is_that_of_the_elements_up_to_its_minimum(name: str, nll: Any) -> None:
    task = get_task(name)
    for data in task.dataset("val", count=5):
        elements = data.x.double().flatten()
        for factor in (0.3, 0.9, 1.0, 1.2, 5.0):
            prediction = (data.y * factor).requires_grad_()
            value = task.loss(prediction, data)
            expected = nll(elements, prediction.squeeze()) - nll(elements, data.y.squeeze())
            torch.testing.assert_close(value.squeeze(), expected, rtol=1e-9, atol=1e-9)
            (gradient,) = torch.autograd.grad(value.sum(), prediction, retain_graph=True)
            (wanted,) = torch.autograd.grad(expected, prediction)
            torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["mu_map", "sigma2_map"])
def test_nll_ranks_epochs_that_differ_in_the_seventh_digit(name: str) -> None:
    task = get_task(name)
    (data,) = task.dataset("val", count=1)
    values = [task.loss(data.y * (1 + error), data).item() for error in (0.0, 1e-7, 1.1e-7, 1e-6)]
    assert values[0] == 0.0
    assert values == sorted(values)
    assert values[3] == pytest.approx(100 * values[1], rel=1e-5)
    assert values[2] == pytest.approx(1.21 * values[1], rel=1e-5)


@pytest.mark.parametrize("function", [squared_error, mape, mean_nll, variance_nll])
def test_gradients(function: Any) -> None:
    prediction = PREDICTION.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda p: function(p, make_batch()), prediction + 0.01)


@pytest.mark.parametrize("prediction", [1e-6, 1e-9, 0.0, -3.0])
def test_variances_below_the_floor(prediction: float) -> None:
    batch = make_batch()
    at_floor = variance_nll(torch.full((4,), 1e-6).double(), batch)
    for revive in (True, False):
        p = torch.full((4,), prediction, dtype=torch.float64, requires_grad=True)
        value = variance_nll(p, batch, revive=revive)
        torch.testing.assert_close(value, at_floor, rtol=1e-12, atol=0)
        (gradient,) = torch.autograd.grad(value.sum(), p)
        if prediction < 1e-6:
            expected = -batch.concentration / batch.y if revive else torch.zeros(4, dtype=torch.float64)
            torch.testing.assert_close(gradient, expected)
        else:
            assert (gradient < -1e11).all()


def test_the_gradient_below_the_floor_is_that_at_a_share_of_the_label() -> None:
    batch = make_batch()
    p = (batch.y * (5**0.5 - 1) / 2).requires_grad_()
    (gradient,) = torch.autograd.grad(variance_nll(p, batch).sum(), p)
    torch.testing.assert_close(gradient, -batch.concentration / batch.y)


def test_a_dead_start_recovers() -> None:
    task = get_task("sigma2_map")
    batch = Batch.from_data_list(task.dataset("val", count=50))
    ends = {}
    for revive in (True, False):
        scale = torch.tensor(-0.5, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.RMSprop([scale], lr=1e-2)
        for _ in range(1500):
            optimizer.zero_grad()
            variance_nll(scale.expand(50), batch, revive=revive).mean().backward()
            torch.nn.utils.clip_grad_norm_([scale], 1e4)
            optimizer.step()
        ends[revive] = scale.item()
    assert ends[False] == -0.5
    best = (batch.concentration * batch.y).sum() / batch.concentration.sum()  # minimum of the summed losses
    assert ends[True] == pytest.approx(best.item(), rel=0.1)


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("label", [0.0, -1.0, float("nan")])
def test_items_that_do_not_count_have_value_and_gradient_0(function: Any, label: float) -> None:
    batch = make_batch(weight=torch.tensor([1.0, 0.0, 1.0, 0.5]).double())
    batch.y[1] = label
    prediction = PREDICTION.clone()
    prediction[1] = float("inf")
    prediction.requires_grad_()
    value = function(prediction, batch)
    value.sum().backward()
    keep = torch.tensor([0, 2, 3])
    part = Data(**{key: batch[key][keep] for key in ("y", "precision", "concentration")})
    assert value[1] == 0.0
    assert prediction.grad is not None
    assert prediction.grad[1] == 0.0
    assert prediction.grad.isfinite().all()
    torch.testing.assert_close(value[keep], function(prediction[keep], part))


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("shape", [(), (3,), (4, 2), (1, 4), (4, 1, 1), (1,)])
def test_a_prediction_of_another_shape_is_refused(function: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"'prediction' must have shape \(4,\) or \(4, 1\).*got \("):
        function(torch.ones(shape), make_batch())


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("weighted", [False, True])
def test_replicas(function: Any, weighted: bool) -> None:
    batch = make_batch(**({"weight": torch.tensor([1.0, 1.0, 0.0, 1.0])} if weighted else {}))
    predictions = torch.randn(3, 4, 1) + 1.0

    def mean(prediction: Tensor) -> Tensor:
        return function(prediction, batch).mean()

    torch._C._functorch._set_vmap_fallback_warning_enabled(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no falling back to a loop
        values = torch.vmap(lambda prediction: function(prediction, batch))(predictions)
        gradients = torch.vmap(torch.func.grad(mean))(predictions)
    torch.testing.assert_close(values, torch.stack([function(p, batch) for p in predictions]))
    torch.testing.assert_close(gradients, torch.stack([torch.func.grad(mean)(p) for p in predictions]))


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_median(count: int) -> None:
    y, prediction = torch.rand(count).double() + 1, torch.rand(count)
    expected = np.median(100 * (prediction.double() - y).abs() / y)
    torch.testing.assert_close(median_ape(prediction, Data(y=y)), torch.full_like(y, expected))


def test_median_of_nothing_and_of_nan() -> None:
    assert median_ape(torch.ones(2), Data(y=torch.ones(2).double(), weight=torch.zeros(2))).tolist() == [0.0, 0.0]
    assert median_ape(torch.tensor([1.0, torch.nan, 1.0]), Data(y=torch.ones(3).double())).isnan().all()


def test_mape_of_a_label_0_is_infinite() -> None:
    assert mape(torch.ones(1), Data(y=torch.zeros(1).double())).item() == float("inf")
