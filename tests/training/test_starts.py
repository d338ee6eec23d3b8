"""Settings with different starts train in one unit; also tests a setting's rates and what a store keeps of it."""

from __future__ import annotations

import functools
import json

import pytest
import torch

from gnpool import Batches, Setting, fit_many
from gnpool.nn.aggregation import STARTS
from gnpool.nn.param_groups import exponent_rates
from gnpool.training.stack import Stack
from tests.training.alone import train_alone
from tests.training.problems import Net, call, graphs, squared

PLACES = [None, "sum", "mean", "max", "min", "sum/mean", "geometric/sum", "harmonic mean/rms", "l2/harmonic"]
OLD_KEYS = ["lr", "lr_p", "lr_q", "clip", "optimizer", "betas", "alpha", "eps", "weight_decay"]


def double(kind: str) -> Net:
    return Net(kind).double()


@pytest.mark.parametrize("vectorize", [True, False], ids=["vmap", "loop"])
def test_each_start_of_a_unit_equals_the_run_alone(vectorize: bool) -> None:
    make = functools.partial(double, "gnpg")
    train = Batches(graphs(12, dtype=torch.float64), 4, seed=3)
    settings = [Setting(lr=1e-3, clip=10.0, optimizer="adam", start=start) for start in PLACES]
    fit = fit_many(make, train, squared, settings, seeds=[5, 6], epochs=4, unit=2 * len(PLACES), vectorize=vectorize)
    assert len(fit._units) == 1
    for run in fit.runs:
        alone = train_alone(make, train, squared, run.setting, run.seed, 4, call)
        for name, value in alone.state_dict().items():
            where = f"{run.setting.start}, seed {run.seed}, {name}"
            torch.testing.assert_close(
                fit.state_dict(run)[name],
                value,
                rtol=1e-9,
                atol=1e-10,
                msg=lambda text, where=where: f"{where}: {text}",
            )


@pytest.mark.parametrize("start", ["sum", "max", "mean/min"])
def test_published_layers_have_starts_too(start: str) -> None:
    make = functools.partial(double, "gnp")
    train = Batches(graphs(12, dtype=torch.float64), 4, seed=3)
    settings = [Setting(lr=1e-3), Setting(lr=1e-3, start=start)]
    fit = fit_many(make, train, squared, settings, seeds=[5], epochs=3, unit=2)
    for run in fit.runs:
        alone = train_alone(make, train, squared, run.setting, run.seed, 3, call)
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(fit.state_dict(run)[name], value, rtol=1e-9, atol=1e-10, msg=name)


def test_curves_begin_at_the_start() -> None:
    settings = [Setting(lr=1e-3, start=start) for start in ("sum/mean", "min/geometric")]
    fit = fit_many(functools.partial(Net, "gnpg"), graphs(8), squared, settings, epochs=1)
    first = {name: fit.curve(name)[0].tolist() for name in fit.watched}
    assert first == {
        "conv.aggr_module.p": pytest.approx([1.0, -500.0]),
        "conv.aggr_module.growth": [1.0, 0.0],
        "pool.p": pytest.approx([1.0, 0.0]),
        "pool.growth": [0.0, 0.0],
    }


def test_a_start_moves_the_exponents_and_leaves_the_weights() -> None:
    stack = Stack(functools.partial(Net, "gnpg"), [3, 3, 3], torch.device("cpu"), [None, "rms", "sum/mean"])
    columns = torch.cat([torch.full((p.numel(),), "raw_" in name) for name, p in stack.trained.items()])
    assert int(columns.sum()) == 4
    assert torch.equal(stack.flat[0, ~columns], stack.flat[1, ~columns])
    assert torch.equal(stack.flat[0, ~columns], stack.flat[2, ~columns])
    assert stack.flat[:, columns].unique(dim=0).size(0) == 3


def test_a_module_is_made_once_for_each_seed_and_start() -> None:
    made: list[int] = []
    begins = [(0, "sum"), (0, "mean"), (0, "sum"), (1, "sum"), (0, "mean"), (0, None)]
    seeds, starts = zip(*begins, strict=True)
    Stack(lambda: made.append(torch.initial_seed()) or Net("gnpg"), list(seeds), torch.device("cpu"), list(starts))
    assert made == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("kind", "start", "match"),
    [
        ("gnpg", "median", "'start' must be one of"),
        ("gnpg", "sum/mean/max", "names 3 places, but there are 2 GNP layers"),
        ("sum", "mean", "Net has no GNPAggregation inside"),
        ("gnp", "geometric", "start='geometric' lies in none of its branches"),
    ],
)
def test_a_start_that_cannot_be_is_refused(kind: str, start: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        fit_many(functools.partial(Net, kind), graphs(4), squared, Setting(lr=1e-3, start=start), epochs=1)


def test_an_old_setting_is_stored_as_it_was() -> None:
    """The keys of a store consist of these values; one more value would lose all stored results."""
    assert list(Setting(lr=1e-3).to_dict()) == OLD_KEYS
    assert list(Setting(lr=1e-3, lr_p=3e-2, lr_q=1e-2, clip=1.0, optimizer="adam").to_dict()) == OLD_KEYS
    assert Setting(lr=5e-3, lr_p=3e-2, clip=1e4).to_dict() == {
        "lr": 5e-3,
        "lr_p": 3e-2,
        "lr_q": None,
        "clip": 1e4,
        "optimizer": "rmsprop",
        "betas": [0.9, 0.999],
        "alpha": 0.99,
        "eps": 1e-8,
        "weight_decay": 0.0,
    }


@pytest.mark.parametrize("options", [{"start": "sum/mean"}, {"lr_g": 0.02}, {"lr_g": 0.0, "start": "max"}], ids=str)
def test_a_new_setting_goes_through_json(options: dict[str, object]) -> None:
    setting = Setting(lr=1e-3, **options)
    assert set(setting.to_dict()) == {*OLD_KEYS, *options}
    assert Setting(**json.loads(json.dumps(setting.to_dict()))) == setting
    assert eval(repr(setting), {"Setting": Setting}) == setting  # noqa: S307 - the line is meant to be Python


def test_rates_are_those_of_the_groups() -> None:
    assert Setting(lr=2e-3).rates == {"rest": 2e-3, **exponent_rates(2e-3)}
    given = Setting(lr=2e-3, lr_p=0.5, lr_q=0.25, lr_g=0.125)
    assert given.rates == {"rest": 2e-3, "p": 0.5, "q": 0.25, "g": 0.125}
    assert Setting(lr=2e-3, lr_p=0.0, lr_g=0.0).rates == {"rest": 2e-3, "p": 0.0, "q": 2e-3, "g": 0.0}
    assert set(Setting(lr=0.0).rates.values()) == {0.0}


@pytest.mark.parametrize("rate", [-1.0, float("inf"), float("nan")])
def test_a_bad_rate_of_the_growth_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="'lr_g' must be at least 0 and finite"):
        Setting(lr=1e-3, lr_g=rate)


def test_a_grid_of_starts() -> None:
    settings = Setting.grid(lr=[1e-2, 1e-3], start=list(STARTS))
    assert len(set(settings)) == 2 * len(STARTS)
    assert [setting.start for setting in settings[: len(STARTS)]] == list(STARTS)
