"""The program ``gnpool``: its commands, and what happens when one of them cannot finish."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import warnings
from typing import Annotated

import typer

from gnpool.cli import export, fit, influence, predict, read, report, reproduce, store, tables, theory
from gnpool.cli.commands import Command, Commands
from gnpool.cli.errors import INTERRUPTED, check_resources, leave_at_once, show_warning

app = typer.Typer(
    cls=Commands,
    name="gnpool",
    help="Pooling that learns which function the task needs, and keeps working on larger graphs.",
    epilog="The exit status is 0 for success, 1 for failure, and 2 for wrong usage or unusable input. Set "
    "GNPOOL_TRACEBACK=1 to see the traceback of an error.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help loads fast and looks the same in a file
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gnpool {importlib.metadata.version('gnpool')}")
        raise typer.Exit


def _load(modules: list[str]) -> list[str]:
    if modules:
        from gnpool.engine.loaded import load

        try:
            load(modules)
        except ModuleNotFoundError as error:
            if error.name is None or not any(f"{name}.".startswith(f"{error.name}.") for name in modules):
                raise  # an import inside the module failed
            raise typer.BadParameter(f"there is no module {error.name!r} here or on PYTHONPATH") from None
    return modules


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
    load: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            callback=_load,
            help="Import package.module first, so that its tasks, poolings and tables are known. You can repeat this "
            "option.",
        ),
    ] = None,
) -> None:
    """Handle the options before the name of a command."""


# One line per command, in the order of the help. A command's file imports the library inside its functions, so that
# `gnpool --help` does not wait for torch.
app.command(cls=Command, epilog=tables.EPILOG)(tables.tables)
app.command(cls=Command, epilog=reproduce.EPILOG)(reproduce.reproduce)
app.command(cls=Command, epilog=report.EPILOG)(report.report)
app.command(cls=Command, epilog=fit.EPILOG)(fit.fit)
app.command(cls=Command, epilog=predict.EPILOG)(predict.predict)
app.command(cls=Command, epilog=export.EPILOG)(export.export)
app.command(cls=Command, epilog=read.EPILOG)(read.read)
app.command(cls=Command, epilog=theory.EPILOG)(theory.theory)
app.add_typer(influence.app)
app.add_typer(store.app)


def main() -> None:
    """Run the program with the arguments of the process."""
    warnings.showwarning = show_warning
    try:
        try:
            check_resources()
            app(prog_name="gnpool")
        finally:
            sys.stdout.flush()  # here a closed pipe can still be handled
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            leave_at_once(INTERRUPTED)
        raise
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at the end
        sys.exit(1)
