"""Values as strict JSON, and records as bytes that carry their own checksum."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

FLOAT = "$float"  # {"$float": "nan"}: JSON has no word for it, and null means that there is no score
NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
HEAD = re.compile(rb'\{"sha256": "([0-9a-f]{64})",\n')


class Damaged(Exception):  # noqa: N818 - a finding that the store acts on, never an error users see
    """The content is not what was written; the text says how that shows."""


def encode(value: Any, name: str, *, finite: bool = False) -> Any:
    """``value`` as strict JSON has it; ``name`` is how errors call it.

    Args:
        value (Any): None, bool, int, float, str, lists or tuples, and mappings with string keys.
        name (str): The argument, for errors.
        finite (bool, optional): Whether NaN and infinities are refused. (default: ``False``)
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):  # numpy.float64 is one, too
        if math.isfinite(value):
            return float(value)
        if finite:
            raise ValueError(f"'{name}' must be finite, got {value}")
        return {FLOAT: str(float(value))}
    if isinstance(value, (list, tuple)):
        return [encode(item, f"{name}[{place}]", finite=finite) for place, item in enumerate(value)]
    if isinstance(value, Mapping):
        for field in value:
            if not isinstance(field, str) or field == FLOAT:
                raise TypeError(f"'{name}' must have strings other than '{FLOAT}' as keys, got {field!r}")
        return {field: encode(item, f"{name}[{field!r}]", finite=finite) for field, item in value.items()}
    hint = "; use float(...) or int(...)" if hasattr(value, "item") else ""
    raise TypeError(f"'{name}' must be a JSON value, got {type(value).__module__}.{type(value).__qualname__}{hint}")


def decode(data: bytes) -> Any:
    """The value behind JSON bytes that :func:`encode` prepared."""
    return json.loads(data, object_hook=_float if b'{"$float"' in data else None)


def _float(fields: dict[str, Any]) -> Any:
    return NONFINITE[fields[FLOAT]] if FLOAT in fields else fields


def pack(fields: dict[str, Any]) -> bytes:
    """Encoded fields as one JSON object, a field to a line and an item of a list to a line.

    The first line holds the SHA-256 of all bytes after it.
    """
    lines = []
    for name, value in fields.items():
        if isinstance(value, list) and value:
            text = "[\n" + ",\n".join(json.dumps(item, allow_nan=False) for item in value) + "\n]"
        else:
            text = json.dumps(value, allow_nan=False)
        lines.append(f"{json.dumps(name)}: {text}")
    body = (",\n".join(lines) + "\n}\n").encode()
    return f'{{"sha256": "{hashlib.sha256(body).hexdigest()}",\n'.encode() + body


def unpack(data: bytes) -> dict[str, Any]:
    """The fields that :func:`pack` got; raises :class:`Damaged` if a single bit differs."""
    head = HEAD.match(data)
    if head is None:
        raise Damaged("it does not begin with its checksum" if data else "it is empty")
    if hashlib.sha256(memoryview(data)[head.end() :]).hexdigest().encode() != head[1]:
        raise Damaged("its content does not fit its checksum")
    fields = decode(data)
    del fields["sha256"]
    return fields
