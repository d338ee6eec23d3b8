"""A run of `fit_many` ends where training it alone ends."""

from __future__ import annotations

import functools

import pytest
import torch

from gnpool import Batches, Setting, fit_many
from tests.training.alone import score, train_alone
from tests.training.problems import Net, absolute, call, graphs, squared

SETTINGS = {
    "rmsprop": Setting(lr=1e-3, lr_p=3e-2, lr_q=2e-3, clip=0.5),
    "rmsprop-decay": Setting(lr=3e-3, alpha=0.9, weight_decay=1e-2),
    "adam": Setting(lr=3e-3, lr_p=1e-2, clip=100.0, optimizer="adam"),
    "adam-growth": Setting(lr=2e-3, lr_p=3e-2, lr_g=5e-3, clip=10.0, optimizer="adam"),
    "adam-0.5": Setting(lr=1e-2, optimizer="adam", betas=(0.5, 0.999), eps=1e-6, weight_decay=1e-3),
}
KINDS = ["gnp", "gnpg", "sum", "gat", "gcn", "batch_norm"]


@pytest.mark.parametrize("vectorize", [True, False], ids=["vmap", "loop"])
@pytest.mark.parametrize("kind", KINDS)
def test_float64_runs_of_200_steps(kind, vectorize):
    """All settings with two seeds as one unit; 40 epochs of five batches.

    Without the decay under RMSprop: it makes parameters that get no other gradient jump around 0, sign by sign, where
    the last bit decides.
    """
    settings = [setting for name, setting in SETTINGS.items() if name != "rmsprop-decay"]
    double = lambda: Net(kind).double()  # noqa: E731
    train = Batches(graphs(20, dtype=torch.float64), 4, seed=3)
    validation = Batches(graphs(7, seed=1, dtype=torch.float64), 4, seed=None)
    epochs = 40 if vectorize else 5
    fit = fit_many(
        double, train, squared, settings, seeds=[5, 6], epochs=epochs, vectorize=vectorize,
        validation=validation, criteria={"mae": absolute},
    )  # fmt: skip
    for run in fit.runs:
        curves = {"loss": [], "mae": []}

        def after_epoch(model, curves=curves):
            curves["loss"].append(score(model, validation, squared, call))
            curves["mae"].append(score(model, validation, absolute, call))

        train_alone(double, train, squared, run.setting, run.seed, epochs, call, after_epoch)
        for name, expected in curves.items():
            got = fit.curve(name)[:, run.number]
            torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)
            assert run.best[name].epoch == min(range(epochs), key=expected.__getitem__)
            assert run.best[name].value == pytest.approx(min(expected), rel=1e-9)


@pytest.mark.parametrize("kind", ["gnp", "gnpg"])
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_weights_of_the_best_epoch(setting, kind):
    make = functools.partial(_double, kind)
    train = Batches(graphs(12, dtype=torch.float64), 4)
    validation = Batches(graphs(5, seed=1, dtype=torch.float64), 5, seed=None)
    fit = fit_many(make, train, squared, setting, seeds=3, epochs=10, validation=validation)
    run = fit.runs[1]
    alone = train_alone(make, train, squared, setting, 1, run.best["loss"].epoch + 1, call)
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(fit.state_dict(run)[name], value, rtol=1e-9, atol=1e-10, msg=name)
    model = fit.model(run)
    assert score(model, validation, squared, call) == pytest.approx(run.best["loss"].value, rel=1e-9)


@pytest.mark.parametrize("kind", ["gnp", "gnpg"])
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_float32_runs_of_50_steps(setting, kind):
    make = functools.partial(Net, kind)
    train = Batches(graphs(20), 4)
    fit = fit_many(make, train, squared, setting, seeds=4, epochs=10)
    for run in fit.runs:
        alone = train_alone(make, train, squared, setting, run.seed, 10, call)
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(fit.state_dict(run)[name], value, rtol=2e-3, atol=2e-4, msg=name)


def _double(kind):
    return Net(kind).double()
