"""The curves in ``fit.json`` are those of the training itself."""

from __future__ import annotations

import json

import pytest
import torch
from torch_geometric.data import Data

from gnpool.fit.curves import training_curves
from gnpool.models import SetNet
from gnpool.training import Batches, Fit, Setting, fit_many

EPOCHS = 12


def squared(prediction: torch.Tensor, batch: Data) -> torch.Tensor:
    return (prediction.view_as(batch.y) - batch.y).square()


def trained(pool: str) -> Fit:
    generator = torch.Generator().manual_seed(0)
    xs = [torch.rand(3 + k % 4, 1, generator=generator) for k in range(24)]
    batches = Batches([Data(x=x, y=x.sum().view(1).double()) for x in xs], 12)
    settings = [Setting(lr=1e-4), Setting(lr=1e-2, lr_p=0.1)]
    return fit_many(lambda: SetNet(1, pool, hidden=4), batches, squared, settings, seeds=(3, 5), epochs=EPOCHS)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return trained("gnp")


def test_every_epoch_of_the_best_setting(fit: Fit) -> None:
    found = training_curves(fit)
    runs = fit.runs_of(fit.best().setting)
    assert found["seeds"] == [3, 5]
    assert found["losses"]["epoch"] == list(range(1, EPOCHS + 1))
    assert found["exponents"]["epoch"] == list(range(EPOCHS + 1))  # 0: before training
    for name in ("train", "loss"):
        for run, values in zip(runs, found["losses"][name], strict=True):
            assert values == pytest.approx(fit.curve(name)[:, run.number].tolist(), rel=1e-4)
    ways = {k: fit.exponents(run) for k, run in enumerate(runs)}
    assert set(found["exponents"]) == {"epoch", *(f"pool.{name}" for name in ("p_pos", "q_pos", "p_neg", "q_neg"))}
    for k, way in ways.items():
        for name, values in way["pool"].items():
            assert found["exponents"][f"pool.{name}"][k] == pytest.approx(values, rel=1e-4, abs=1e-9)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_few_epochs_stay_with_the_first_and_the_last(fit: Fit) -> None:
    every, few = training_curves(fit), training_curves(fit, points=4)
    assert few["losses"]["epoch"] == [1, 5, 8, 12]
    assert few["exponents"]["epoch"] == [0, 4, 8, 12]
    assert few["losses"]["loss"] == [[seed[k - 1] for k in (1, 5, 8, 12)] for seed in every["losses"]["loss"]]
    way = every["exponents"]["pool.q_pos"]
    assert few["exponents"]["pool.q_pos"] == [[seed[k] for k in (0, 4, 8, 12)] for seed in way]


def test_a_fixed_pooling_has_losses_only() -> None:
    assert set(training_curves(trained("sum"))) == {"seeds", "losses"}


def test_what_is_not_finite_is_none(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = torch.tensor([[1.0], [float("nan")], [float("inf")]]).expand(3, 4)
    monkeypatch.setattr(fit, "curve", lambda name: bad)
    assert training_curves(fit)["losses"]["loss"] == [[1.0, None, None]] * 2
