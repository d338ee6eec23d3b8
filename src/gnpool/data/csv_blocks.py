"""Blocks of rows of a CSV file. Kernels split long plain text; Python's reader splits everything else."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gnpool.data.errors import DataError
from gnpool.data.files import Files
from gnpool.data.table import Floats, Ints

BYTES = 1 << 22  # how much is read at once
ROWS, CELLS = (
    500,
    1 << 20,
)  # of a block of Python's reader, at most: with more lists at once Python collects garbage often
FIRST = 10  # cells from which the type of a column is guessed
QUICK, PER_COLUMN = 1 << 19, 300  # with this many bytes, in all and for each column, starting the kernels pays
MARK = b"\xef\xbb\xbf"
SEPARATORS = ",;\t|"  # the first one wins if a header has equally many of several
Odd = list[tuple[int, str]]  # rows of a block, and their cells


class Block(Protocol):
    """Some rows."""

    rows: int

    def numbers(self, column: int) -> tuple[Floats, Odd]:
        """The numbers of a column, NaN for empty cells, and the cells that may be something else."""

    def integers(self, column: int) -> tuple[Ints, Odd]:
        """The integers of a column, and the cells that may be something else."""

    def words(self, column: int) -> tuple[Ints, list[str]]:
        """A column as positions in the list of its different cells."""

    def first(self, column: int) -> list[str]:
        """The first few cells of a column."""


class Cells:
    """Rows as Python's reader gives them.

    Args:
        rows (list): The cells of each row.
    """

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        self.rows = len(rows)
        self._columns = list(zip(*rows, strict=True))

    def numbers(self, column: int) -> tuple[Floats, Odd]:
        cells = self._columns[column]
        try:
            return np.array(list(map(float, cells))), []
        except ValueError:
            return np.full(len(cells), np.nan), list(enumerate(cells))

    def integers(self, column: int) -> tuple[Ints, Odd]:
        cells = self._columns[column]
        try:
            found = list(map(int, cells))
            if list(map(str, found)) == list(cells):
                return np.array(found, dtype=np.int64), []
        except (ValueError, OverflowError):
            pass
        return np.zeros(len(cells), dtype=np.int64), list(enumerate(cells))

    def words(self, column: int) -> tuple[Ints, list[str]]:
        places: dict[str, int] = {}
        codes = [places.setdefault(cell, len(places)) for cell in self._columns[column]]
        return np.array(codes, dtype=np.int64), list(places)

    def first(self, column: int) -> list[str]:
        return list(self._columns[column][:FIRST])


class Spans:
    """Rows of plain text, whose cells stay where they are.

    Args:
        text (bytes): Whole lines.
        starts, ends (array): Where the cells are, (rows, columns).
        kinds (callable): Whether to read each column of a block as numbers, as integers or as neither.
    """

    def __init__(self, text: bytes, starts: Ints, ends: Ints, kinds: Callable[[Block], NDArray[np.int8]]) -> None:
        self.rows, self._columns = starts.shape
        self._text, self._starts, self._ends, self._kinds = text, starts, ends, kinds
        self._data = np.frombuffer(text, dtype=np.uint8)

    @cached_property
    def _parsed(self) -> tuple[Ints, Floats, Ints, dict[int, Ints]]:
        """The places of the columns among those of their kind, all numbers, all integers, and the rows of odd cells."""
        from gnpool.data import csv_kernels as kernels

        kinds = self._kinds(self)
        is_number, is_integer = kinds == kernels.NUMBER, kinds == kernels.INTEGER
        places = np.where(is_number, np.cumsum(is_number), np.cumsum(is_integer)) - 1
        numbers = np.empty((self.rows, int(is_number.sum())))
        integers = np.empty((self.rows, int(is_integer.sum())), dtype=np.int64)
        odd = np.empty(numbers.size + integers.size, dtype=np.int64)
        count = kernels.parse(self._data, self._starts, self._ends, kinds, places, numbers, integers, odd)
        rows, columns = np.divmod(odd[:count], self._columns)
        order = np.argsort(columns, kind="stable")
        kept, first = np.unique(columns[order], return_index=True)
        left = dict(zip(kept.tolist(), np.split(rows[order], first[1:]), strict=True)) if count else {}
        return places, numbers, integers, left

    def _cells(self, rows: Ints, column: int) -> list[bytes]:
        text = self._text
        starts, ends = self._starts[rows, column].tolist(), self._ends[rows, column].tolist()
        return [text[start:end] for start, end in zip(starts, ends, strict=True)]

    def _odd(self, rows: Ints, column: int) -> Odd:
        return list(zip(rows.tolist(), map(bytes.decode, self._cells(rows, column)), strict=True))

    def numbers(self, column: int) -> tuple[Floats, Odd]:
        places, numbers, _, left = self._parsed
        values, rows = numbers[:, places[column]], left.get(column)
        if rows is None:
            return values, []
        try:
            values[rows] = list(map(float, self._cells(rows, column)))  # mostly numbers with many digits
        except ValueError:
            return values, self._odd(rows, column)
        return values, []

    def integers(self, column: int) -> tuple[Ints, Odd]:
        places, _, integers, left = self._parsed
        rows = left.get(column)
        return integers[:, places[column]], [] if rows is None else self._odd(rows, column)

    def words(self, column: int) -> tuple[Ints, list[str]]:
        from gnpool.data.csv_kernels import SEED, equal_cells

        starts, ends = (np.ascontiguousarray(places[:, column]) for places in (self._starts, self._ends))
        slots = np.full(1 << (2 * max(1, self.rows) - 1).bit_length(), -1, dtype=np.int64)
        first, codes = np.empty(self.rows, dtype=np.int64), np.empty(self.rows, dtype=np.int64)
        count = equal_cells(self._data, starts, ends, slots, first, codes, SEED)
        return codes, [cell.decode() for cell in self._cells(first[:count], column)]

    def first(self, column: int) -> list[str]:
        cells = zip(self._starts[:FIRST, column].tolist(), self._ends[:FIRST, column].tolist(), strict=True)
        return [self._text[start:end].decode() for start, end in cells]


class CsvFile:
    """A CSV file, opened: its header, and its rows in blocks, read once from the beginning to the end.

    Args:
        files (Files): Where it is.
        name (str): Its name.
        raw (IO[bytes]): The open file.
    """

    def __init__(self, files: Files, name: str, raw: Any) -> None:
        self.files, self.name, self.shown = files, name, files.shown(name)
        self._blocks = whole_lines(raw)
        self._lines = 0  # lines read so far
        self._reader: Any = None  # Python's reader, once it is needed
        first = next(self._blocks, b"").removeprefix(MARK)
        while first and not first.strip(b"\r\n"):
            self._lines += first.count(b"\n")
            first = next(self._blocks, b"")
        blank = len(first) - len(first.lstrip(b"\r\n"))
        end = first.find(b"\n", blank) + 1
        line = first[blank:end]
        self.separator = sniff(line)
        self._blocks = itertools.chain([first], self._blocks)
        if b'"' in line or b"\r" in line.rstrip(b"\r\n"):
            cells = next(self._careful(), [])
        else:
            cells = next(csv.reader([self._text(line)], delimiter=self.separator), []) if line else []
            self._blocks = itertools.chain(
                [first[end:]] if first[end:] else [], itertools.islice(self._blocks, 1, None)
            )
            self._lines += first.count(b"\n", 0, end)
        self.header = check_header(cells, self.shown)

    def blocks(self, kinds: Callable[[Block], NDArray[np.int8]]) -> Iterator[Block]:
        """The rows; ``kinds`` tells how to read each column of a block."""
        rows, least = 0, max(QUICK, PER_COLUMN * len(self.header))
        while self._reader is None and (text := next(self._blocks, None)) is not None:
            spans = self._quick(text, kinds, rows) if rows or len(text) >= least else None
            if spans is None:
                self._blocks = itertools.chain([text], self._blocks)
                break
            self._lines += text.count(b"\n")
            rows += spans.rows
            yield spans
        found = self._careful()
        width = len(self.header)
        most = max(1, min(ROWS, CELLS // width))
        while batch := list(itertools.islice(found, most)):
            for number, cells in enumerate(batch):
                if len(cells) != width:
                    raise self._ragged(rows + number, len(cells))
            rows += len(batch)
            yield Cells(batch)

    def _quick(self, text: bytes, kinds: Callable[[Block], NDArray[np.int8]], before: int) -> Spans | None:
        """The rows of a block; None if it has a quotation mark or a carriage return as line end."""
        text = text.replace(b"\r\n", b"\n")
        if b'"' in text or b"\r" in text:
            return None
        if not text.isascii():
            self._text(text)
        from gnpool.data.csv_kernels import split

        data, width = np.frombuffer(text, dtype=np.uint8), len(self.header)
        cells = text.count(self.separator.encode()) + text.count(b"\n")
        starts, ends = np.empty(cells, dtype=np.int64), np.empty(cells, dtype=np.int64)
        rows, wrong = split(data, ord(self.separator), width, starts, ends)
        if wrong:
            raise self._ragged(before + rows, wrong)
        shape = (rows, width)
        return Spans(text, starts[: rows * width].reshape(shape), ends[: rows * width].reshape(shape), kinds)

    def _careful(self) -> Iterator[list[str]]:
        """All other rows, by Python's reader; empty lines are skipped."""
        if self._reader is None:
            lines = (line for text in self._blocks for line in io.StringIO(self._text(text), newline=""))
            self._reader = csv.reader(lines, delimiter=self.separator, strict=True)
        try:
            yield from filter(None, self._reader)
        except csv.Error as error:
            line = self._lines + self._reader.line_num
            raise DataError(f"it is not CSV ({error})", file=self.shown, line=line) from error

    def _text(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            line = _bad_line(self.files, self.name)
            raise DataError(f"it is not UTF-8 text ({error.reason})", file=self.shown, line=line) from error

    def _ragged(self, row: int, cells: int) -> DataError:
        return DataError(
            f"it has {cells} columns, but the header has {len(self.header)}", file=self.shown, line=self.line_of(row)
        )

    def line_of(self, row: int) -> int:
        """The line at which a row ends, from 1. It reads the file again, and so is for messages only."""
        with self.files.open(self.name) as raw:
            lines = (
                line
                for text in whole_lines(raw)
                for line in io.StringIO(text.removeprefix(MARK).decode(errors="replace"), newline="")
            )
            reader = csv.reader(lines, delimiter=self.separator)
            seen = -2  # the header is row -1
            for cells in reader:
                seen += bool(cells)
                if seen == row:
                    break
            return reader.line_num


def whole_lines(raw: Any) -> Iterator[bytes]:
    """Whole lines, many at a time; the last line gets a line end."""
    waiting: list[bytes] = []
    while data := raw.read(BYTES):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join([*waiting, data[:cut]])
            waiting = []
        waiting.append(data[cut:])
    if rest := b"".join(waiting):
        yield rest + b"\n"


def sniff(line: bytes) -> str:
    """The separator of a header: the most frequent one of comma, semicolon, tab and bar."""
    plain = b"".join(line.split(b'"')[::2]).decode(errors="replace")
    return max(SEPARATORS, key=plain.count)


def check_header(cells: Sequence[str], shown: str) -> list[str]:
    """The names of the columns."""
    if not cells:
        raise DataError("the file is empty; its first line must name the columns", file=shown)
    header = [cell.strip() for cell in cells]
    seen: dict[str, None] = {}
    for place, name in enumerate(header, 1):
        if name in seen:
            raise DataError(f"it names {name!r} twice", file=shown, line=1)
        if not name:
            raise DataError(f"column {place} has no name", file=shown, line=1)
        seen[name] = None
    return header


def _bad_line(files: Files, name: str) -> int | None:
    """The first line that is not UTF-8."""
    lines = 0
    with files.open(name) as raw:
        for text in whole_lines(raw):
            try:
                text.decode()
            except UnicodeDecodeError as error:
                return lines + text.count(b"\n", 0, error.start) + 1
            lines += text.count(b"\n")
    return None
