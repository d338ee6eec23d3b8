"""With other things in place of files nothing hangs, none is read to its end, and nobody has to tidy up by hand."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from gnpool.store import Damage, Store, StoreError, files
from tests.store.helpers import holds, put, tree, unit_key

HANGS = 20  # seconds, after which a test has failed


@pytest.fixture(autouse=True)
def _nothing_hangs() -> Iterator[None]:
    def hanging(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it hangs for {HANGS} seconds")

    before = signal.signal(signal.SIGALRM, hanging)
    signal.alarm(HANGS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # names of sockets must be short
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"{folder}/s")
        server.close()
        Path(folder, "s").rename(path)


def full_folder(path: Path) -> None:
    path.mkdir()
    (path / "mine").write_text("mine")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def blocking(path: Path) -> None:
    """A link to a FIFO."""
    os.mkfifo(path.parent / "fifo")
    path.symlink_to(path.parent / "fifo")


THINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "FIFO": (fifo, "is a pipe and not an ordinary file"),
    "socket": (unix_socket, "is a socket and not an ordinary file"),
    "folder": (full_folder, "is a folder and not an ordinary file"),
    "loop of links": (loop, "is a link that leads back to itself and not an ordinary file"),
    "link to a device": (endless, "is a device and not an ordinary file"),
    "link to a FIFO": (blocking, "is a pipe and not an ordinary file"),
}
LOOKS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(unit_key()) is None,
    "in": lambda store: unit_key() not in store,
    "missing": lambda store: store.missing([unit_key()]) == [unit_key()],
    "keys": lambda store: store.keys() == [unit_key(1)],
    "verify": lambda store: len(store.verify()) == 1,
    "put": lambda store: put(store, 0),
    "pack": lambda store: store.pack() is not None and store.keys() == [unit_key(1)],
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@pytest.mark.parametrize(("thing", "reason"), THINGS.values(), ids=THINGS)
def test_it_is_set_aside(
    tmp_path: Path, thing: Callable[[Path], None], reason: str, suffix: str, look: Callable[[Store], bool]
) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    put(store, 0)
    put(store, 1)
    whole = tree(tmp_path / "units")
    record = next((tmp_path / "units").rglob("0-*.json"))
    place = record.with_suffix(suffix)
    place.unlink()
    thing(place)
    if thing is full_folder and suffix == ".json" and look in (LOOKS["keys"], LOOKS["verify"], LOOKS["pack"]):
        found.append(Damage(record, reason, record))  # a folder is no record to a listing, and costs it nothing
        look = LOOKS["missing"]
    assert look(store)
    if look is not LOOKS["verify"]:
        assert [damage.path for damage in found[-1:]] == [record]
        assert reason in found[-1].reason
    aside = tmp_path / "damaged" / place.name
    assert os.path.lexists(aside)
    assert not aside.is_file() or look is LOOKS["put"]
    if look is not LOOKS["put"]:
        assert not os.path.lexists(record)
        assert put(store, 0)
    assert holds(store, 0)
    assert look is LOOKS["pack"] or tree(tmp_path / "units") == whole


@pytest.mark.parametrize("thing", [thing for thing, _ in THINGS.values()], ids=THINGS)
def test_twice_keeps_both(tmp_path: Path, thing: Callable[[Path], None]) -> None:
    store = Store(tmp_path, on_damage=lambda damage: None)
    for _ in range(2):
        put(store, 0)
        record = next((tmp_path / "units").rglob("0-*.json"))
        record.unlink()
        (record.parent / "fifo").unlink(missing_ok=True)
        thing(record)
        assert store.get(unit_key()) is None
    names = {path.name for path in (tmp_path / "damaged").iterdir()}
    assert {record.name, f"{record.stem}.2.json"} <= names


@pytest.mark.parametrize("thing", [fifo, unix_socket, loop, endless], ids=lambda thing: thing.__name__)
def test_what_stands_at_a_temporary_name_is_removed(tmp_path: Path, thing: Callable[[Path], None]) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    thing(tmp_path / ".file.tmp")
    files.write(target, b"new")
    assert tree(tmp_path) == {"file": b"new"}


def test_a_link_at_a_temporary_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / ".file.tmp").symlink_to(tmp_path / "other")
    files.write(tmp_path / "file", b"new")
    assert tree(tmp_path) == {"file": b"new", "other": b"mine"}


def test_links_to_ordinary_files_are_followed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    put(store, 0)
    for path in list((store.root / "units").rglob("0-*")):
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    assert holds(store, 0)
    assert store.keys() == [unit_key()]


def test_sizes_are_checked_before_anything_is_read(tmp_path: Path) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    put(store, 0)
    put(store, 1)
    os.truncate(next((tmp_path / "units").rglob("0-*.json")), 2**40)  # takes no room on the disk
    os.truncate(next((tmp_path / "units").rglob("1-*.safetensors")), 2**40)
    assert store.get(unit_key(0)) is None
    assert store.get(unit_key(1)) is None
    assert [f"{2**40} bytes" in damage.reason for damage in found] == [True, True]


def test_folders_that_are_loops_of_links(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "units").symlink_to("units")
    for use in (lambda: store.get(unit_key()), lambda: put(store, 0), lambda: store.keys()):
        with pytest.raises(StoreError, match="links lead back to themselves; remove them"):
            use()


def test_writers_without_a_lock_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with files.replacing(target, shared=True) as first:
        os.write(first, b"first")
        files.write(target, b"second", shared=True)
    assert tree(tmp_path) == {"file": b"first"}  # the last to end, whole


def test_a_block_that_fails_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def fails() -> None:
        with files.replacing(target) as descriptor:
            os.write(descriptor, b"new")
            raise FileNotFoundError(2, "none", "elsewhere")

    with pytest.raises(FileNotFoundError) as caught:
        fails()
    assert caught.value.filename == "elsewhere"
    assert tree(tmp_path) == {"file": b"old"}
