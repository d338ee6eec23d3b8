"""Records, listings, names and checkpoints come back as they were stored."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from gnpool.store import Store, StoreError, StoreWarning
from tests.store.helpers import holds, put, results, tree, unit_key


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_round_trip(store: Store) -> None:
    assert store.get(unit_key()) is None
    assert put(store, 0)
    record = store.get(unit_key())
    assert record is not None
    assert record.key == unit_key()
    assert record.meta == {"device": "cpu"}
    assert record.scores[:4] == [{"seed": 0, "mape": 0.0}, {"seed": 1, "mape": 0.1}, {"seed": 2, "mape": 0.2}, None]
    assert math.isnan(record.scores[4])
    assert record.tensors is not None
    assert torch.equal(record.tensors["weight"], results(0)["tensors"]["weight"])


def test_files_are_ordinary(store: Store) -> None:
    put(store, 3)
    names = sorted(tree(store.root))
    assert [name.rsplit("-", 1)[0] for name in names] == ["units/invsize/GNP_er/3"] * 2
    record, tensors = (store.root / name for name in names)
    fields = json.loads(record.read_text(), parse_constant=pytest.fail)  # strict: no NaN, no Infinity
    head, body = record.read_bytes().split(b"\n", 1)
    assert fields["sha256"] == hashlib.sha256(body).hexdigest()
    assert head == f'{{"sha256": "{fields["sha256"]}",'.encode()
    assert fields["schema"] == 1
    assert fields["key"] == unit_key(3)
    assert fields["scores"][-2:] == [None, {"$float": "nan"}]
    assert fields["tensors"] == {
        "file": tensors.name,
        "bytes": tensors.stat().st_size,
        "sha256": hashlib.sha256(tensors.read_bytes()).hexdigest(),
    }
    np.testing.assert_array_equal(load_file(tensors)["p"], results(3)["tensors"]["p"].numpy())


@pytest.mark.parametrize(
    "value",
    [
        0.1 + 0.2,
        5e-324,
        1.7976931348623157e308,
        -0.0,
        1 / 3,
        2**70,
        math.inf,
        -math.inf,
        math.nan,
        None,
        True,
        "é\ud800",
    ],
    ids=repr,
)
def test_score_comes_back_exactly(store: Store, value: Any) -> None:
    store.put(unit_key(), scores={"value": value, "list": [value, (value,)]})
    record = store.get(unit_key())
    assert record is not None
    assert repr(record.scores) == repr({"value": value, "list": [value, [value]]})  # repr tells -0.0 and NaN apart


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(1.5),
        torch.empty(0, 3),
        torch.arange(6, dtype=torch.float64).view(2, 3).t(),
        torch.tensor([1.0, math.nan, -math.inf]).bfloat16(),
        torch.tensor([True, False]),
        torch.tensor([2**62]),
        torch.nn.Parameter(torch.ones(2)),
    ],
    ids=lambda t: f"{t.dtype}-{tuple(t.shape)}",
)
def test_tensor_comes_back_exactly(store: Store, tensor: torch.Tensor) -> None:
    store.put(unit_key(), scores=[], tensors={"t": tensor, "tied": tensor})
    record = store.get(unit_key())
    assert record is not None
    assert record.tensors is not None
    for back in record.tensors.values():
        assert back.dtype == tensor.dtype
        torch.testing.assert_close(back, tensor.detach(), rtol=0, atol=0, equal_nan=True)


def test_arrays_come_back_as_tensors(store: Store) -> None:
    store.put(unit_key(), scores=[], tensors={"curve": np.arange(6.0).reshape(2, 3).T})
    record = store.get(unit_key())
    assert record is not None
    assert record.tensors is not None
    assert record.tensors["curve"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_listings(store: Store) -> None:
    keys = [unit_key(unit, table) for table in ("maxdegree", "invsize") for unit in range(3)]
    assert store.missing(keys) == keys
    assert store.keys() == []
    for unit in (0, 2):
        put(store, unit)
    put(store, 1, "maxdegree")
    assert store.missing(keys) == [keys[0], keys[2], keys[4]]
    assert keys[1] in store
    assert keys[0] not in store
    assert store.keys("invsize") == [unit_key(0), unit_key(2)]
    assert store.keys() == [unit_key(0), unit_key(2), unit_key(1, "maxdegree")]
    assert store.keys("harmonic") == []
    assert [record.scores[1]["mape"] for record in store.records("invsize")] == [0.1, 2.1]
    assert all(record.tensors is None for record in store.records())
    assert [record.tensors["p"][-1] for record in store.records(tensors=True) if record.tensors] == [2.0, 4.0, 3.0]


def test_other_files_are_left_alone(store: Store) -> None:
    put(store, 0)
    for name in ("notes.json", ".x-0123456789abcdef0123.json.tmp", "README.md"):
        (store.root / "units" / "invsize" / name).write_text("mine")
    assert store.keys() == [unit_key(0)]
    assert store.verify() == []
    assert not (store.root / "damaged").exists()


ALIKE: list[dict[str, Any]] = [
    *(
        {"table": "t", "cell": cell, "unit": 0}
        for cell in ("a/b", "a_b", "a*b", "a", "A", "..", ".", "", "a" * 400, "a" * 401)
    ),
    *({"table": table, "unit": 0} for table in ("../../t", "/t", "..", "", "t\0", "~", "é", "e\u0301", "con")),
    *({"table": "t", "unit": unit} for unit in (1, 1.0, True, "1", "true", None, [1], [[1]], {"a": 1}, -1, 0.0, -0.0)),
    {"table": "t"},
    {"table": "t", "cell": "x"},
    {"table": "t", "kind": "x"},
    {"table": "t", "cell": "x", "kind": "x"},
]


def test_keys_that_look_alike_lie_apart_and_inside(store: Store) -> None:
    for place, key in enumerate(ALIKE):
        assert store.put(key, scores=place), key
    for place, key in enumerate(ALIKE):
        record = store.get(key)
        assert record is not None
        assert record.scores == place, key
        assert json.dumps(record.key, sort_keys=True) == json.dumps(key, sort_keys=True)
    names = [name for name in tree(store.root.parent) if name.endswith(".json")]
    assert len({name.lower() for name in names}) == len(ALIKE)
    assert all(name.startswith("store/units/") for name in names)
    assert len(store.keys("t")) == sum(key["table"] == "t" for key in ALIKE)


def test_order_of_fields_does_not_matter(store: Store) -> None:
    put(store, 0)
    assert dict(reversed(unit_key().items())) in store


def test_first_writer_wins(store: Store) -> None:
    put(store, 0)
    before = tree(store.root)
    assert not put(store, 0)  # equal results: nothing to say
    assert not store.put(unit_key(), **{**results(0), "meta": {"device": "cuda"}})
    with pytest.warns(StoreWarning, match="holds other results of this unit; the first stay"):
        assert not store.put(unit_key(), **{**results(0), "scores": []})
    with pytest.warns(StoreWarning, match="the first stay"):
        assert not store.put(unit_key(), **{**results(0), "tensors": {"p": torch.zeros(1)}})
    assert tree(store.root) == before


def test_checkpoint_lives_until_the_put(store: Store) -> None:
    folder = store.checkpoint(unit_key())
    (folder / "epoch").write_text("7")
    (folder / "deep").mkdir()
    other = store.checkpoint(unit_key(1))
    assert folder.is_relative_to(store.root)
    assert (store.checkpoint(unit_key()) / "epoch").read_text() == "7"
    put(store, 0)
    assert not folder.exists()
    assert other.exists()
    assert store.keys() == [unit_key(0)]


def test_missing_removes_the_checkpoint_of_a_stored_unit(store: Store) -> None:
    put(store, 0)
    folder = store.checkpoint(unit_key())  # as if killed between the record and the removal
    assert store.missing([unit_key()]) == []
    assert not folder.exists()


def test_opening_again_elsewhere(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, 0)
    monkeypatch.chdir(store.root.parent)
    relative = Store("store", create=False)
    monkeypatch.chdir("/")
    assert holds(relative, 0)
    assert holds(pickle.loads(pickle.dumps(relative)), 0)  # noqa: S301 - workers get stores that way
    assert repr(relative) == f"Store({os.fspath(store.root)!r})"


def test_newer_schema_is_refused_and_kept(store: Store) -> None:
    put(store, 0)
    record = next(store.root.rglob("*.json"))
    body = record.read_bytes().split(b"\n", 1)[1].replace(b'"schema": 1', b'"schema": 2')
    record.write_bytes(f'{{"sha256": "{hashlib.sha256(body).hexdigest()}",\n'.encode() + body)
    with pytest.raises(StoreError, match=r"schema 2, this version of gnpool reads 1; use the one that wrote it"):
        store.get(unit_key())
    assert record.exists()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": "invsize"}, TypeError, "'key' must be a mapping such as .* got str"),
        ({"key": {"unit": 1}}, ValueError, "'key' must have a string 'table', got {'unit': 1}"),
        ({"key": {"table": "t", "unit": math.nan}}, ValueError, r"'key\['unit'\]' must be finite, got nan"),
        ({"key": {"table": "t", "unit": np.int64(1)}}, TypeError, r"'key\['unit'\]' .* numpy.int64; use float"),
        (
            {"scores": [{"a": np.float32(1)}]},
            TypeError,
            r"'scores\[0\]\['a'\]' must be a JSON value, got numpy.float32",
        ),
        ({"scores": {1: 2}}, TypeError, "'scores' must have strings other than .* as keys, got 1"),
        ({"scores": {"$float": "nan"}}, TypeError, r"'scores' must have strings other than '\$float'"),
        ({"scores": {1, 2}}, TypeError, "'scores' must be a JSON value, got builtins.set"),
        ({"meta": {"when": Path()}}, TypeError, r"'meta\['when'\]' must be a JSON value, got pathlib"),
        ({"tensors": {"w": [1.0]}}, TypeError, r"'tensors\['w'\]' must be a dense tensor or array, got list"),
        (
            {"tensors": {"w": torch.eye(2).to_sparse()}},
            TypeError,
            "must be a dense tensor or array, got torch.sparse_coo",
        ),
        ({"tensors": {"w": np.array(["a"])}}, TypeError, r"'tensors\['w'\]' must hold numbers, got an array of <U1"),
        (
            {"tensors": {"__metadata__": torch.ones(1)}},
            TypeError,
            "'tensors' must have strings other than '__metadata__'",
        ),
    ],
)
def test_refused_before_anything_is_written(
    store: Store, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        store.put(**{"key": unit_key(), "scores": [], **arguments})
    assert list(store.root.iterdir()) == []


def test_numpy_float64_is_a_float(store: Store) -> None:
    store.put(unit_key(), scores=[np.float64(0.1)])
    record = store.get(unit_key())
    assert record is not None
    assert record.scores == [0.1]
    assert type(record.scores[0]) is float


def test_many_small_records_are_cheap(store: Store) -> None:
    times = []
    for unit in range(1000):
        start = time.perf_counter()
        store.put(unit_key(unit), scores=[{"seed": 0, "mape": 1.5}], meta={"seconds": 2.5})
        times.append(time.perf_counter() - start)
    assert statistics.median(times) < 0.02
    start = time.perf_counter()
    assert len(store.keys()) == 1000
    assert time.perf_counter() - start < 0.5  # ten times what it takes, for busy machines
