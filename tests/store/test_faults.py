"""Full disks, limits and wrong folders give one clear error and leave nothing half-written."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gnpool.store import Store, StoreError
from tests.store.helpers import at_step, fail, forked, holds, put, results, status, tree, unit_key


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space and start again, since what was stored is still there"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EROFS, "the file system is read-only; choose another folder"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_failure_at_every_step(tmp_path: Path, code: int, message: str) -> None:
    step, reached, tried = 0, True, set()
    while reached:
        store = Store(tmp_path / str(step))
        put(store, 0, "maxdegree")
        checkpoint = store.checkpoint(unit_key())
        before = tree(store.root)
        with pytest.MonkeyPatch.context() as patch:
            calls = at_step(patch, step, fail(code))
            failed = put_fails(store)
        if failed:
            tried.add(calls[step])
            assert {k: v for k, v in tree(store.root).items() if not k.startswith("locks/")} == before
            assert checkpoint.exists()
        else:  # past the point where the unit is stored, or never reached
            assert holds(store, 0)
        assert holds(store, 0, "maxdegree")
        put(store, 0)
        assert holds(store, 0)
        reached, step = len(calls) > step, step + 1
    assert tried == {"open", "write", "fsync", "close", "replace", "mkdir"}
    with pytest.MonkeyPatch.context() as patch:
        at_step(patch, 3, fail(code))
        with pytest.raises(StoreError, match=message) as caught:
            put(store, 1)
    assert str(store.root) in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def put_fails(store: Store) -> bool:
    try:
        put(store, 0)
    except StoreError:
        return True
    return False


@pytest.mark.parametrize("limit", [0, 100, 4096, 50_000])
def test_a_real_limit_of_the_file_size(tmp_path: Path, limit: int) -> None:
    store = Store(tmp_path)
    put(store, 0)
    before = tree(tmp_path)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(StoreError, match=r"larger than the limit .*ulimit -f"):
            store.put(unit_key(1), scores=[0.5] * 20_000, tensors={"weight": torch.zeros(20_000)})

    assert status(forked(work)) == 0
    assert tree(tmp_path) == before
    assert put(store, 1)


def test_interrupted_by_the_user(tmp_path: Path) -> None:
    def interrupt(name: str, _: object) -> None:
        if name == "replace":
            raise KeyboardInterrupt

    step, reached = 0, True
    while reached:
        store = Store(tmp_path / str(step))
        with pytest.MonkeyPatch.context() as patch:
            calls = at_step(patch, step, interrupt)
            try:
                put(store, 0)
            except KeyboardInterrupt:
                assert tree(store.root) == {}
        reached, step = len(calls) > step, step + 1


def read(store: Store) -> object:
    return store.get(unit_key())


def write(store: Store) -> object:
    return put(store, 0)


def claim(store: Store) -> object:
    with store.claim(unit_key()) as mine:
        return mine


def missing(store: Store) -> object:
    return store.missing([unit_key()])


def checkpoint(store: Store) -> object:
    return store.checkpoint(unit_key())


@pytest.mark.parametrize("use", [read, write, claim, missing, checkpoint, Store.keys, Store.verify])
def test_a_folder_that_went_away(tmp_path: Path, use: Callable[[Store], object]) -> None:
    store = Store(tmp_path / "disk" / "store")
    store.root.rmdir()
    with pytest.raises(StoreError, match=r"disk/store': the folder .*does not exist, or was removed"):
        use(store)
    assert list(tmp_path.rglob("*")) == [tmp_path / "disk"]  # it is not made anew: it may be a disk that was unmounted


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match="none': the folder of the store does not exist, or was removed; choose another"
    ):
        Store(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_a_file_where_the_store_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="file': there is a file where a folder is expected; move it away"):
        Store(tmp_path / "file")
    with pytest.raises(StoreError, match="file': the folder of the store is a file"):
        Store(tmp_path / "file", create=False)
    with pytest.raises(StoreError, match="there is a file where a folder is expected"):
        Store(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("units", read),
        ("units", write),
        ("units/invsize", read),
        ("units/invsize", write),
        ("units/invsize", lambda store: store.keys("invsize")),
        ("locks", write),
        ("locks", claim),
        ("checkpoints", checkpoint),
    ],
)
def test_a_file_where_a_folder_should_be(tmp_path: Path, name: str, use: Callable[[Store], object]) -> None:
    store = Store(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(StoreError, match="there is a file where a folder is expected; move it away"):
        use(store)
    assert tree(tmp_path) == {name: b"mine"}


def test_a_folder_without_permission() -> None:
    def work() -> None:
        if os.geteuid() == 0:  # root writes where it likes
            os.setuid(65534)
        assert holds(store, 0)
        assert store.keys() == [unit_key(0)]
        with pytest.raises(StoreError, match=r"permission is denied; change the permissions .* or choose another"):
            put(store, 1)

    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to other users
        store = Store(folder)
        put(store, 0)
        before = tree(store.root)
        folders = [store.root, *(path for path in store.root.rglob("*") if path.is_dir())]
        for path in folders:
            path.chmod(0o555)
        try:
            assert status(forked(work)) == 0
        finally:
            for path in folders:
                path.chmod(0o755)
        assert tree(store.root) == before


def test_errors_travel_between_processes(tmp_path: Path) -> None:
    error = StoreError(tmp_path, "the disk is full")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - how a worker's error comes home
    assert str(back) == f"'{tmp_path}': the disk is full"
    assert back.path == tmp_path


def test_errors_of_a_claimed_block_are_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(FileNotFoundError, match="mine"), store.claim(unit_key()):
        raise FileNotFoundError("mine")
    with store.claim(unit_key()) as mine:
        assert mine


def test_results_are_not_changed_by_a_failed_put(tmp_path: Path) -> None:
    store = Store(tmp_path)
    given = results(0)
    with pytest.MonkeyPatch.context() as patch:
        at_step(patch, 3, fail(errno.ENOSPC))
        with pytest.raises(StoreError, match="the disk is full"):
            store.put(unit_key(), **given)
    assert store.put(unit_key(), **given)
    assert holds(store, 0)
