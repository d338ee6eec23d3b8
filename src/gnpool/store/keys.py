"""Keys of work units, and the paths of units."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from gnpool.store.encoding import encode

RECORD, TENSORS = ".json", ".safetensors"
UNSAFE = re.compile(r"[^A-Za-z0-9._+=-]+")
LABEL_LENGTH = 48  # of a label inside a path; the hash distinguishes labels that were cut
HASH_LENGTH = 20  # hex digits; among 10,000 keys two collide with probability 4e-17
RECORD_NAME = re.compile(rf".+-[0-9a-f]{{{HASH_LENGTH}}}{re.escape(RECORD)}")


def canonical(key: Mapping[str, Any]) -> str:
    """The canonical text of a key: JSON with sorted fields."""
    if not isinstance(key, Mapping):
        raise TypeError(f"'key' must be a mapping such as {{'table': ..., 'unit': ...}}, got {type(key).__name__}")
    if not isinstance(key.get("table"), str):
        raise ValueError(f"'key' must have a string 'table', got {dict(key)!r}")
    return json.dumps(encode(key, "key", finite=True), sort_keys=True, separators=(",", ":"))


def label(value: Any) -> str:
    """A readable part of a path for any value: no separators, no wildcards, not hidden, never empty."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return UNSAFE.sub("_", text)[:LABEL_LENGTH].strip(".") or "_"


def place(text: str) -> str:
    """The path of the unit of a canonical key below ``units/``, without suffix.

    It consists of the table, and then of the other fields in the order of their names. A hash of the whole key ends the
    last part, so that keys with equal labels have different paths.
    """
    key = json.loads(text)
    table = key.pop("table")
    *folders, name = [label(key[field]) for field in sorted(key)] or ["unit"]
    digest = hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
    return "/".join([label(table), *folders, f"{name}-{digest}"])
