"""On a cluster (a stand-in for Ray), ``gnpool fit`` gives the numbers of the local engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gnpool.cli import app
from gnpool.engine import Engine, ProcessEngine
from gnpool.fit import pipeline, trainer
from gnpool.training.unit import Unit
from tests.cli.test_fit import write_sets
from tests.engine.standin import StandIn, standing_in

QUICK = ["--epochs", "2", "--seeds", "2", "--device", "cpu", "--json"]


def fit(data: Path, out: Path, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["fit", str(data), "--out", str(out), *QUICK, *options])
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    del result["meta"]["seconds"]
    return result


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standing_in(losses=1) as (engine, found):

        @contextmanager
        def opened(*arguments: Any, **options: Any) -> Iterator[Engine]:
            assert (arguments, options) == (("ray", "somewhere"), {"device": "cpu"})
            yield engine

        import gnpool.engine

        local = gnpool.engine.open_engine
        monkeypatch.setattr(gnpool.engine, "open_engine", lambda *a, **o: (opened if a[0] == "ray" else local)(*a, **o))
        yield found


def test_the_same_answer(tmp_path: Path, ray: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "FINALISTS", 2)
    monkeypatch.setattr(pipeline, "find_in", lambda *given: [])  # a law would make most trainings unnecessary
    data = write_sets(tmp_path / "data", 60, 3, 9)
    here = fit(data, tmp_path / "here")
    assert ray.started == []
    there = fit(
        data, tmp_path / "there", "--engine", "ray", "--address", "somewhere", "--cache", str(tmp_path / "kept")
    )
    assert there == here
    weights = [path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*.safetensors")]
    assert weights
    for path in weights:
        assert (tmp_path / "there" / path).read_bytes() == (tmp_path / "here" / path).read_bytes()
    started = len(ray.started)
    assert started > 4
    assert ray.puts <= 3  # training data, its first graphs, and validation data
    again = fit(
        data, tmp_path / "again", "--engine", "ray", "--address", "somewhere", "--cache", str(tmp_path / "kept")
    )
    assert again == here
    assert len(ray.started) == started  # everything was kept


def test_the_same_answer_on_all_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "FINALISTS", 1)
    monkeypatch.setattr(pipeline, "find_in", lambda *given: [])
    data = write_sets(tmp_path / "data", 40, 3, 9)
    here = fit(data, tmp_path / "here", "--epochs", "1", "--seeds", "1")
    monkeypatch.setattr(trainer, "LONG", 0)
    monkeypatch.setattr(trainer, "_cores", lambda: 2)
    used: list[str] = []
    call = ProcessEngine.call
    monkeypatch.setattr(ProcessEngine, "call", lambda *a, **o: (used.append("unit"), call(*a, **o))[1])
    assert fit(data, tmp_path / "there", "--epochs", "1", "--seeds", "1") == here
    assert len(used) > 4


def test_an_interrupted_fit_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_sets(tmp_path / "data", 60, 3, 9)
    monkeypatch.setattr(pipeline, "FINALISTS", 2)
    monkeypatch.setattr(pipeline, "find_in", lambda *given: [])
    here = fit(data, tmp_path / "here")
    trained: list[int] = []
    original = trainer.fit_many

    def counting(*arguments: Any, **options: Any) -> Any:
        if len(trained) == 4:
            raise KeyboardInterrupt
        trained.append(1)
        return original(*arguments, **options)

    monkeypatch.setattr(trainer, "fit_many", counting)
    options = ["fit", str(data), "--out", str(tmp_path / "out"), *QUICK, "--cache", str(tmp_path / "kept")]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 130, done.output
    assert not (tmp_path / "out").exists()
    assert len(list((tmp_path / "kept").rglob("*.safetensors"))) == 4
    monkeypatch.setattr(trainer, "fit_many", original)
    epochs = counted_epochs(monkeypatch)
    assert fit(data, tmp_path / "out", "--cache", str(tmp_path / "kept")) == here
    resumed = len(epochs)
    fit(data, tmp_path / "new")
    assert len(epochs) - 2 * resumed >= 4  # an epoch at least of each of the four


def counted_epochs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    done: list[int] = []
    original = Unit.train_epoch

    def train_epoch(unit: Unit, *arguments: Any) -> bool:
        done.append(1)
        return original(unit, *arguments)

    monkeypatch.setattr(Unit, "train_epoch", train_epoch)
    return done
