"""Truncated, changed, lost and swapped files are found, set aside and computed again."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gnpool.store import Damage, Store, StoreWarning
from gnpool.store.encoding import pack, unpack
from tests.store.helpers import at_step, fail, holds, put, tree, unit_key

PLACES = {"start": 0.0, "early": 0.1, "middle": 0.5, "late": 0.9, "end": 1.0}
SUFFIXES = (".json", ".safetensors")


def truncated(data: bytes, place: float) -> bytes:
    return data[: int(place * (len(data) - 1))]


def flipped(data: bytes, place: float) -> bytes:
    at = int(place * (len(data) - 1))
    return data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]  # 0x20: the case of a letter


def zeroed(data: bytes, place: float) -> bytes:
    at = int(place * (len(data) - 1))
    return data[:at] + bytes(len(data) - at)  # what a power cut leaves of a file that was never flushed


def longer(data: bytes, _: float) -> bytes:
    return data + b"\n"


def file_of(store: Store, unit: int, suffix: str) -> Path:
    return next((store.root / "units").rglob(f"{unit}-*{suffix}"))


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("harm", [truncated, flipped, zeroed, longer])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_is_found_set_aside_and_redone(
    tmp_path: Path, suffix: str, harm: Callable[[bytes, float], bytes], place: float
) -> None:
    store = Store(tmp_path)
    put(store, 0)
    put(store, 1)
    whole = tree(tmp_path / "units")
    file = file_of(store, 1, suffix)
    harmed = harm(file.read_bytes(), place)
    file.write_bytes(harmed)
    with pytest.warns(
        StoreWarning, match=r"1-.*json' is damaged: .*; it was moved to '.*damaged.*', and the unit counts as mis"
    ):
        assert store.get(unit_key(1)) is None
    assert not file.exists()
    aside = tree(tmp_path / "damaged")
    assert sorted(Path(name).suffix for name in aside) == [".json", ".safetensors", ".txt"]
    assert aside[file.name] == harmed
    reason = aside[file.with_suffix(".reason.txt").name].decode()
    assert str(file.with_suffix(".json")) in reason
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert store.get(unit_key(1)) is None
        assert store.missing([unit_key(0), unit_key(1)]) == [unit_key(1)]
        assert holds(store, 0)
        assert put(store, 1)
        assert holds(store, 1)
    assert tree(tmp_path / "units") == whole


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_single_bit_counts(tmp_path: Path, suffix: str) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    store.put(unit_key(), scores=[0.5], tensors={"p": torch.zeros(1)})
    files = {path: path.read_bytes() for path in (tmp_path / "units").rglob("*-*")}
    target = file_of(store, 0, suffix)
    for at in range(len(files[target])):
        for path, data in files.items():
            path.write_bytes(data)
        data = bytearray(files[target])
        data[at] ^= 1 << at % 8
        target.write_bytes(data)
        assert store.get(unit_key()) is None, at
        shutil.rmtree(tmp_path / "damaged")
    assert len(found) == len(files[target])


@pytest.mark.parametrize(
    "look",
    [
        lambda store: store.missing([unit_key(0), unit_key(1)]) == [unit_key(1)],
        lambda store: store.keys() == [unit_key(0)],
        lambda store: [record.key for record in store.records("invsize", tensors=True)] == [unit_key(0)],
        lambda store: unit_key(1) not in store,
        lambda store: put(store, 1),
    ],
    ids=["missing", "keys", "records", "contains", "put"],
)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_way_of_looking_finds_a_truncated_file(
    tmp_path: Path, suffix: str, look: Callable[[Store], bool]
) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    put(store, 0)
    put(store, 1)
    file = file_of(store, 1, suffix)
    file.write_bytes(file.read_bytes()[:-1])
    assert look(store)
    assert [damage.path for damage in found] == [file.with_suffix(".json")]
    assert found[0].aside == tmp_path / "damaged" / file.with_suffix(".json").name


def test_verify_finds_a_flip_in_tensors(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for unit in range(3):
        put(store, unit)
    file = file_of(store, 1, ".safetensors")
    file.write_bytes(flipped(file.read_bytes(), 0.9))
    assert store.missing([unit_key(1)]) == []  # by size alone it is there
    assert store.verify("maxdegree") == []
    damages = store.verify()
    assert [damage.path for damage in damages] == [file.with_suffix(".json")]
    assert damages[0].reason == f"the content of '{file.name}' does not fit its checksum"
    assert store.missing([unit_key(1)]) == [unit_key(1)]
    assert store.verify() == []


def test_lost_tensors_and_swapped_records(tmp_path: Path) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    for unit in range(3):
        put(store, unit)
    file_of(store, 0, ".safetensors").unlink()
    one = file_of(store, 1, ".json")
    one.write_bytes(file_of(store, 2, ".json").read_bytes())
    assert store.keys() == [unit_key(2)]
    assert f"tensors, '{found[0].path.stem}.safetensors', are missing" in found[0].reason
    assert found[1].reason.startswith("it is the record of another key, {")


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    put(store, 0)
    tensors, record = file_of(store, 0, ".safetensors"), file_of(store, 0, ".json")
    data = pickle.dumps(torch.ones(3))
    tensors.write_bytes(data)
    about = {"file": tensors.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    record.write_bytes(pack({**unpack(record.read_bytes()), "tensors": about, "scores": []}))  # checksums that fit
    assert store.get(unit_key()) is None
    assert found[0].reason.startswith("it is not a safetensors file")


def test_damaged_twice_keeps_both(tmp_path: Path) -> None:
    store = Store(tmp_path, on_damage=lambda _: None)
    for content in (b"first", b"second"):
        put(store, 0)
        record = file_of(store, 0, ".json")
        record.write_bytes(content)
        assert store.get(unit_key()) is None
    aside = {name: data for name, data in tree(tmp_path / "damaged").items() if name.endswith(".json")}
    assert sorted(aside) == [f"{record.stem}.2.json", record.name]
    assert set(aside.values()) == {b"first", b"second"}
    assert len(tree(tmp_path / "damaged")) == 6


def test_a_store_that_may_only_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    put(store, 0)
    put(store, 1)
    record = file_of(store, 1, ".json")
    record.write_bytes(b"")
    for name in ("mkdir", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, lambda *_, **__: fail(errno.EROFS)("", ()))
    assert holds(store, 0)
    assert store.keys() == [unit_key(0)]
    assert found == [Damage(record, "it is empty", None)]
    assert "it could not be moved, and the unit counts as missing" in str(found[0])


def test_a_full_disk_while_setting_aside(tmp_path: Path) -> None:
    step, reached = 0, True
    while reached:
        found: list[Damage] = []
        store = Store(tmp_path / str(step), on_damage=found.append)
        put(store, 0)
        file_of(store, 0, ".json").write_bytes(b"broken")
        with pytest.MonkeyPatch.context() as patch:
            calls = at_step(patch, step, fail(errno.ENOSPC))
            assert store.get(unit_key()) is None
        assert [damage.reason for damage in found] == ["it does not begin with its checksum"]
        assert put(store, 0)
        assert holds(store, 0)
        reached, step = len(calls) > step, step + 1
    assert step > 5
