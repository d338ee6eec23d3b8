"""Values as strict JSON, and records as bytes that carry their own checksum."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from gnpool.store.errors import Damaged

FLOAT = "$float"  # {"$float": "nan"}, since JSON has no NaN, and null means that there is no score
NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
DEPTH = 100  # of nested values, so that Python's limit of recursion never prevents reading
HEAD = re.compile(rb'\{"sha256": "([0-9a-f]{64})",\n')


def encode(value: Any, name: str, *, finite: bool = False, depth: int = 0) -> Any:
    """``value`` in a form for strict JSON; errors call it ``name``.

    Args:
        value (Any): None, bool, int, float, str, lists or tuples, and mappings with string keys.
        name (str): The argument, for errors.
        finite (bool, optional): Whether NaN and infinities are refused. (default: ``False``)
        depth (int, optional): How deeply the value is nested. (default: ``0``)
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
    if depth == DEPTH and isinstance(value, (list, tuple, Mapping)):
        raise ValueError(f"'{name.partition('[')[0]}' must not be nested deeper than {DEPTH}")
    if isinstance(value, (list, tuple)):
        return [encode(item, f"{name}[{k}]", finite=finite, depth=depth + 1) for k, item in enumerate(value)]
    if isinstance(value, Mapping):
        for field in value:
            if not isinstance(field, str) or field == FLOAT:
                raise TypeError(f"'{name}' must have strings other than '{FLOAT}' as keys, got {field!r}")
        return {
            field: encode(item, f"{name}[{field!r}]", finite=finite, depth=depth + 1) for field, item in value.items()
        }
    hint = "; use float(...) or int(...)" if hasattr(value, "item") else ""
    raise TypeError(f"'{name}' must be a JSON value, got {type(value).__module__}.{type(value).__qualname__}{hint}")


def decode(data: bytes) -> Any:
    """The value of JSON bytes that :func:`encode` prepared; anything else raises :class:`Damaged`."""
    try:
        return (WITH_FLOATS if b'{"$float"' in data else PLAIN).decode(data.decode())
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # of JSON, of its floats, of UTF-8
        raise Damaged(f"it is not what a store writes ({type(error).__name__}: {error})") from error


def _float(fields: dict[str, Any]) -> Any:
    return NONFINITE[fields[FLOAT]] if FLOAT in fields else fields


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


PLAIN = json.JSONDecoder(parse_constant=_refuse)
WITH_FLOATS = json.JSONDecoder(parse_constant=_refuse, object_hook=_float)


def pack(fields: dict[str, Any]) -> bytes:
    """Encoded fields as one JSON object, with one line for each field and for each item of a list.

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
    if not isinstance(fields, dict):
        raise Damaged(f"it holds a {type(fields).__name__}, not fields")
    del fields["sha256"]
    return fields
