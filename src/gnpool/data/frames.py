"""Reads tables that are frames of pandas or polars, and imports neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gnpool.data.csv_columns import MISSING, Identifiers, Sheet
from gnpool.data.errors import DataError, several
from gnpool.data.table import Column, GraphTable
from gnpool.data.tables import IDS, assemble


def read_frames(
    frames: Mapping[str, Any],
    level: str,
    *,
    y: Sequence[str],
    labelled: bool,
    directed: bool,
    categorical: Sequence[str],
    ignore: Sequence[str],
    part: str | None,
) -> GraphTable:
    """The tables ``graphs``, ``nodes`` and ``edges`` as frames by name; see :func:`gnpool.data.tables.read_tables`."""
    if unknown := sorted(set(map(str, frames)) - set(IDS)):
        raise DataError(f"frames must be called {several(list(IDS))}, got {several(unknown)}")
    words = {*categorical, *([] if part is None else [part])}
    sheets = {name: _sheet(name, frames[name], words, set(ignore)) for name in IDS if frames.get(name) is not None}
    if "nodes" not in sheets or ("graphs" not in sheets and level == "graph" and labelled):
        raise DataError(f"the frame {'nodes' if 'nodes' not in sheets else 'graphs'!r} is missing")
    tables = (sheets.get("graphs"), sheets["nodes"], sheets.get("edges"))
    named = (*categorical, *ignore)
    return assemble(None, tables, level, y=y, labelled=labelled, directed=directed, named=named, part=part)


def _sheet(table: str, frame: Any, words: set[str], ignore: set[str]) -> Sheet:
    columns, rows = getattr(frame, "columns", None), getattr(frame, "shape", (0,))[0]
    if columns is None or not hasattr(frame, "__getitem__"):
        raise DataError(f"{table!r} must be a frame of pandas or polars, got {type(frame).__name__}")
    names = [str(name) for name in columns]
    if rows == 0 and table != "edges":
        raise DataError(f"the frame {table!r} has no rows")
    sheet = Sheet(f"frame {table!r}", rows, {}, {}, lambda row: row, frozenset(ignore & set(names)))
    for given, name in zip(columns, names, strict=True):
        if name in IDS[table]:
            sheet.ids[name] = _names(frame[given], sheet, name)
        elif name not in ignore:
            sheet.columns[name] = _values(frame[given], sheet, name, name in words)
    return sheet


def _names(series: Any, sheet: Sheet, name: str) -> Identifiers:
    values = _array(series)
    if values.dtype.kind in "iu":
        return Identifiers(values.astype(np.int64))
    texts = [_text(value) for value in values.tolist()]
    if None in texts:
        raise sheet.error("the name is empty", texts.index(None), name)
    places: dict[str | None, int] = {}
    codes = np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int64)
    return Identifiers(codes, [str(text) for text in places])


def _values(series: Any, sheet: Sheet, name: str, categorical: bool) -> Column:
    values = _array(series)
    if values.dtype.kind in "biuf" and not categorical:
        return Column(name, values.astype(np.float64))
    texts = [_text(value) for value in values.tolist()]
    if not categorical and values.dtype.kind == "O":
        known = [value for value, text in zip(values.tolist(), texts, strict=True) if text is not None]
        if known and not any(isinstance(value, str) for value in known):
            try:
                return Column(name, np.array([np.nan if t is None else float(t) for t in texts], dtype=np.float64))
            except ValueError:
                raise sheet.error(
                    f"a column must hold numbers or text, got {type(known[0]).__name__}", column=name
                ) from None
    kept = sorted({text for text in texts if text is not None})
    rank: dict[str | None, int] = {text: place for place, text in enumerate(kept)}
    return Column(name, np.array([rank.get(text, -1) for text in texts], dtype=np.int64), tuple(kept))


def _array(series: Any) -> Any:
    found = np.asarray(series.to_numpy() if hasattr(series, "to_numpy") else series)
    return found if found.dtype.kind in "biuf" else np.array(list(series), dtype=object)


def _text(value: Any) -> str | None:
    """A cell as text; None if it is missing."""
    if value is None or value != value:  # NaN
        return None
    text = f"{value:.15g}" if isinstance(value, float) else str(value).strip()
    return None if text.lower() in MISSING else text
