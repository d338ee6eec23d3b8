"""A store survives kills at any moment, several processes at once, and owners that die."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gnpool.store import Store, StoreError, locks
from tests.store.helpers import at_step, die, forked, holds, put, results, status, tree, unit_key


@pytest.fixture(params=["flock", "files"], autouse=True)
def _kind_of_lock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    if request.param == "files":
        monkeypatch.setattr("fcntl.flock", flock)


def work(store: Store, units: int, log: Path | None = None, pause: float = 0.0) -> None:
    """Work as the lab does: compute the missing units one by one, with a checkpoint."""
    for key in store.missing([unit_key(unit) for unit in range(units)]):
        with store.claim(key) as mine:
            if mine and key not in store:
                (store.checkpoint(key) / "state").write_text("half")
                time.sleep(pause)
                if log is not None:
                    with log.open("a") as file:
                        file.write(f"{key['unit']}\n")
                assert store.put(key, **results(key["unit"]))


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, bytes]:
    store = Store(tmp_path / "undisturbed")
    work(store, 2)
    return tree(store.root / "units")


def test_killed_at_every_step_twice(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    step, killed = 0, True
    while killed:
        store = Store(tmp_path / str(step))

        def run(store: Store = store, step: int = step) -> None:
            with pytest.MonkeyPatch.context() as patch:
                at_step(patch, step, die)
                work(store, 2)

        killed = status(forked(run)) == -signal.SIGKILL
        status(forked(run))
        assert store.verify() == []  # whatever is there is whole
        work(store, 2)
        assert tree(store.root / "units") == undisturbed
        assert tree(store.root / "checkpoints") == {}
        assert not (store.root / "damaged").exists()
        step += 1
    assert step > 40


def test_killed_from_outside_twice(tmp_path: Path) -> None:
    units, store = 20, Store(tmp_path / "killed")
    for enough in (4, 11):
        child = forked(lambda: work(store, units, pause=0.005))
        deadline = time.monotonic() + 30
        while len(list((store.root / "units").rglob("*.json"))) < enough and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        assert status(child) == -signal.SIGKILL
        assert enough <= len(store.keys()) < units
    work(store, units)
    whole = Store(tmp_path / "whole")
    work(whole, units)
    assert tree(store.root / "units") == tree(whole.root / "units")
    assert store.verify() == []


def test_two_workers_share_the_units(tmp_path: Path) -> None:
    store, log = Store(tmp_path / "store"), tmp_path / "log"
    children = [forked(lambda: work(store, 30, log, pause=0.001)) for _ in range(3)]
    assert [status(child) for child in children] == [0, 0, 0]
    work(store, 30, log)  # two that meet at a claim may both leave it
    assert sorted(log.read_text().split(), key=int) == [str(unit) for unit in range(30)]  # each exactly once
    assert all(holds(store, unit) for unit in range(30))
    assert tree(store.root / "locks") == {}


def test_two_writers_of_the_same_keys_without_claims(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def run(worker: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *_, **__: None)  # others came first
            for unit in range(30):
                store.put(unit_key(unit), **{**results(unit), "scores": [worker] * 2000})

    children = [forked(partial(run, worker)) for worker in range(3)]
    assert [status(child) for child in children] == [0, 0, 0]
    assert store.verify() == []
    for record in store.records():
        assert record.scores == [record.scores[0]] * 2000
    assert len(store.keys()) == 30
    assert not [name for name in tree(tmp_path) if name.endswith(".tmp")]


def test_a_lock_lets_one_in_at_a_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")

    def count() -> None:
        for _ in range(150):
            with locks.lock(tmp_path / "lock", wait=True) as mine:
                assert mine
                value = int(counter.read_text())
                time.sleep(0)  # let another in, if it can
                counter.write_text(str(value + 1))

    children = [forked(count) for _ in range(4)]
    assert [status(child) for child in children] == [0] * 4
    assert counter.read_text() == "600"
    assert list(tmp_path.iterdir()) == [counter]


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[int]:
    """A process that holds the claim of unit 0."""
    reader, writer = os.pipe()

    def hold() -> None:
        with Store(tmp_path).claim(unit_key()) as mine:
            os.write(writer, b"1" if mine else b"0")
            time.sleep(60)

    child = forked(hold)
    assert os.read(reader, 1) == b"1"
    yield child
    os.close(reader)
    os.close(writer)
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def claimed(store: Store, unit: int = 0) -> bool:
    with store.claim(unit_key(unit)) as mine:
        return mine


def test_a_claim_ends_with_its_owner(tmp_path: Path, holder: int) -> None:
    store = Store(tmp_path)
    assert not claimed(store)
    assert claimed(store, 1)
    assert put(store, 0)  # a claim is a promise not to work twice; it does not stop results
    os.kill(holder, signal.SIGKILL)
    os.waitid(os.P_PID, holder, os.WEXITED | os.WNOWAIT)  # dead, and not yet taken note of
    assert claimed(store)
    assert tree(tmp_path / "locks") == {}


def test_a_claim_holds_between_threads_too(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []
    with store.claim(unit_key()) as mine:
        assert mine
        thread = threading.Thread(target=lambda: seen.append(claimed(store)))
        thread.start()
        thread.join()
    assert seen == [False]
    assert claimed(store)


def test_a_child_forked_inside_a_claim_does_not_end_it(tmp_path: Path) -> None:
    store, parent = Store(tmp_path), os.getpid()
    try:
        with store.claim(unit_key()):
            child = os.fork()
            if child:
                assert status(child) == 0
                assert not claimed(store)
    finally:
        if os.getpid() != parent:
            os._exit(0)
    assert claimed(store)


FAR: list[tuple[str, Callable[[list[str]], list[str]], bool]] = [
    ("another host", lambda who: ["elsewhere", *who[1:]], True),
    ("before a restart of the machine", lambda who: [who[0], "another-boot", *who[2:]], False),
    ("a number used again", lambda who: [*who[:3], "12345"], False),
    ("a number not in use", lambda who: [*who[:2], "4194305", who[3]], False),
    ("a system that does not tell the start", lambda who: [*who[:3], "0"], True),
    ("the same, and dead", lambda who: [*who[:2], "4194305", "0"], False),
    ("this process", lambda who: who, True),
]


@pytest.mark.parametrize(("change", "alive"), [row[1:] for row in FAR], ids=[row[0] for row in FAR])
def test_owners_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[list[str]], list[str]], alive: bool
) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    other = tmp_path / f"unit.claim@{'@'.join(change(list(locks._identity())))}@99"
    other.touch()
    with locks.lock(tmp_path / "unit.claim", wait=False) as mine:
        assert mine == (not alive)
    assert other.exists() == alive
    with locks.lock(tmp_path / "unit2.claim", wait=False) as mine:
        assert mine


def test_waiting_for_an_owner_elsewhere_ends_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "PATIENCE", 0.05)
    store = Store(tmp_path)
    put(store, 0)
    stem = next(tmp_path.rglob("*.json")).stem
    (tmp_path / "locks" / f"{stem}.write@elsewhere@boot@1@2@3").touch()
    with pytest.raises(
        StoreError, match=r"write@elsewhere.*: the owner of this lock does not release it; if that proc"
    ):
        put(store, 0)
