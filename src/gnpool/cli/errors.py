"""Turns an error of a command into one line on stderr and an exit status."""

from __future__ import annotations

import atexit
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import typer

FAILED = 1
BAD_USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, as in shells
LEAST_FILES = 64
LEAST_MEMORY = 5 * 2**28  # bytes of address space, of which the libraries take most
MOST_SHOWN = 200  # characters shown of an error from torch
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "can't start new thread", "Cannot allocate memory")
PACKAGE = Path(__file__).resolve().parents[1]

# The errors with a message for the user. Any other error is a bug and keeps its traceback.
TOLD = (ValueError, OSError, ImportError, MemoryError)
MORE_TOLD = {"gnpool.store.errors": ["StoreError"], "gnpool.engine.cluster": ["LostError", "UnitError"]}
# Of these, the errors that other options or files can mend have status 2, like a misspelled option.
PLACES = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
ARGUMENT = re.compile(r"(?:\w+: )?(?='\w+' )")  # the beginning of an error about an argument of a function


@contextmanager
def reporting(options: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Turn an interruption, or an error that is meant for the user, into one line on stderr and an exit status.

    ``options`` gives the option of the command for each argument of a function.
    """
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # this OSError is no mistake of the user
        raise
    except Exception as error:
        if not is_told(error):
            raise
        if os.environ.get("GNPOOL_TRACEBACK") == "1":
            traceback.print_exc()
        else:
            typer.echo(f"Error: {in_options(describe(error), options)}", err=True)
        raise typer.Exit(status_of(error)) from None


def status_of(error: Exception) -> int:
    """2 for errors that other input can mend, 1 for all others."""
    reason = error.__cause__ or error if type(error).__name__ == "StoreError" else error
    theirs = isinstance(reason, (ValueError, *PLACES)) or type(reason).__name__ == "NotRegularError"
    return BAD_USAGE if theirs else FAILED


def in_options(message: str, options: Mapping[str, str]) -> str:
    """A message with options of the command, such as --seed, in place of arguments of a function, such as 'seed'."""
    begin = ARGUMENT.match(message)
    names = {f"'{name}'": option for name, option in options.items()}
    if begin is None or message[begin.end() :].split(" ", 1)[0] not in names:
        return message
    return re.sub(r"'\w+'", lambda found: names.get(found[0], found[0]), message[begin.end() :])


def check_resources() -> None:
    """Exit with a message if the shell allows fewer files or less memory than the libraries need to start."""
    try:
        import resource
    except ImportError:  # Windows
        return
    checks = (
        (resource.RLIMIT_NOFILE, LEAST_FILES, 1, "files may be open at once", "ulimit -n"),
        (resource.RLIMIT_AS, LEAST_MEMORY, 2**20, "MiB of address space may be used", "ulimit -v"),
    )
    for kind, least, unit, what, command in checks:
        allowed = resource.getrlimit(kind)[0]
        if allowed != resource.RLIM_INFINITY and allowed < least:
            text = f"Error: only {allowed // unit} {what} here ({command}); gnpool needs {least // unit}"
            sys.stderr.write(f"{text}\n")
            sys.exit(FAILED)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning of this package as one line. Warnings of libraries are for developers and are not shown."""
    if os.environ.get("GNPOOL_TRACEBACK") == "1":
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))
    elif category.__module__.startswith("gnpool") or PACKAGE in Path(filename).parents:
        typer.echo(f"Warning: {' '.join(str(message).split())}", err=True)


def leave_at_once(status: int) -> None:
    """Run the exit handlers and end the process without unloading torch, which takes seconds."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def is_told(error: Exception) -> bool:
    """Whether the message of an error is meant for the user."""
    found = [  # looked up, not imported, since importing them would import torch
        getattr(sys.modules[module], name)
        for module, names in MORE_TOLD.items()
        for name in (names if module in sys.modules else ())
    ]
    return isinstance(error, (*TOLD, *found)) or is_out_of_memory(error)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of Python or torch means that memory or threads have run out."""
    text = str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(mark in text for mark in OUT_OF_MEMORY)
    )


def describe(error: Exception) -> str:
    """The message of an error, without the number that Python adds to errors of the system."""
    if is_out_of_memory(error):
        words = " ".join(str(error).split())
        return "there is not enough memory" + (f" ({words[:MOST_SHOWN]})" if words else "")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
