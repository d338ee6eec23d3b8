"""Units in a pack are read as loose ones are, whatever happens while they are packed, and to the pack."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.store import Damage, Record, Store, StoreError, StoreWarning
from gnpool.store.packs import COMMENT, MARK, write_pack
from tests.store.helpers import STEPS, at_step, die, forked, holds, put, results, status, tree, unit_key


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three units with tensors, and one of another table without."""
    store = Store(tmp_path / "store")
    for unit in range(3):
        put(store, unit)
    store.put(unit_key(0, "maxdegree"), scores=[1.5])
    return store


def drop_weights(key: dict[str, Any], name: str) -> bool:
    return name == "weight" and key["unit"] != 1


def test_packed_units_are_read_like_loose_ones(store: Store) -> None:
    keys, loose = store.keys(), tree(store.root / "units")
    packing = store.pack()
    assert packing is not None
    assert (packing.units, packing.before, packing.dropped) == (4, sum(map(len, loose.values())), Counter())
    assert packing.path == store.root / "units" / "1.zip"
    assert list(tree(store.root / "units")) == ["1.zip"]
    for reader in (store, Store(store.root), pickle.loads(pickle.dumps(store))):  # noqa: S301 - workers get stores so
        assert reader.keys() == keys
        assert reader.keys("maxdegree") == [unit_key(0, "maxdegree")]
        assert all(holds(reader, unit) for unit in range(3))
        assert reader.missing([*keys, unit_key(9)]) == [unit_key(9)]
        assert [record.tensors is None for record in reader.records("invsize")] == [True] * 3
        assert reader.verify() == []
    with zipfile.ZipFile(packing.path) as archive:  # any zip program restores the loose files
        archive.extractall(store.root / "units")
    packing.path.unlink()
    assert tree(store.root / "units") == loose
    assert all(holds(store, unit) for unit in range(3))


def test_new_units_are_loose_and_go_into_the_next_pack(store: Store) -> None:
    store.pack()
    first = (store.root / "units" / "1.zip").read_bytes()
    assert put(store, 7)
    assert sorted(key["unit"] for key in store.keys("invsize")) == [0, 1, 2, 7]
    packing = store.pack()
    assert packing is not None
    assert (packing.path.name, packing.units) == ("2.zip", 1)
    assert (store.root / "units" / "1.zip").read_bytes() == first
    assert all(holds(store, unit) for unit in (0, 1, 2, 7))
    assert store.pack() is None
    assert sorted(tree(store.root)) == ["units/1.zip", "units/2.zip"]


def test_one_table(store: Store) -> None:
    packing = store.pack("maxdegree")
    assert packing is not None
    assert packing.units == 1
    assert {Path(name).parts[0] for name in tree(store.root / "units")} == {"1.zip", "invsize"}
    assert len(store.keys()) == 4


def test_equal_units_make_equal_packs(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    other.put(unit_key(0, "maxdegree"), scores=[1.5])
    for unit in (2, 0, 1):
        put(other, unit)
    store.pack()
    other.pack()
    assert tree(store.root) == tree(other.root)


def test_the_first_results_stay(store: Store) -> None:
    store.pack(drop=drop_weights)
    before = tree(store.root)
    assert not put(store, 0)  # what was dropped is no difference
    with pytest.warns(StoreWarning, match="holds other results of this unit; the first stay"):
        assert not store.put(unit_key(0), **{**results(0), "scores": []})
    with pytest.warns(StoreWarning, match="the first stay"):
        assert not store.put(unit_key(0), **{**results(0), "tensors": {"p": torch.zeros(1)}})
    assert tree(store.root) == before


def test_dropped_tensors(store: Store) -> None:
    packing = store.pack(drop=drop_weights)
    assert packing is not None
    assert packing.dropped == {"weight": 2}
    assert str(packing).endswith("; dropped tensors: 2 of weight")
    for unit in range(3):
        record = store.get(unit_key(unit))
        assert record is not None
        assert record.tensors is not None
        assert torch.equal(record.tensors["p"], results(unit)["tensors"]["p"])
        assert repr(record.scores) == repr(results(unit)["scores"])
        if unit == 1:
            assert record.dropped == ()
            assert record.part("weigh")["t"].shape == (5, 3)
        else:
            assert record.dropped == ("weight",)
            assert list(record.tensors) == ["p"]
            assert list(record.part("p")) == [""]
            with pytest.raises(ValueError, match=r"the tensors 'weight\.\.\.' of .*'unit': [02].* were dropped when"):
                record.part("weight")


def test_all_tensors_dropped_in_two_steps(store: Store) -> None:
    first = store.pack(drop=lambda _, name: name == "weight")
    assert first is not None
    with zipfile.ZipFile(first.path) as archive:
        archive.extractall(store.root / "units")
    first.path.unlink()
    store.pack(drop=lambda _, name: name == "p")
    record = store.get(unit_key(2))
    assert record is not None
    assert (record.tensors, record.dropped) == ({}, ("p", "weight"))
    assert not put(store, 2)  # still known to be the same results
    with pytest.raises(ValueError, match="were not read"):
        next(iter(store.records())).part("p")


def test_damaged_units_are_left_out(store: Store, tmp_path: Path) -> None:
    found: list[Damage] = []
    store.on_damage = found.append
    next(store.root.rglob("units/invsize/**/1-*.json")).write_bytes(b"broken")
    packing = store.pack()
    assert packing is not None
    assert packing.units == 3
    assert [damage.reason for damage in found] == ["it does not begin with its checksum"]
    assert holds(store, 2)
    assert store.missing([unit_key(1)]) == [unit_key(1)]


def test_every_changed_byte_of_a_pack_is_found_or_means_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    given: dict[str, Any] = {"scores": [0.5, {"seed": 1}], "tensors": {"p": torch.arange(3.0)}}
    store.put(unit_key(), **given)
    packing = store.pack()
    assert packing is not None
    whole = packing.path.read_bytes()
    seen = Counter[str]()
    for at in range(len(whole)):
        content = bytearray(whole)
        content[at] ^= 1 << at % 8
        packing.path.write_bytes(content)
        found: list[Damage] = []
        record = got(Store(tmp_path, on_damage=found.append))
        if isinstance(record, StoreError):
            assert record.path == packing.path
            seen["refused"] += 1
        elif record is None:
            assert [damage.aside for damage in found] == [None]
            assert packing.path in found[0].path.parents
            seen["missing"] += 1
        else:
            assert record.scores == given["scores"]
            assert record.tensors is not None
            assert torch.equal(record.tensors["p"], given["tensors"]["p"])
            seen["unharmed"] += 1  # a date, or a name that the list has once more
    assert seen["refused"] > COMMENT  # in the list of members, and in its checksum
    assert seen["missing"] > len(whole) // 4
    assert seen["unharmed"] < len(whole) // 4
    assert sum(seen.values()) == len(whole)


def got(store: Store) -> Record | StoreError | None:
    try:
        return store.get(unit_key())
    except StoreError as error:
        return error


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_cut_pack_is_an_error_and_not_a_store_without_units(store: Store, part: float) -> None:
    packing = store.pack()
    assert packing is not None
    content = packing.path.read_bytes()
    packing.path.write_bytes(content[: int(part * len(content))])
    for use in (lambda: store.get(unit_key()), store.keys, lambda: store.missing([unit_key()]), store.verify):
        with pytest.raises(StoreError, match=r"1\.zip': the pack is damaged \(.*\); restore it from a copy, or move"):
            use()


def test_a_damaged_member_is_put_again_and_found_in_the_next_pack(store: Store) -> None:
    packing = store.pack()
    assert packing is not None
    content = bytearray(packing.path.read_bytes())
    with zipfile.ZipFile(packing.path) as archive:
        (member,) = [one for one in archive.infolist() if "/1-" in one.filename and one.filename.endswith(".json")]
    content[member.header_offset + 30 + len(member.filename) + 20] ^= 8
    packing.path.write_bytes(content)
    found: list[Damage] = []
    store = Store(store.root, on_damage=found.append)
    assert store.missing([unit_key(unit) for unit in range(3)]) == [unit_key(1)]
    assert [damage.path.name for damage in found] == [Path(member.filename).name]
    assert len(store.verify()) == 1
    assert put(store, 1)
    assert holds(store, 1)
    second = store.pack()
    assert second is not None
    assert second.units == 1
    assert holds(store, 1)
    assert store.verify() == []


def test_killed_at_every_step_of_packing(tmp_path: Path) -> None:
    step, killed = 0, True
    while killed:
        store = Store(tmp_path / str(step))
        for unit in range(2):
            put(store, unit)

        def run(store: Store = store, step: int = step) -> None:
            with pytest.MonkeyPatch.context() as patch:
                at_step(patch, step, die, (*STEPS, "unlink"))
                store.pack()

        killed = status(forked(run)) == -signal.SIGKILL
        assert all(holds(store, unit) for unit in range(2))
        assert store.verify() == []
        assert len(store.keys()) == 2
        store.pack()
        assert list(tree(store.root / "units")) == ["1.zip"]
        assert all(holds(store, unit) for unit in range(2))
        step += 1
    assert step > 12


def test_readers_never_miss_a_unit_that_is_being_packed(tmp_path: Path) -> None:
    store = Store(tmp_path, on_damage=lambda damage: pytest.fail(str(damage)))
    for unit in range(40):
        put(store, unit)
    child = forked(lambda: [store.pack(drop=None) for _ in range(2)])
    rounds, done = 0, 0
    while not done:
        done = os.waitpid(child, os.WNOHANG)[0]
        unit = rounds % 40
        assert holds(store, unit), unit
        assert unit_key(unit) in store
        rounds += 1
    assert sorted(tree(tmp_path)) == ["units/1.zip"]
    assert rounds > 5


def test_a_writer_goes_on_while_others_pack(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, 99)

    def write() -> None:
        for unit in range(30):
            assert put(store, unit)

    children = [forked(write), *(forked(lambda: [store.pack() for _ in range(8)]) for _ in range(2))]
    assert [status(child) for child in children] == [0, 0, 0]
    assert all(holds(store, unit) for unit in (*range(30), 99))
    store.pack()
    assert {Path(name).suffix for name in tree(tmp_path)} == {".zip"}
    assert len(store.keys()) == 31


def test_what_shrinks_too_much_is_stored_as_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(unit_key(), scores=[], tensors={"zeros": torch.zeros(2**20)})
    packing = store.pack()
    assert packing is not None
    assert packing.after > 2**22
    record = store.get(unit_key())
    assert record is not None
    assert record.tensors is not None
    assert record.tensors["zeros"].count_nonzero() == 0
    assert record.tensors["zeros"].shape == (2**20,)


def rewritten(path: Path, **fields: Any) -> None:
    """A pack with a false list of members and a valid checksum."""
    with zipfile.ZipFile(path) as archive:
        begin = archive.start_dir
    content = bytearray(path.read_bytes())
    at = begin
    while content[at : at + 4] == b"PK\x01\x02":
        for name, value in fields.items():
            where, size = {"method": (10, 2), "size": (24, 4), "packed": (20, 4), "offset": (42, 4)}[name]
            content[at + where : at + where + size] = value.to_bytes(size, "little")
        at += 46 + sum(int.from_bytes(content[at + k : at + k + 2], "little") for k in (28, 30, 32))
    listed = bytes(content[begin:-COMMENT])
    content[len(content) - 64 :] = hashlib.sha256(listed).hexdigest().encode()
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"size": 2**31}, "would be unpacked to 2147483648 bytes, which is more than expected"),
        ({"size": 50_000}, "is not as long as the pack says"),
        ({"size": 3}, "is not as long as the pack says"),
        ({"packed": 7}, "is not as long as the pack says"),
        ({"offset": 3}, "is not where the pack says"),
        ({"offset": 2**31}, "is not where the pack says"),
        ({"method": 0}, "is not as long as the pack says"),
    ],
)
def test_a_list_of_members_that_lies(tmp_path: Path, lie: dict[str, int], reason: str) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    store.put(unit_key(), scores=[1] * 100)
    packing = store.pack()
    assert packing is not None
    rewritten(packing.path, **lie)
    assert store.get(unit_key()) is None
    assert reason in found[0].reason


def test_a_way_of_compressing_that_no_pack_has(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(unit_key(), scores=[1] * 100)
    packing = store.pack()
    assert packing is not None
    rewritten(packing.path, method=14)
    with pytest.raises(StoreError, match="its list of members is none that a store writes"):
        store.get(unit_key())


def test_other_zips(store: Store) -> None:
    units = store.root / "units"
    for name in ("notes.zip", "01.zip", "0.zip", "1.zip.txt"):
        (units / name).write_bytes(b"mine")
    assert len(store.keys()) == 4
    with zipfile.ZipFile(units / "1.zip", "w") as archive:
        archive.writestr("a.json", "{}")
    with pytest.raises(StoreError, match="its list of members does not fit its checksum"):
        store.keys()
    (units / "1.zip").unlink()
    os.mkfifo(units / "1.zip")
    with pytest.raises(StoreError, match=r"1\.zip': a pack of units is expected there: '1\.zip' is a pipe"):
        store.keys()


def test_a_pack_may_have_any_number_of_members(tmp_path: Path) -> None:
    made = write_pack(tmp_path / "1.zip", ((f"t/{k}", b"%d" % k) for k in range(70_000)))  # more than 16 bits count
    assert made.read("t/69999", 10) == b"69999"
    assert made.path.read_bytes()[-len(MARK) - 64 :].startswith(MARK)
