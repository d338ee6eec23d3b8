"""Reads a CSV file as typed columns, in blocks of rows. No cell stays a Python object, and no byte is read twice."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnpool.data.csv_blocks import Block, CsvFile, Odd
from gnpool.data.errors import DataError
from gnpool.data.files import Files
from gnpool.data.table import Column, Floats, Ints

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})  # in lower case
SKIP, NUMBER, INTEGER = 0, 1, 2  # the types that kernels read


@dataclass
class Identifiers:
    """A column of names: integers, or positions in ``words``."""

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
    """Read a CSV file in one pass: columns in ``ids`` are names, those in ``categorical`` categories.

    Any other column holds numbers, or categories if none of its values is a number. A column with both is an error,
    since it is usually a mistyped number. The header decides on the separator.
    """
    with files.open(name) as raw:
        source = CsvFile(files, name, raw)
        known = frozenset(ids)
        readers: dict[int, _Reader] = {
            place: _Names(column) if column in known else _Values(column, words=column in categorical)
            for place, column in enumerate(source.header)
            if column not in ignore or column in known
        }
        kinds = np.zeros(len(source.header), dtype=np.int8)

        def wanted(block: Block) -> Any:
            kinds[list(readers)] = [reader.wants(block, place) for place, reader in readers.items()]
            return kinds

        rows = 0
        for block in source.blocks(wanted):
            for place, reader in readers.items():
                reader.read(block, place)
            rows += block.rows
    sheet = Sheet(source.shown, rows, {}, {}, source.line_of, ignore.intersection(source.header))
    for reader in readers.values():
        reader.finish(sheet)
    return sheet


@dataclass
class _Reader(abc.ABC):
    """Takes one column block by block."""

    name: str
    rows: int = 0
    blocks: list[Any] = field(default_factory=list)
    places: dict[str, int] | None = None  # the positions of the different cells, if the column holds words

    @abc.abstractmethod
    def wants(self, block: Block, column: int) -> int:
        """The type that a block should read the column as."""

    def read(self, block: Block, column: int) -> None:
        """Take the next rows."""
        if self.places is None:
            self.read_numbers(block, column)
        else:
            self.read_words(block, column)
        self.rows += block.rows

    @abc.abstractmethod
    def read_numbers(self, block: Block, column: int) -> None:
        """Take the next rows, while the column may be numbers."""

    def read_words(self, block: Block, column: int) -> None:
        """Take the next rows as words."""
        assert self.places is not None
        codes, words = block.words(column)
        places = self.places
        new = np.array([places.setdefault(word, len(places)) for word in words], dtype=np.int64)
        self.blocks.append(new[codes])

    @abc.abstractmethod
    def finish(self, sheet: Sheet) -> None:
        """Put the column into the sheet."""

    def joined(self, dtype: Any) -> Any:
        return np.concatenate(self.blocks) if self.blocks else np.zeros(0, dtype=dtype)


class _Names(_Reader):
    """Names. They are integers if all of them are written as Python writes integers (01 and 1 are two names)."""

    def wants(self, block: Block, column: int) -> int:
        return INTEGER if self.places is None else SKIP

    def read_numbers(self, block: Block, column: int) -> None:
        values, odd = block.integers(column)
        for row, cell in odd:
            try:
                values[row] = int(cell)
                plain = str(int(cell)) == cell
            except (ValueError, OverflowError):
                plain = False
            if not plain:
                self._become_words()
                self.read_words(block, column)
                return
        self.blocks.append(values)

    def _become_words(self) -> None:
        kept, codes = np.unique(self.joined(np.int64), return_inverse=True)
        self.places = {str(value): place for place, value in enumerate(kept.tolist())}
        self.blocks = [codes]

    def finish(self, sheet: Sheet) -> None:
        codes = self.joined(np.int64)
        if self.places is None:
            sheet.ids[self.name] = Identifiers(codes)
            return
        empty = [place for word, place in self.places.items() if not word.strip()]
        if empty:
            row = int(np.flatnonzero(np.isin(codes, empty))[0])
            raise sheet.error("the name is empty", row, self.name)
        sheet.ids[self.name] = Identifiers(codes, list(self.places))


class _Values(_Reader):
    """Numbers, or categories if nothing is a number; with ``words`` numbers are categories, too."""

    def __init__(self, name: str, words: bool) -> None:
        super().__init__(name, places={} if words else None)
        self.told = words
        self.numbers = False  # whether there were any numbers
        self.first_word: tuple[int, str] | None = None

    def wants(self, block: Block, column: int) -> int:
        if self.rows == 0 and self.places is None and not _numeric(block.first(column)):
            self.places = {}  # probably words; numbers among them are found at the end
        return NUMBER if self.places is None else SKIP

    def read_numbers(self, block: Block, column: int) -> None:
        if self.rows == 0 and self.wants(block, column) == SKIP:
            self.read_words(block, column)
            return
        values, odd = block.numbers(column)
        self._take_odd(values, odd)
        self.numbers = self.numbers or bool((values == values).any())
        if self.first_word is not None and not self.numbers:  # nothing but missing values so far
            self.places = {"": 0}
            self.blocks = [np.zeros(self.rows, dtype=np.int64)]
            self.first_word = None
            self.read_words(block, column)
        else:
            self.blocks.append(values)

    def _take_odd(self, values: Floats, odd: Odd) -> None:
        for row, cell in odd:
            value = _number(cell)
            if value is not None:
                values[row] = value
            elif self.first_word is None:
                self.first_word = (self.rows + row, cell.strip())

    def finish(self, sheet: Sheet) -> None:
        if self.places is not None:
            sheet.columns[self.name] = self._categories(sheet, self.places)
        elif self.first_word is not None:
            raise self._mixed(sheet, *self.first_word)
        else:
            sheet.columns[self.name] = Column(self.name, self.joined(np.float64))

    def _categories(self, sheet: Sheet, places: dict[str, int]) -> Column:
        codes = self.joined(np.int64)
        cells = [cell.strip() for cell in places]
        words = sorted({cell for cell in cells if not self._is_missing(cell)})
        if not self.told and any(_number(word) is not None for word in words):
            text = [place for place, cell in enumerate(cells) if _number(cell) is None]
            row = int(np.flatnonzero(np.isin(codes, text))[0])
            raise self._mixed(sheet, row, cells[int(codes[row])])
        rank = {word: place for place, word in enumerate(words)}
        renamed = np.array([rank.get(cell, -1) for cell in cells], dtype=np.int64)
        return Column(self.name, renamed[codes] if len(renamed) else codes, tuple(words))

    def _is_missing(self, cell: str) -> bool:
        if self.told:
            return cell.lower() in MISSING
        value = _number(cell)
        return value is not None and value != value

    def _mixed(self, sheet: Sheet, row: int, word: str) -> DataError:
        return sheet.error(
            f"{_short(word)} is not a number, but other values are; name the column as categorical if it is",
            row,
            self.name,
        )


def _number(cell: str) -> float | None:
    """The number in a cell, NaN if there is none; None if there is something else."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return np.nan
    try:
        return float(cell)
    except ValueError:
        return None


def _numeric(cells: list[str]) -> bool:
    try:
        list(map(float, cells))
    except ValueError:
        return all(_number(cell) is not None for cell in cells)
    return True


def _short(word: str, most: int = 40) -> str:
    return repr(word if len(word) <= most else f"{word[:most]}...")
