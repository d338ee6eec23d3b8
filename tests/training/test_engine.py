"""``fit_many`` on a cluster, with a stand-in for Ray: the same runs, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool import Batches, Setting, fit_many
from gnpool.engine import UnitError
from gnpool.training import Fit, Progress
from tests.engine.standin import standing_in
from tests.training.problems import Net, absolute, graphs, squared

TRAIN, VALIDATION = graphs(20), graphs(6, seed=1)
SETTINGS = [Setting(lr=3e-3, lr_p=3e-2), Setting(lr=1e30), Setting(lr=1e-2, optimizer="adam", clip=1.0)]


def halving(epoch: int) -> float:
    return 0.5**epoch


def broken(prediction: Any, batch: Any) -> Any:
    raise ZeroDivisionError("no loss")


def fit(**options: Any) -> Fit:
    train, validation = Batches(TRAIN, 5), Batches(VALIDATION, 6, seed=None)
    options = {"seeds": 2, "epochs": 4, "unit": 2, "validation": validation, "schedule": halving, **options}
    return fit_many(Net, train, options.pop("loss", squared), SETTINGS, criteria={"absolute": absolute}, **options)


def assert_same(a: Fit, b: Fit) -> None:
    assert a.runs == b.runs
    for run in a.runs:
        for criterion in ("loss", "absolute"):
            left, right = a.state_dict(run, criterion), b.state_dict(run, criterion)
            assert all(torch.equal(left[name], right[name]) for name in left)
    for name in ("train", "loss", "absolute", *a.watched):
        assert torch.equal(a.curve(name).nan_to_num(), b.curve(name).nan_to_num()), name
    scores = [one.evaluate(Batches(VALIDATION, 4), {"absolute": absolute})["absolute"] for one in (a, b)]
    assert torch.equal(scores[0].nan_to_num(), scores[1].nan_to_num())


@pytest.mark.parametrize("losses", [0, 2])
def test_the_same_units_and_bits(losses: int) -> None:
    told: list[Progress] = []
    with standing_in(losses=losses) as (engine, ray):
        there = fit(engine=engine, progress=told.append)
        assert ray.started == ["distant_unit"] * (3 + losses)
        assert ray.puts == 2  # training and validation data, for all units
    assert_same(there, fit())
    assert all((where.units, where.epochs) == (3, 4) for where in told)


def test_finished_units_are_kept_and_others_go_on(tmp_path: Path) -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def stop(where: Progress) -> None:
        if where.unit == 1 and where.epoch == 2:
            raise Stop

    with pytest.raises(Stop):
        fit(checkpoint=tmp_path, progress=stop, workers=1)  # here: unit 0 is done, unit 1 half
    with standing_in() as (engine, ray):
        there = fit(engine=engine, checkpoint=tmp_path)
        assert len(ray.started) == 2
        again = fit(engine=engine, checkpoint=tmp_path)
        assert len(ray.started) == 2
    here = fit()
    assert_same(there, here)
    assert_same(again, here)


def test_a_unit_that_fails() -> None:
    with standing_in() as (engine, ray):
        with pytest.raises(UnitError, match="ZeroDivisionError: no loss"):
            fit(engine=engine, loss=broken, unit=6)
        assert len(ray.started) == 1


def test_a_gpu_is_needed_only_where_units_run() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with standing_in() as (engine, _), pytest.raises(UnitError, match=r"(?i)cuda"):
        fit(engine=engine, device="cuda")
