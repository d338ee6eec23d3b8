"""Every study on a cluster: the same units and scores as here, what is lost done again, what fails recorded once.

A stand-in takes the place of Ray; tests/faults/test_ray.py has the real thing.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnpool.engine import opened as opened_module
from gnpool.influence import CascadeGraph, collection
from gnpool.lab import PRESETS, TABLES, Cell, Event, Runner, Table, reproduce
from gnpool.lab.classification import TABLES as CLASSIFICATION_TABLES
from gnpool.lab.classification import jobs as classify_module
from gnpool.lab.classification.jobs import stack_jobs
from gnpool.lab.classification.methods import Amount
from gnpool.lab.influence import jobs as influence_module
from gnpool.lab.influence.amount import AMOUNTS
from gnpool.lab.influence.jobs import influence_jobs
from gnpool.lab.running.failures import FailedStudiesError
from gnpool.store import Store
from gnpool.training import stack as stack_module
from tests.engine.standin import standing_in
from tests.lab.shared import SMALL, run_tables
from tests.models.test_crossval import dataset

CPU = torch.device("cpu")
STUDIES = ("tables", "classification", "influence")
UNITS = {"tables": 8, "classification": 3, "influence": 23}


@pytest.fixture(autouse=True)
def _made_up_data(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = dataset(40)
    monkeypatch.setattr(classify_module, "tudataset", lambda name: graphs)
    rng = np.random.default_rng(0)
    target, source = (~np.eye(30, dtype=bool) & (rng.random((30, 30)) < 0.1)).nonzero()
    network = CascadeGraph(30, source, target, rng.uniform(0.1, 0.5, len(source)))
    monkeypatch.setattr(collection, "read_graph", lambda *names: network)


def run(study: str, folder: Path, **options: Any) -> dict[str, Any]:
    """Run a small study; return what is stored."""
    store = Store(folder)
    if study == "tables":
        run_tables(store, PRESETS["smoke"], [TABLES[SMALL]], **options)
    elif study == "classification":
        amount = Amount("smoke", seeds=1, folds=2, graphs=40, epochs=2, datasets=("D&D", "PROTEINS"))
        table = CLASSIFICATION_TABLES["graphcl_a"]
        original = [trial for trial in table.wanted(amount) if trial.variant == "original"]
        Runner(store, CPU, **options).run(stack_jobs(original, amount, store, "cpu"))
    else:
        amount = dataclasses.replace(AMOUNTS["smoke"], sets=5, simulations=60, evaluation=70, seeds=2)
        Runner(store, CPU, **options).run(influence_jobs(amount, store))
    return scores(folder)


def scores(folder: Path) -> dict[str, Any]:
    return {json.dumps(record.key, sort_keys=True): record.scores for record in Store(folder).records()}


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    records = Store(folder).records()
    return {f"{record.key} {name}": value for record in records for name, value in (record.tensors or {}).items()}


@pytest.mark.parametrize("study", STUDIES)
def test_no_module_is_made_beside_the_lock(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Initialising draws from torch's only generator, so a module made in another thread would change the others."""
    reset, locked = torch.nn.Linear.reset_parameters, list[bool]()

    def watched(layer: torch.nn.Linear) -> None:
        if layer.weight.device.type != "meta":  # where nothing is drawn
            locked.append(stack_module._SEEDING.locked())
        reset(layer)

    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", watched)
    run(study, tmp_path, jobs=1)
    if study == "tables":
        table = TABLES["exp_graph_harmonic"]
        exact = dataclasses.replace(table, cells=tuple(cell for cell in table.cells if cell.recipe.crystallized))
        run_tables(Store(tmp_path), PRESETS["smoke"], [exact], jobs=1)
    assert locked
    assert all(locked)


@pytest.mark.parametrize("study", STUDIES)
def test_the_same_units_and_scores(study: str, tmp_path: Path) -> None:
    here = run(study, tmp_path / "here", jobs=1)
    events: list[Event] = []
    with standing_in() as (engine, ray):
        there = run(study, tmp_path / "there", engine=engine, on_event=events.append)
        assert len(ray.started) == UNITS[study]
        again = run(study, tmp_path / "there", engine=engine)
        assert len(ray.started) == UNITS[study]  # nothing was left to do
    assert there == again == here
    left, right = tensors(tmp_path / "here"), tensors(tmp_path / "there")
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name].nan_to_num(), right[name].nan_to_num()) for name in left)
    assert events[-1].overall == pytest.approx(1.0)
    finished = [event.done for event in events if event.finished]
    assert sorted(finished) == list(range(1, len(finished) + 1))


@pytest.mark.parametrize("study", STUDIES)
def test_units_that_are_lost_are_done_again(study: str, tmp_path: Path) -> None:
    with standing_in(losses=3) as (engine, ray):
        there = run(study, tmp_path / "there", engine=engine)
        assert len(ray.started) == UNITS[study] + 3
    assert there == run(study, tmp_path / "here", jobs=1)


@pytest.mark.parametrize("study", STUDIES)
def test_results_are_stored_as_they_come(study: str, tmp_path: Path) -> None:
    """When the driver ends before the last unit, all others are kept, and the next run does that one alone."""
    with standing_in(workers=1) as (engine, ray):
        start, count = ray._start, []

        def end_before_the_last(what: Any, *arguments: Any) -> Any:
            count.append(1)
            if len(count) == UNITS[study]:
                raise OSError("the driver's network is gone")
            return start(what, *arguments)

        ray._start = end_before_the_last  # type: ignore[method-assign]
        with pytest.raises(OSError, match="the driver's network is gone"):
            run(study, tmp_path / "there", engine=engine, jobs=1)
        before = scores(tmp_path / "there")
        ray._start = start  # type: ignore[method-assign]
        there = run(study, tmp_path / "there", engine=engine, jobs=1)
        assert len(ray.started) == UNITS[study]
    assert before.items() < there.items()
    assert there == run(study, tmp_path / "here", jobs=1)


def broken_table() -> Table:
    """A study that works, one that fails, and an exam that needs the latter."""
    good = TABLES[SMALL].cells[0]
    bad = dataclasses.replace(good.recipe, model="bad", variants=({"net": "graph", "aggr": "no such pooling"},))
    return Table("broken", "", "MAPE", (Cell("bad", "x", bad, good.exam), Cell("good", "x", good.recipe, good.exam)))


@pytest.mark.parametrize("kind", ["threads", "stand-in", "processes"])
def test_a_study_that_fails_by_itself_is_recorded_once(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    with standing_in() as (engine, ray):
        options: dict[str, Any] = {"engine": engine if kind == "stand-in" else None, "processes": kind == "processes"}
        with pytest.raises(
            FailedStudiesError, match=r"1 of 2 studies failed, the others are done and stored; .*harmonic: bad"
        ):
            run_tables(store, PRESETS["smoke"], [broken_table()], jobs=2, **options)
        if kind == "stand-in":
            assert sorted(ray.started) == ["exam_unit", "training_unit", "training_unit"]  # the bad one once
    assert len(store.keys("training")) == len(store.keys("score")) == 1
    (failure,) = json.loads((tmp_path / "failures.json").read_text())
    assert failure["study"] == "harmonic: bad"
    assert "no such pooling" in failure["reason"]
    assert "no such pooling" in failure["traceback"]
    assert "Traceback" in failure["traceback"]


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("study", STUDIES[1:])
def test_other_studies_that_fail_are_recorded_too(
    study: str, remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = {
        "classification": (classify_module, "train_stack"),
        "influence": (influence_module, "fit_monstor"),
    }[study]
    original, calls = getattr(module, name), []

    def failing(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, failing)
    with standing_in(workers=1) as (engine, _):
        options: dict[str, Any] = {"jobs": 1, "engine": engine if remote else None}
        with pytest.raises(FailedStudiesError, match=r"^1 of \d+ studies failed, the others are done and stored"):
            run(study, tmp_path / "a", **options)
        (failure,) = json.loads((tmp_path / "a" / "failures.json").read_text())
        assert "MemoryError" in failure["reason"]
        before = scores(tmp_path / "a")
        after = run(study, tmp_path / "a", **options)
    assert before.items() < after.items()
    assert not (tmp_path / "a" / "failures.json").exists()
    assert after == run(study, tmp_path / "b", jobs=1)


def test_a_stack_that_was_half_stored_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the unit alone would round differently."""
    here = run("classification", tmp_path / "here", jobs=1)
    put, count = Store.put, []

    def dying(store: Store, key: Any, **content: Any) -> None:
        count.append(1)
        if len(count) == 4:
            raise OSError("killed")
        put(store, key, **content)

    monkeypatch.setattr(Store, "put", dying)
    with pytest.raises(OSError, match="killed"):
        run("classification", tmp_path / "there", jobs=1)
    monkeypatch.setattr(Store, "put", put)
    monkeypatch.setattr(classify_module, "train_stack", None)
    kept = scores(tmp_path / "there")
    assert len(kept) == 3
    assert run("classification", tmp_path / "there", jobs=1) == here
    assert not list(tmp_path.glob("there/checkpoints/*"))


def test_lost_too_often_is_reported(tmp_path: Path) -> None:
    with standing_in(losses=8) as (engine, _):
        with pytest.raises(FailedStudiesError, match=r"2 of 2 studies failed, .*lost 4 times .*RayError: The worker"):
            run("tables", tmp_path, engine=engine)
        assert scores(tmp_path) == {}
        assert len(json.loads((tmp_path / "failures.json").read_text())) == 2
        assert len(run("tables", tmp_path, engine=engine)) == 8
    assert not (tmp_path / "failures.json").exists()


def test_reproduce_with_either_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnpool.lab.table.at_hand", lambda name: True)
    tables, options = [SMALL, "graphcl_a"], {"preset": "smoke", "folds": 1, "device": "cpu"}
    reproduce(tables, tmp_path / "here", jobs=1, **options)  # type: ignore[arg-type]
    with standing_in() as (engine, ray):
        monkeypatch.setattr(opened_module, "ray_cluster", lambda *given: nullcontext(engine))
        reproduce(tables, tmp_path / "there", engine="ray", address="somewhere", **options)  # type: ignore[arg-type]
        assert {"training_unit", "exam_unit", "stack_unit"} == set(ray.started)
    assert scores(tmp_path / "there") == scores(tmp_path / "here")


def test_reproduce_reports_all_failures_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise ValueError("no luck")

    monkeypatch.setattr("gnpool.lab.table.at_hand", lambda name: True)
    monkeypatch.setattr("gnpool.lab.recipes.jobs.train", failing)
    monkeypatch.setattr(classify_module, "train_stack", failing)
    with warnings.catch_warnings(), pytest.raises(FailedStudiesError, match=r"^\d+ of \d+ studies failed"):
        reproduce([SMALL, "graphcl_a"], tmp_path, preset="smoke", folds=1, jobs=1, device="cpu")
    found = [failure["study"] for failure in json.loads((tmp_path / "failures.json").read_text())]
    assert any(study.startswith("harmonic") for study in found)
    assert any(study.startswith("PROTEINS") for study in found)
    assert {table["table"] for table in json.loads((tmp_path / "results.json").read_text())["tables"]} == {
        SMALL,
        "graphcl_a",
    }
