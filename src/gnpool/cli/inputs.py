"""The arguments, output checks and progress that the commands on users' own data share."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from gnpool.cli.errors import BAD_USAGE, INTERRUPTED

SECONDS = 20.0  # between lines of progress if stderr is not a terminal
EngineName = Annotated[Literal["local", "ray"], typer.Option(help="Run on this machine or on a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Address of a running Ray cluster.  [default: one is started on this machine]")
]
DeviceName = Annotated[
    Literal["auto", "cpu", "cuda"], typer.Option(help="Where to compute; auto takes a GPU if there is one.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A folder of 'gnpool fit', or a saved model: a folder with model.json or, from the hub, config.json.",
    ),
]
Categorical = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column whose numbers are categories; can be repeated.")
]
Ignore = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; can be repeated.")]
Directed = Annotated[bool, typer.Option("--directed", help="Take the edges of tables as directed.")]


@contextmanager
def stored_in(folder: Path) -> Iterator[None]:
    """Turn errors that damaged results cause inside the block into one line and status 2."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError) as error:
        if os.environ.get("GNPOOL_TRACEBACK") == "1":
            traceback.print_exc()
        words = " ".join(str(error).split())
        text = f"{folder}: its results are damaged or come from another version ({type(error).__name__}: {words:.100})"
        typer.echo(f"Error: {text}", err=True)
        raise typer.Exit(BAD_USAGE) from None


def output_file(path: Path, option: str = "--out", *, makes_folder: bool = False) -> Path:
    """The file to write, checked before the work; a link is followed.

    Only an ordinary file may be there already, since it is replaced, and a device would be lost. With ``makes_folder``
    the command makes the folder itself.
    """
    place = path.resolve() if path.is_symlink() else path
    problem = None
    if place.is_dir():
        problem = f"'{path}' is a folder"
    elif place.exists() and not place.is_file():
        problem = f"'{path}' is not an ordinary file"
    elif not makes_folder and not place.parent.is_dir():
        problem = f"there is no folder '{place.parent}'"
    if problem is not None:
        typer.echo(f"Error: {option}: {problem}", err=True)
        raise typer.Exit(BAD_USAGE)
    return place


@contextmanager
def before_writing(place: Path) -> Iterator[None]:
    """An interruption inside the block says that nothing was written."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; nothing was written to {place}.", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A bar on a terminal, otherwise a line now and then. Its function takes the current step and the share done."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def note(text: str, done: float) -> None:
            nonlocal last
            if time.monotonic() - last > SECONDS:
                last = time.monotonic()
                typer.echo(f"{100 * done:3.0f} %  {text}", err=True)

        yield note
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda text, done: bar.update(task, description=escape(text), completed=done)
