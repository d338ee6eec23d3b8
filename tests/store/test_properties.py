"""Any key and any scores come back as they were stored."""

from __future__ import annotations

import json
import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gnpool.store import Store

FINITE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
NAMES = st.text().filter(lambda name: name != "$float")


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4))


KEYS = st.builds(
    lambda table, rest: {**rest, "table": table}, st.text(), st.dictionaries(NAMES, nested(FINITE), max_size=3)
)


@given(KEYS, nested(FINITE | st.floats()))
def test_round_trip(key: dict[str, Any], scores: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        assert store.put(key, scores=scores)
        record = store.get(key)
        assert record is not None
        assert record.key == key
        assert repr(record.scores) == repr(scores)
        assert store.keys(key["table"]) == [key]
        assert not store.put(key, scores=scores)


@given(st.lists(KEYS, max_size=6, unique_by=lambda key: json.dumps(key, sort_keys=True)))
@settings(max_examples=25)
def test_keys_never_collide(keys: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        for place, key in enumerate(keys):
            assert store.put(key, scores=place)
        records = [store.get(key) for key in keys]
        assert [record.scores for record in records if record] == list(range(len(keys)))
        assert store.missing(keys) == []
