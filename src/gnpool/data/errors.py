"""Errors in a user's data, with their place."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used. The message is one line with the problem, and the file, line and column if known.

    Values from the data are shown by ``repr``, so that nothing in them can alter a terminal.

    Args:
        message (str): What is wrong, and what was expected.
        file (str, optional): The file.
        line (int, optional): The line, from 1.
        column (str, optional): The column.

    Example:
        >>> from gnpool.data import DataError
        >>> print(DataError("expected a number, got 'abc'", file="nodes.csv", line=7, column="mass"))
        nodes.csv, line 7, column 'mass': expected a number, got 'abc'
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, column: str | None = None
    ) -> None:
        self.message, self.file, self.line, self.column = message, file, line, column
        places = [
            None if file is None else file if file.isprintable() else repr(file),
            None if line is None else f"line {line}",
            None if column is None else f"column {column!r}",
        ]
        where = ", ".join(place for place in places if place is not None)
        super().__init__(f"{where}: {message}" if where else message)


def several(names: list[str], most: int = 5) -> str:
    """The first of several names, quoted."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
