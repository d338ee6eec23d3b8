"""Files with valid checksums and invalid content are set aside like damaged ones; also tests the order of writes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gnpool.store import Damage, Store, StoreError, files, locks
from gnpool.store.encoding import DEPTH
from tests.store.helpers import at_step, holds, put, tree, unit_key

KEY = json.dumps(unit_key())
GOOD = {"schema": "1", "key": KEY, "tensors": "null", "meta": "{}", "scores": "[]"}


def record(**fields: str | None) -> bytes:
    """A record of these JSON texts, and of good ones for the others; None leaves a field out."""
    told = {name: value for name, value in {**GOOD, **fields}.items() if value is not None}
    return sealed((",\n".join(f"{json.dumps(name)}: {value}" for name, value in told.items()) + "\n}\n").encode())


def sealed(body: bytes) -> bytes:
    return f'{{"sha256": "{hashlib.sha256(body).hexdigest()}",\n'.encode() + body


def nested(depth: int, inner: str = "") -> str:
    return "[" * depth + inner + "]" * depth


def about(**fields: Any) -> str:
    return json.dumps({"file": "x", "bytes": 0, "sha256": "", **fields})


RECORDS: dict[str, bytes] = {
    "not JSON": sealed(b'"schema": 1,\n}\n'),
    "cut JSON": sealed(b'"schema": 1, "key": '),
    "two values": sealed(b'"schema": 1}\n{}'),
    "not UTF-8": sealed(b'"schema": 1, "key": "\xff"}'),
    "deep lists": record(scores=nested(100_000)),
    "deep mappings": record(scores='{"a": ' * 100_000 + "1" + "}" * 100_000),
    "deep lists around floats": record(scores=nested(100_000, '{"$float": "nan"}')),
    "deep key": record(key=f'{{"table": "invsize", "a": {nested(5_000)}}}'),
    "NaN as Python writes it": record(scores="[NaN]"),
    "infinity as Python writes it": record(scores="[-Infinity]"),
    "an unknown float": record(scores='{"$float": "seven"}'),
    "a float that is a list": record(scores='{"$float": []}'),
    "a record that is a float": record(**{"$float": '"nan"', "scores": '{"$float": "inf"}'}),
    "a number of 10,000 digits": record(scores="1" * 10_000),
    "no schema": record(schema=None),
    "a schema that is text": record(schema='"1"'),
    "a schema that is true": record(schema="true"),
    "no key": record(key=None),
    "a key that is a list": record(key="[]"),
    "a key that is null": record(key="null"),
    "a key without a table": record(key='{"cell": "GNP/er"}'),
    "a key with a table of its own": record(key='{"table": 1}'),
    "a key with NaN": record(key='{"table": "invsize", "unit": {"$float": "nan"}}'),
    "another key": record(key='{"table": "invsize"}'),
    "no meta": record(meta=None),
    "meta that is a list": record(meta="[]"),
    "no scores": record(scores=None),
    "no tensors": record(tensors=None),
    "tensors that are a number": record(tensors="7"),
    "tensors that are a list": record(tensors="[]"),
    "tensors without a size": record(tensors='{"file": "x", "sha256": ""}'),
    "tensors with more than that": record(tensors=about(other=1)),
    "tensors of text bytes": record(tensors=about(bytes="7")),
    "tensors of true bytes": record(tensors=about(bytes=True)),
    "tensors of no file": record(tensors=about(file=None)),
    "tensors of a numeric checksum": record(tensors=about(sha256=0)),
    "dropped that is a list": record(dropped="[]"),
    "dropped that is null": record(dropped="null"),
    "dropped of nothing": record(dropped='{"names": ["a"], "of": null}'),
    "dropped names that are numbers": record(dropped=f'{{"names": [1], "of": {about()}}}'),
    "dropped names that are text": record(dropped=f'{{"names": "abc", "of": {about()}}}'),
}


def place_of(store: Store) -> Path:
    put(store, 0)
    return next((store.root / "units").rglob("0-*.json"))


@pytest.mark.parametrize("content", RECORDS.values(), ids=RECORDS)
def test_a_record_that_is_none_is_set_aside(tmp_path: Path, content: bytes) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    place = place_of(store)
    for look in (lambda: store.get(unit_key()) is None, lambda: unit_key() not in store, lambda: store.keys() == []):
        place.write_bytes(content)
        assert look()
        assert not place.exists()
    place.write_bytes(content)
    assert put(store, 0)
    assert holds(store, 0)
    assert len(found) == 4
    assert all("\n" not in damage.reason and damage.aside for damage in found)


def test_the_good_one_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    place_of(store).write_bytes(record(scores=nested(500), extra="1"))
    found = store.get(unit_key())
    assert found is not None
    assert found.key == unit_key()
    assert found.tensors == {}
    with pytest.warns(UserWarning, match="holds other results"):
        assert not put(store, 0)


def header(text: str, data: bytes = b"") -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(8, "little") + raw + data


def one(**fields: Any) -> str:
    return json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **fields}})


TENSORS: dict[str, bytes] = {
    "empty": b"",
    "short": b"\0" * 7,
    "a header of 2**63 bytes": (2**63).to_bytes(8, "little") + b"{}",
    "a header longer than the file": (100).to_bytes(8, "little") + b"{}",
    "no JSON": header("{"),
    "a list": header("[]"),
    "deep nesting": header('{"a": ' + nested(100_000) + "}"),
    "deep nesting in the metadata": header('{"__metadata__": {"a": ' + nested(100_000) + "}}"),
    "an unknown type": header(one(dtype="F31"), b"\0" * 4),
    "a type that torch has in another shape": header(one(dtype="F4", shape=[8]), b"\0" * 4),
    "a size that is negative": header(one(shape=[-1]), b"\0" * 4),
    "a size that overflows": header(one(shape=[2**62, 4]), b"\0" * 4),
    "sizes that overflow to nothing": header(one(shape=[2**32, 2**32, 0], data_offsets=[0, 0])),
    "more than there is": header(one(shape=[10**9], data_offsets=[0, 4 * 10**9]), b"\0" * 4),
    "offsets that go back": header(one(data_offsets=[4, 0]), b"\0" * 4),
    "offsets that leave a hole": header(one(data_offsets=[4, 8]), b"\0" * 8),
    "less than there is": header(one(), b"\0" * 8),
}


@pytest.mark.parametrize("content", TENSORS.values(), ids=TENSORS)
def test_tensors_with_a_lying_header(tmp_path: Path, content: bytes) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    place = place_of(store)
    file = place.with_suffix(".safetensors")
    file.write_bytes(content)
    told = {"file": file.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    place.write_bytes(record(tensors=json.dumps(told)))
    got = store.get(unit_key())
    if got is None:
        assert found[0].reason.startswith("it is not a safetensors file (")
        assert "\n" not in found[0].reason
        assert not file.exists()
        assert put(store, 0)
    else:  # torch may have such a tensor one day, or has it already: no more than the file holds
        assert got.tensors is not None
        assert sum(tensor.nbytes for tensor in got.tensors.values()) <= len(content)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "mappings"])
def test_scores_may_be_nested_a_hundred_times(tmp_path: Path, wrap: Callable[[Any], Any]) -> None:
    store, scores = Store(tmp_path), 1.5
    for _ in range(DEPTH):
        scores = wrap(scores)
    assert store.put(unit_key(), scores=scores)
    found = store.get(unit_key())
    assert found is not None
    assert found.scores == scores
    for name, argument in (("scores", {"scores": wrap(scores)}), ("meta", {"scores": 1, "meta": {"a": scores}})):
        with pytest.raises(ValueError, match=f"'{name}' must not be nested deeper than 100"):
            store.put(unit_key(1), **argument)
    with pytest.raises(ValueError, match="'key' must not be nested deeper than 100"):
        store.get({"table": "t", "a": scores})


def test_a_record_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnpool.store.store.RECORD_LIMIT", 500)
    store = Store(tmp_path)
    with pytest.raises(ValueError, match=r"a record must take at most 500 bytes, got 1,194; use 'tensors'"):
        store.put(unit_key(), scores=[0.5] * 200)
    assert store.put(unit_key(), scores=[0.5])


# What mutants of the store must not get away with.


def test_tensors_that_a_killed_writer_left_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    place = place_of(store)
    place.unlink()  # as if killed between the tensors and the record
    assert store.put(unit_key(), scores=[1.5])
    assert [Path(name).suffix for name in tree(tmp_path / "units")] == [".json"]


def test_a_reader_waits_for_the_writer_who_is_replacing_what_it_cannot_read(tmp_path: Path) -> None:
    found: list[Damage] = []
    store = Store(tmp_path, on_damage=found.append)
    place = place_of(store)
    good, tensors = place.read_bytes(), place.with_suffix(".safetensors").read_bytes()
    place.with_suffix(".safetensors").write_bytes(b"half")  # a record and tensors of two writers, for a moment
    seen: list[bool] = []
    reader = threading.Thread(target=lambda: seen.append(holds(store, 0)))
    with locks.lock(tmp_path / "locks" / f"{place.stem}.write", wait=True):
        reader.start()
        reader.join(0.3)
        assert seen == []  # it waits
        assert place.read_bytes() == good  # and has touched nothing
        place.with_suffix(".safetensors").write_bytes(tensors)
    reader.join(20)
    assert seen == [True]
    assert found == []


def test_a_file_is_on_the_disk_before_its_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = at_step(monkeypatch, -1, lambda *_: None)
    files.write(tmp_path / "file", b"data")
    assert calls == ["open", "write", "fsync", "close", "replace", "open", "fsync", "close"]


def test_tensors_are_on_the_disk_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    put(store, 1)  # the folders are there
    written: list[str] = []
    original = files.write
    monkeypatch.setattr(
        "gnpool.store.store.write", lambda path, data: (written.append(path.suffix), original(path, data))[1]
    )
    put(store, 0)
    assert written == [".safetensors", ".json"]


def test_new_folders_and_what_was_set_aside_survive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    synced: list[Path] = []
    monkeypatch.setattr("gnpool.store.files.sync_folder", synced.append)
    monkeypatch.setattr("gnpool.store.damage.sync_folder", synced.append)
    place = place_of(store)
    assert {tmp_path, tmp_path / "units", place.parent.parent, place.parent} <= set(synced)
    synced.clear()
    place.write_bytes(b"")
    store.on_damage = lambda damage: None
    assert store.get(unit_key()) is None
    assert tmp_path / "damaged" in synced


def test_errors_of_the_schema_name_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    place = place_of(store)
    place.write_bytes(record(schema="2", scores=None))  # another version may have other fields
    with pytest.raises(StoreError, match="schema 2, this version of gnpool reads 1") as caught:
        store.get(unit_key())
    assert caught.value.path == place
