"""The ray engine: its logic with a stand-in for Ray, and the real thing where it starts (also tests/faults)."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gnpool.lab import PRESETS, Cell, Event, Runner, Table, reproduce
from gnpool.lab import ray_engine as engine
from gnpool.lab.studies import FailedStudiesError, StoppedError
from gnpool.lab.tables import TABLES
from gnpool.store import Store
from gnpool.store.locks import lock
from tests.lab.shared import SMALL, timeless

CPU = torch.device("cpu")


class RayError(Exception):
    pass


class TaskCancelledError(RayError):
    pass


class StandIn:
    """The part of Ray that the engine uses, with threads for workers."""

    exceptions = SimpleNamespace(RayError=RayError, TaskCancelledError=TaskCancelledError)
    util = SimpleNamespace(get_node_ip_address=lambda: "here")

    def __init__(self, workers: int = 2) -> None:
        self.pool = ThreadPoolExecutor(workers)
        self.options: list[dict[str, Any]] = []
        self.lose: Exception | None = None
        self.cancelled: list[Future[Any]] = []

    def remote(self, what: Any) -> Any:
        def options(**given: Any) -> Any:
            self.options.append(given)
            return SimpleNamespace(remote=lambda *arguments: self._start(what, arguments))

        return SimpleNamespace(options=options)

    def _start(self, what: Any, arguments: tuple[Any, ...]) -> Any:
        if isinstance(what, type):
            actor = what(*arguments)
            call = {n: SimpleNamespace(remote=lambda *a, n=n: _done(getattr(actor, n)(*a))) for n in ("put", "take")}
            return SimpleNamespace(**call)
        return self.pool.submit(self._work, what, arguments)

    def _work(self, what: Any, arguments: tuple[Any, ...]) -> Any:
        if self.lose is not None:
            raise self.lose
        with warnings.catch_warnings():
            return what(*arguments)

    def wait(self, futures: list[Future[Any]], timeout: float) -> tuple[list[Any], list[Any]]:
        done, rest = wait_for(futures, timeout=timeout)
        return list(done), list(rest)

    def get(self, future: Future[Any], timeout: float | None = None) -> Any:
        return future.result(timeout)

    def cancel(self, future: Future[Any]) -> None:
        self.cancelled.append(future)

    def kill(self, _: Any) -> None:
        pass


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def runner(folder: Path, ray: StandIn, **options: Any) -> Runner:
    return Runner(Store(folder), PRESETS["smoke"], CPU, cluster=engine.Cluster(ray, 2, 0), **options)


def scores(folder: Path) -> dict[str, Any]:
    return {json.dumps(record.key): record.scores for record in Store(folder).records()}


def test_the_same_units_and_scores(tmp_path: Path) -> None:
    ray, events = StandIn(), list[Event]()
    Runner(Store(tmp_path / "local"), PRESETS["smoke"], CPU, jobs=1).run([TABLES[SMALL]])
    runner(tmp_path / "ray", ray, on_event=events.append).run([TABLES[SMALL]])
    assert scores(tmp_path / "ray") == scores(tmp_path / "local")
    assert sorted(event.done for event in events if event.finished) == list(range(1, 9))
    assert ray.options[0] == {"num_cpus": 0, "resources": {"node:here": 0.001}}  # the mailbox
    assert ray.options[1:] == [{"num_cpus": 1, "num_gpus": 0, "max_retries": engine.RETRIES}] * 8
    before = len(ray.options)
    runner(tmp_path / "ray", ray).run([TABLES[SMALL]])
    assert len(ray.options) == before  # nothing is left to do


def test_a_unit_that_is_lost_too_often_is_reported(tmp_path: Path) -> None:
    ray = StandIn()
    ray.lose = RayError("The worker died.\nlong story")
    with pytest.raises(FailedStudiesError, match=r"2 of 2 studies failed, .*lost 4 times .*RayError: The worker died"):
        runner(tmp_path, ray).run([TABLES[SMALL]])
    assert scores(tmp_path) == {}
    assert len(json.loads((tmp_path / "failures.json").read_text())) == 2
    ray.lose = None
    runner(tmp_path, ray).run([TABLES[SMALL]])
    assert len(scores(tmp_path)) == 8
    assert not (tmp_path / "failures.json").exists()


def test_stopping_cancels(tmp_path: Path) -> None:
    ray, stop = StandIn(), threading.Event()
    hang = threading.Event()
    ray.remote = lambda _: SimpleNamespace(  # type: ignore[method-assign]
        options=lambda **_: SimpleNamespace(remote=lambda *_: ray.pool.submit(hang.wait, 30))
    )
    bench = engine.RayBench(
        PRESETS["smoke"], CPU, "all", 1, stop.is_set, print, cluster=engine.Cluster(ray, 2, 0), mailbox=None
    )
    threading.Timer(0.2, stop.set).start()
    threading.Timer(1.0, hang.set).start()  # the worker saves its state
    begin = time.monotonic()
    with pytest.raises(StoppedError):
        bench.hold(*[None] * 3)  # type: ignore[arg-type]
    assert len(ray.cancelled) == 1
    assert 0.9 < time.monotonic() - begin < engine.GRACE


def test_a_shared_checkpoint_is_used_by_one_worker_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    shared = store.checkpoint({"table": "training", "unit": 1})
    (tmp_path / "locks").mkdir(exist_ok=True)
    with engine._folder(shared) as first, engine._folder(shared) as second:
        assert first == shared
        assert second != shared  # a worker that counts as lost is still at it
    assert not second.exists()
    with engine._folder(tmp_path / "of another machine") as third:
        assert third.is_dir()
        assert third.parent != tmp_path
    with lock(tmp_path / "locks" / f"{shared.name}.worker", wait=False) as free:
        assert free


def test_devices() -> None:
    cpus, gpus = engine.Cluster(None, 8, 0), engine.Cluster(None, 8, 2)
    assert [cpus.device(name).type for name in ("auto", "cpu")] == ["cpu", "cpu"]
    assert [gpus.device(name).type for name in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]
    assert [cpus.jobs(CPU), gpus.jobs(torch.device("cuda"))] == [8, 8]
    with pytest.raises(ValueError, match="'device' is cuda, but no node of the Ray cluster has a GPU"):
        cpus.device("cuda")


def test_without_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'gnpool\[ray\]'"):
        reproduce([SMALL], tmp_path, preset="smoke", engine="ray")
    with pytest.raises(ValueError, match="'engine' must be one of local, ray, got 'dask'"):
        reproduce([SMALL], tmp_path, preset="smoke", engine="dask")
    with pytest.raises(ValueError, match="'address' is that of a Ray cluster; use it with --engine ray"):
        reproduce([SMALL], tmp_path, preset="smoke", address="auto")


def broken_table() -> Table:
    """One study that works, one that cannot, and what would be made of the latter."""
    good = TABLES[SMALL].cells[0]
    bad = dataclasses.replace(good.recipe, model="bad", variants=({"net": "graph", "aggr": "no such pooling"},))
    return Table("broken", "", "MAPE", (Cell("bad", "x", bad, good.exam), Cell("good", "x", good.recipe, good.exam)))


@pytest.mark.parametrize("kind", ["threads", "stand-in", "processes"])
def test_a_study_that_fails_by_itself_is_recorded_once(tmp_path: Path, kind: str) -> None:
    ray, store = StandIn(), Store(tmp_path)
    cluster = engine.Cluster(ray, 2, 0) if kind == "stand-in" else None
    options: dict[str, Any] = {"cluster": cluster, "jobs": 2, "processes": kind == "processes"}
    with pytest.raises(
        FailedStudiesError, match=r"1 of 2 studies failed, the others are done and stored; .*harmonic: bad"
    ):
        Runner(store, PRESETS["smoke"], CPU, **options).run([broken_table()])
    assert len(store.keys("training")) == len(store.keys("score")) == 1
    (failure,) = json.loads((tmp_path / "failures.json").read_text())
    assert failure["study"] == "harmonic: bad"
    assert "no such pooling" in failure["reason"]
    assert "Traceback" in failure["traceback"]
    if kind == "stand-in":
        assert len(ray.options) == 1 + 3  # the mailbox, the bad training once, the good one and its exam


@pytest.fixture
def ray_or_skip() -> Iterator[Any]:
    try:
        with engine.ray_cluster(jobs=2) as cluster:
            yield cluster.ray
    except (ImportError, OSError) as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_real_ray(tmp_path: Path, ray_or_skip: Any) -> None:
    events: list[Event] = []
    options: dict[str, Any] = {"preset": "smoke", "engine": "ray", "on_event": events.append}
    (table,) = reproduce([SMALL], tmp_path / "ray", **options)["tables"]
    (expected,) = reproduce([SMALL], tmp_path / "local", preset="smoke", jobs=1)["tables"]
    assert timeless(table) == timeless(expected)
    assert scores(tmp_path / "ray") == scores(tmp_path / "local")
    assert sorted(event.done for event in events if event.finished) == list(range(1, 9))
    with pytest.raises(FailedStudiesError, match=r"1 of 2 studies failed"):
        Runner(Store(tmp_path), PRESETS["smoke"], CPU, cluster=engine.Cluster(ray_or_skip, 2, 0)).run([broken_table()])
    (failure,) = json.loads((tmp_path / "failures.json").read_text())
    assert "no such pooling" in failure["reason"]
