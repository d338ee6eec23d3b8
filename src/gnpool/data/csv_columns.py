"""A CSV file as typed columns, read in blocks of rows: no Python object per cell stays."""

from __future__ import annotations

import abc
import csv
import io
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from gnpool.data.csv_plain import read_plain
from gnpool.data.errors import DataError, several
from gnpool.data.files import Files
from gnpool.data.table import Column, Floats, Ints

BLOCK = 1 << 16  # rows
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})  # in lower case


@dataclass
class Identifiers:
    """A column of names: integers as such, anything else as positions in ``words``."""

    values: Ints
    words: list[str] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> str:
        value = int(self.values[row])
        return str(value) if self.words is None else self.words[value]


@dataclass
class Sheet:
    """The columns of one file: names in ``ids``, everything else in ``columns``; ``line_of`` a row, for messages."""

    file: str
    rows: int
    ids: dict[str, Identifiers]
    columns: dict[str, Column]
    line_of: Callable[[int], int]
    ignored: frozenset[str] = frozenset()

    def error(self, message: str, row: int | None = None, column: str | None = None) -> DataError:
        """An error at a row of this file."""
        return DataError(message, file=self.file, line=None if row is None else self.line_of(row), column=column)


def read_csv(files: Files, name: str, ids: Sequence[str], categorical: frozenset[str], ignore: frozenset[str]) -> Sheet:
    """Read a CSV file: columns in ``ids`` are names, those in ``categorical`` categories.

    Any other is numbers, or categories if none of its values is a number. A column that has both is an error: it is a
    number somebody mistyped more often than not.
    """
    sheet = _read_plain(files, name, frozenset(ids), categorical, ignore)
    if sheet is not None:
        return sheet
    kinds: dict[str, type[_Reader]] = dict.fromkeys(ids, _IntegerNames)
    kinds.update({column: _Words for column in categorical if column not in ids})
    while True:
        try:
            return _read_once(files, name, kinds, frozenset(ids), ignore)
        except _OtherKind as change:  # rare: a column that begins as one kind and goes on as another
            kinds[change.column] = change.kind


def _read_plain(
    files: Files, name: str, ids: frozenset[str], categorical: frozenset[str], ignore: frozenset[str]
) -> Sheet | None:
    """The same, several times faster, for a file of plain numbers; None for any other."""
    shown = files.shown(name)
    with files.open(name) as raw:
        header = _header(next(_rows(raw, shown), None), shown)
    if categorical.intersection(header):
        return None
    table = read_plain(files, name, header, ids)
    if table is None:
        return None
    sheet = Sheet(shown, len(table), {}, {}, lambda row: row + 2, ignore.intersection(header))
    for place, column in enumerate(header):
        if column in ids:
            sheet.ids[column] = Identifiers(table[:, place].astype(np.int64))
        elif column not in ignore:
            sheet.columns[column] = Column(column, table[:, place].copy())
    return sheet


def _read_once(
    files: Files, name: str, kinds: dict[str, type[_Reader]], ids: frozenset[str], ignore: frozenset[str]
) -> Sheet:
    shown = files.shown(name)
    with files.open(name) as raw:
        rows = filter(None, _rows(raw, shown))  # an empty line is no row
        header = _header(next(rows, None), shown)
        readers = {c: kinds.get(c, _Numbers)(c) for c in header if c not in ignore or c in ids}
        count = 0
        while block := list(islice(rows, BLOCK)):
            if any(len(row) != len(header) for row in block):
                bad = next(k for k, row in enumerate(block) if len(row) != len(header))
                line = _line_of(files, name, count + bad)
                raise DataError(f"it has {len(block[bad])} columns in place of {len(header)}", file=shown, line=line)
            for place, cells in enumerate(zip(*block, strict=True)):
                if header[place] in readers:
                    readers[header[place]].read(cells)
            count += len(block)
    sheet = Sheet(shown, count, {}, {}, lambda row: _line_of(files, name, row), ignore.intersection(header))
    for reader in readers.values():
        reader.finish(sheet)
    return sheet


def _rows(raw: Any, shown: str) -> Iterator[list[str]]:
    text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise DataError(f"it is not CSV ({error})", file=shown, line=reader.line_num) from error
    except UnicodeDecodeError as error:
        raise DataError(f"it is not UTF-8 text ({error.reason})", file=shown, line=_bad_line(raw)) from error
    finally:
        if not text.closed:  # the file stays its owner's to close
            text.detach()


def _bad_line(raw: Any) -> int | None:
    """The first line that is not UTF-8."""
    raw.seek(0)
    for number, line in enumerate(raw, 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return number
    return None


def _line_of(files: Files, name: str, row: int) -> int:
    """The line at which a row ends, from 1. It reads the file again: for messages only."""
    with files.open(name) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="", errors="replace")
        reader = csv.reader(text)
        seen = -2  # the header is row -1
        for cells in reader:
            seen += bool(cells)
            if seen == row:
                break
        text.detach()
        return reader.line_num


def _header(cells: list[str] | None, shown: str) -> list[str]:
    if not cells:
        raise DataError("it is empty; its first line must name the columns", file=shown)
    header = [cell.strip() for cell in cells]
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise DataError("its columns must be separated by commas", file=shown, line=1)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"it names {several(twice)} twice", file=shown, line=1)
    if "" in header:
        raise DataError(f"column {header.index('') + 1} has no name", file=shown, line=1)
    return header


class _OtherKind(Exception):  # noqa: N818 -- not an error: a signal to read the file again
    def __init__(self, column: str, kind: type[_Reader]) -> None:
        super().__init__(column)
        self.column, self.kind = column, kind


@dataclass
class _Reader(abc.ABC):
    """Takes the cells of one column block by block."""

    name: str
    blocks: list[Any] = field(default_factory=list)

    @abc.abstractmethod
    def read(self, cells: Sequence[str]) -> None:
        """Take the next cells."""

    @abc.abstractmethod
    def finish(self, sheet: Sheet) -> None:
        """Put the column into the sheet."""

    def joined(self, dtype: Any) -> Any:
        return np.concatenate(self.blocks) if self.blocks else np.zeros(0, dtype=dtype)


class _IntegerNames(_Reader):
    """Names that are integers, written as Python would write them (01 is another name than 1)."""

    def read(self, cells: Sequence[str]) -> None:
        try:
            numbers = list(map(int, cells))
            if not all(map(operator.eq, cells, map(str, numbers))):
                raise ValueError
            self.blocks.append(np.array(numbers, dtype=np.int64))
        except (ValueError, OverflowError):
            raise _OtherKind(self.name, _Names) from None

    def finish(self, sheet: Sheet) -> None:
        sheet.ids[self.name] = Identifiers(self.joined(np.int64))


@dataclass
class _Words(_Reader):
    """Categories: each word once, and positions among them; -1 where missing."""

    places: dict[str, int] = field(default_factory=dict)

    def read(self, cells: Sequence[str]) -> None:
        places = self.places
        codes = [
            -1 if cell.lower() in MISSING else places.setdefault(cell, len(places)) for cell in map(str.strip, cells)
        ]
        self.blocks.append(np.array(codes, dtype=np.int64))

    def finish(self, sheet: Sheet) -> None:
        codes, words = self.joined(np.int64), list(self.places)
        order = sorted(range(len(words)), key=words.__getitem__)
        rank = np.empty(len(words) + 1, dtype=np.int64)
        rank[order], rank[-1] = np.arange(len(words)), -1
        sheet.columns[self.name] = Column(self.name, rank[codes], tuple(words[k] for k in order))


class _Names(_Words):
    """Names that are not all integers; one that is empty is an error."""

    def read(self, cells: Sequence[str]) -> None:
        places = self.places
        self.blocks.append(np.array([places.setdefault(cell, len(places)) for cell in cells], dtype=np.int64))

    def finish(self, sheet: Sheet) -> None:
        codes = self.joined(np.int64)
        for word in self.places:
            if not word.strip():
                row = int(np.flatnonzero(codes == self.places[word])[0])
                raise sheet.error("the name is empty", row, self.name)
        sheet.ids[self.name] = Identifiers(codes, list(self.places))


@dataclass
class _Numbers(_Reader):
    """Numbers, NaN where missing."""

    numbers: int = 0
    first_word: tuple[int, str] | None = None
    rows: int = 0

    def read(self, cells: Sequence[str]) -> None:
        try:
            values = np.array(list(map(float, cells)))
        except ValueError:
            values = self._one_by_one(cells)
        self.numbers += int(np.count_nonzero(~np.isnan(values)))
        if self.first_word is not None and self.numbers == 0:
            raise _OtherKind(self.name, _Words)
        self.blocks.append(values)
        self.rows += len(cells)

    def _one_by_one(self, cells: Sequence[str]) -> Floats:
        values = np.full(len(cells), np.nan)
        for k, cell in enumerate(map(str.strip, cells)):
            if cell.lower() not in MISSING:
                try:
                    values[k] = float(cell)
                except ValueError:
                    if self.first_word is None:
                        self.first_word = (self.rows + k, cell)
        return values

    def finish(self, sheet: Sheet) -> None:
        if self.first_word is not None:
            row, word = self.first_word
            raise sheet.error(
                f"{_short(word)} is not a number, but other values are; name the column as categorical if it is",
                row,
                self.name,
            )
        sheet.columns[self.name] = Column(self.name, self.joined(np.float64))


def _short(word: str, most: int = 40) -> str:
    return repr(word if len(word) <= most else f"{word[:most]}...")
