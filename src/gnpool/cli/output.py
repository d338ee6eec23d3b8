"""The output of commands: tables and JSON on stdout, and progress on stderr if it is a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

FILE_WIDTH = 120  # columns of a table that goes to a file or a pipe


def say(text: str = "") -> None:
    """Print a line of the result."""
    typer.echo(text)


def show_json(value: Any) -> None:
    """Print the result as strict JSON, in which NaN or an infinity is an error."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def show_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first column holds names and whose other columns hold numbers."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH, markup=False).print(table)


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr, shown on a terminal only. Its function is called when a step begins."""
    bar = Progress(
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("", total=total)
        begun = 0

        def begin(description: str) -> None:
            nonlocal begun
            bar.update(task, description=description, completed=begun)
            begun += 1

        yield begin
