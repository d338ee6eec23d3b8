"""``gnpool store`` works on a folder of results as a whole."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from gnpool.cli.commands import Command
from gnpool.cli.inputs import Json
from gnpool.cli.output import say, show_json

app = typer.Typer(
    name="store",
    help="Manage a folder of results.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _commands() -> None:
    """Manage a folder of results."""  # without this callback, typer would drop the name of the only command


@app.command(cls=Command, epilog="Example: gnpool store pack results/quick --drop 'metric/*'")
def pack(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", exists=True, file_okay=False, help="A folder that 'gnpool reproduce' wrote."),
    ],
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="Pack only units of this table of the store.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Delete tensors with such names for good; can be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Put many small files of results into one zip file.

    Units of the store that are single files go into DIR/units/1.zip, or the next free number. Every command reads
    packed units as before, and writes new ones as single files. 'unzip -d DIR/units DIR/units/1.zip' undoes the
    packing. Scores are always kept.
    """
    from gnpool.store import Store

    patterns = drop or []
    found = Store(folder, create=False).pack(
        table, drop=lambda _, name: any(fnmatchcase(name, one) for one in patterns)
    )
    if json:
        show_json(_told(found))
    elif found is None:
        say(f"{folder} has no units as single files; nothing was packed.")
    else:
        say(str(found))


def _told(found: Any) -> dict[str, Any]:
    if found is None:
        return {"pack": None, "units": 0, "dropped": {}}
    dropped = dict(sorted(found.dropped.items()))
    return {
        "pack": str(found.path),
        "units": found.units,
        "before": found.before,
        "after": found.after,
        "dropped": dropped,
    }
