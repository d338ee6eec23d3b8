"""The engines by themselves: what they send and get back, and how they treat lost, failed and stopped units."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.engine import (
    Caller,
    Engine,
    LostError,
    RayEngine,
    StoppedError,
    UnitError,
    choose_device,
    open_engine,
    schedule,
)
from gnpool.engine import cluster as cluster_module
from gnpool.engine.schedule import side_by_side, work_off
from gnpool.store import Store, StoreError
from gnpool.store.locks import lock
from tests.engine.standin import StandIn, standing_in


def add(caller: Caller, a: int, b: int) -> int:
    caller.tell(("adding", a))
    return a + b


def fail(caller: Caller, a: int) -> int:
    raise ZeroDivisionError(f"no {a}")


def warn(caller: Caller) -> None:
    warnings.warn("something is odd", stacklevel=1)


def remember(caller: Caller, runs: int) -> int:
    """Continues from the state that it finds, and ends at the first multiple of ``runs``."""
    assert caller.checkpoint is not None
    file = caller.checkpoint / "count"
    count = int(file.read_text()) if file.exists() else 0
    file.write_text(str(count + 1))
    return count + 1


def wait_for_end(caller: Caller) -> None:
    time.sleep(1.0)


@pytest.fixture(params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        yield Engine()
        return
    with standing_in() as (found, _):
        yield found


def test_a_unit_gives_what_it_returns(engine: Engine) -> None:
    assert engine.call(add, 1, 2) == 3
    assert dict(engine.each(add, [(k, k) for k in range(9)])) == {k: 2 * k for k in range(9)}
    assert list(engine.each(add, [])) == []


def test_large_values_are_sent_once() -> None:
    with standing_in() as (engine, ray):
        values = [torch.arange(3), torch.arange(4)]
        shared = [engine.share(value) for value in values for _ in range(3)]
        assert ray.puts == 2
        assert torch.equal(engine.call(add, shared[0], 1), values[0] + 1)
    assert Engine().share(values) is values


def test_reports_arrive(engine: Engine) -> None:
    told: list[Any] = []
    assert engine.call(add, 5, 1, caller=Caller(tell=told.append)) == 6
    if engine.remote:
        for _ in range(600):  # one that comes after the end is of no use
            if told:
                break
            engine.call(wait_a_little, caller=Caller(tell=told.append))
    assert told[0] in (("adding", 5), "little")


def wait_a_little(caller: Caller) -> None:
    caller.tell("little")
    time.sleep(1.5 * cluster_module.POLL)


def test_an_error_of_who_is_told_is_raised_where_the_unit_was_asked_for() -> None:
    def tell(message: Any) -> None:
        raise KeyError(message)

    with standing_in() as (engine, _), pytest.raises(KeyError, match="little"):
        dict(engine.each(wait_a_little, [()] * 600, Caller(tell=tell)))


def test_what_is_lost_is_started_again() -> None:
    with standing_in(losses=cluster_module.RETRIES) as (engine, ray):
        assert engine.call(add, 1, 2) == 3
        assert ray.started == ["add"] * (cluster_module.RETRIES + 1)
    with standing_in(losses=cluster_module.RETRIES + 1) as (engine, ray):
        with pytest.raises(LostError, match=r"lost 4 times with its worker \(RayError: The worker died\.\)$"):
            engine.call(add, 1, 2)
        assert engine.call(add, 1, 2) == 3


def test_a_lost_unit_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    shared = Store(tmp_path).checkpoint({"table": "training", "unit": 1})
    (tmp_path / "locks").mkdir(exist_ok=True)
    with standing_in(losses=2) as (engine, _):
        assert engine.call(remember, 1, caller=Caller(checkpoint=shared)) == 3
        assert engine.call(remember, 1, caller=Caller(checkpoint=tmp_path / "not here")) == 1


def test_what_fails_by_itself_is_started_once() -> None:
    with standing_in() as (engine, ray):
        with pytest.raises(UnitError, match=r"^ZeroDivisionError: no 7") as caught:
            engine.call(fail, 7)
        assert ray.started == ["fail"]
    assert str(caught.value) == "ZeroDivisionError: no 7"  # what a user is shown
    assert "Traceback" in caught.value.__notes__[0]
    with pytest.raises(ZeroDivisionError, match="no 7"):
        Engine().call(fail, 7)


def test_warnings_of_workers_are_warnings_here() -> None:
    with pytest.warns(UserWarning, match="something is odd"), standing_in() as (engine, _):
        engine.call(warn)


def test_units_take_a_core_or_a_share_of_a_gpu() -> None:
    ray = StandIn()
    with RayEngine(ray, 8, 0) as cpus, RayEngine(ray, 8, 2) as gpus, RayEngine(ray, 8, 2, "cpu") as cores:
        assert [one.device.type for one in (cpus, gpus, cores)] == ["cpu", "cuda", "cpu"]
        assert [one.jobs(3) for one in (cpus, gpus, cores)] == [8, 8, 8]
        assert ray.units == [{"num_cpus": 1, "num_gpus": share, "max_retries": 3} for share in (0, 0.25, 0)]
        assert ray.options[-1] == {"num_cpus": 0, "resources": {"node:here": 0.001}}  # a mailbox
        assert gpus.here.type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="'device' is cuda, but no node of the Ray cluster has a GPU"):
        RayEngine(ray, 8, 0, "cuda")
    assert Engine().jobs(3) == 3


@pytest.mark.parametrize("who", ["caller", "engine"])
def test_stopping_cancels(who: str) -> None:
    stop = threading.Event()
    with standing_in() as (engine, ray):
        event = stop if who == "caller" else engine.stop
        threading.Timer(0.1, event.set).start()
        begin = time.monotonic()
        with pytest.raises(StoppedError):
            engine.call(wait_for_end, caller=Caller(stopped=stop.is_set))
        assert len(ray.cancelled) == 1
        assert time.monotonic() - begin < cluster_module.GRACE  # the worker had its time to save


def test_leaving_a_loop_over_units_stops_the_others() -> None:
    with standing_in() as (engine, ray):
        for _, found in engine.each(add, [(k, k) for k in range(100)]):
            assert found % 2 == 0
            break
        assert not engine.stop.is_set()
        assert len(ray.started) < 100


def test_a_shared_checkpoint_is_used_by_one_worker_at_a_time(tmp_path: Path) -> None:
    shared = Store(tmp_path).checkpoint({"table": "training", "unit": 1})
    (tmp_path / "locks").mkdir(exist_ok=True)
    with cluster_module._folder(shared) as first, cluster_module._folder(shared) as second:
        assert first == shared
        assert second is not None
        assert second != shared  # a worker that counts as lost is still at it
    assert not second.exists()
    with cluster_module._folder(tmp_path / "of another machine") as third:
        assert third is not None
        assert third.parent != tmp_path
    with lock(tmp_path / "locks" / f"{shared.name}.worker", wait=False) as free:
        assert free


def test_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_engine("local", device="cpu") as engine:
        assert (engine.remote, engine.device.type) == (False, "cpu")
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    for arguments, error, message in [
        (("ray",), ImportError, r"the engine 'ray' needs Ray: pip install 'gnpool\[ray\]'"),
        (("dask",), ValueError, "'engine' must be one of local, ray, got 'dask'"),
        (("local", "auto"), ValueError, "'address' .*--engine ray"),
    ]:
        with pytest.raises(error, match=message), open_engine(*arguments):
            pass
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="'device' is cuda, but torch finds no GPU here"):
            choose_device("cuda")


class FakeRay(StandIn):
    """An engine that is started and ended."""

    def __init__(self, found: dict[str, float] | Exception) -> None:
        super().__init__()
        self.found, self.log = found, list[Any]()

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str, **options: Any) -> None:
        self.log.append((address, options))
        if isinstance(self.found, Exception):
            raise self.found

    def cluster_resources(self) -> Any:
        return self.found

    def shutdown(self) -> None:
        self.log.append("shutdown")


def test_a_cluster_is_started_here_or_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in cluster_module.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for address, jobs in ((None, 3), ("10.0.0.1:6379", 3)):
        ray = FakeRay({"CPU": 4.0, "GPU": 1.0})
        monkeypatch.setitem(__import__("sys").modules, "ray", ray)
        with open_engine("ray", address, jobs=jobs) as engine:
            assert (engine.jobs(1), engine.device.type) == (4, "cuda")
        (given, options), last = ray.log
        assert (given, last) == (address or "local", "shutdown")
        assert options.get("num_cpus") == (None if address else 3)
    import os

    assert {name: os.environ[name] for name in cluster_module.SETTINGS} == cluster_module.SETTINGS
    for address, message in ((None, "does not start on this machine: no"), ("far", "cannot be reached at 'far': no")):
        monkeypatch.setitem(__import__("sys").modules, "ray", FakeRay(ConnectionError("no")))
        with pytest.raises(OSError, match=f"^Ray {message}"), open_engine("ray", address):
            pass


def test_items_that_others_are_at_come_later_and_those_that_fail_are_set_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "POLL_SECONDS", 0.01)
    seen: list[str] = []

    def call(item: str) -> bool:
        seen.append(item)
        if item.startswith("bad"):
            raise ValueError(item)
        return item != "busy" or seen.count("busy") == 3

    stop = threading.Event()
    failed = side_by_side(call, ["busy", "bad 1", "good", "bad 2"], 1, stop)
    assert {number: str(error) for number, error in failed.items()} == {1: "bad 1", 3: "bad 2"}
    assert sorted(seen) == ["bad 1", "bad 2", "busy", "busy", "busy", "good"]
    assert not stop.is_set()


def test_what_meets_all_ends_all(tmp_path: Path) -> None:
    seen: list[int] = []

    def call(item: int) -> bool:
        seen.append(item)
        if item == 2:
            raise StoreError("the disk is gone", tmp_path)
        return True

    with pytest.raises(StoreError, match="the disk is gone"):
        side_by_side(call, range(10), 1, threading.Event())
    assert seen[:3] == [0, 1, 2]
    assert len(seen) <= 4


def test_the_doomed_are_left_out() -> None:
    def submit(item: int) -> Future[bool]:
        future: Future[bool] = Future()
        if item == 1:
            future.set_exception(ValueError("one"))
        else:
            future.set_result(True)
        submitted.append(item)
        return future

    submitted: list[int] = []
    failed = work_off(submit, [0, 1, 2, 3, 4], 1, lambda item, failed: bool(failed) and item % 2 == 1)
    assert list(failed) == [1]
    assert submitted == [0, 1, 2, 4]
