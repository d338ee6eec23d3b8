"""Reads a Parquet file as typed columns, through pyarrow."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnpool.data.csv_columns import Identifiers, Sheet
from gnpool.data.errors import DataError
from gnpool.data.files import Files
from gnpool.data.limits import check_need
from gnpool.data.table import Column

VALUE = 8  # bytes of memory that a value needs at least


def read_parquet(
    files: Files, name: str, ids: Sequence[str], categorical: frozenset[str], ignore: frozenset[str]
) -> Sheet:
    """Read a Parquet file, as :func:`~gnpool.data.csv_columns.read_csv` reads a CSV file; its types decide."""
    pa, pq = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    shown = files.shown(name)
    try:
        with files.open(name) as raw:
            packed = pq.ParquetFile(pa.BufferReader(raw.read()))
        about = packed.metadata
        need = VALUE * about.num_rows * max(1, about.num_columns)
        check_need(need, files.size(name), f"a table of {about.num_rows} rows and {about.num_columns} columns", shown)
        table = packed.read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"it is not a Parquet file ({str(error).splitlines()[0]})", file=shown) from error
    sheet = Sheet(shown, table.num_rows, {}, {}, lambda row: row + 1, ignore.intersection(table.column_names))
    for column in table.column_names:
        values = table.column(column)
        if column in ids:
            sheet.ids[column] = _names(values, sheet, column)
        elif column not in ignore:
            sheet.columns[column] = _values(values, sheet, column, column in categorical)
    return sheet


def _names(values: Any, sheet: Sheet, column: str) -> Identifiers:
    pa = _pyarrow("pyarrow")

    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy())[0])
        raise sheet.error("the name is empty", row, column)
    if pa.types.is_integer(values.type):
        return Identifiers(values.cast(pa.int64()).to_numpy())
    codes, words = _codes(values)
    return Identifiers(codes, words)


def _values(values: Any, sheet: Sheet, column: str, categorical: bool) -> Column:
    pa = _pyarrow("pyarrow")

    kind = values.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if number and not categorical:
        if pa.types.is_boolean(kind):
            values = values.cast(pa.int8())
        return Column(column, values.cast(pa.float64(), safe=False).to_numpy().astype(np.float64))
    if not number and not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)):
        raise sheet.error(f"a column must hold numbers or text, got {kind}", column=column)
    codes, words = _codes(values)
    order = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(words)), -1
    return Column(column, rank[codes], tuple(words[k] for k in order))


def _codes(values: Any) -> tuple[Any, list[str]]:
    pa = _pyarrow("pyarrow")

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    encoded = values.cast(pa.string()).dictionary_encode().combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError("Parquet files need pyarrow; install it with: pip install 'gnpool[data]'") from None
