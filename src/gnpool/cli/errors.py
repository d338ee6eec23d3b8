"""What the user sees when a command cannot finish: one line on stderr, and an exit status."""

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
INTERRUPTED = 130  # 128 + SIGINT, as shells count
LEAST_FILES = 64
LEAST_MEMORY = 5 * 2**28  # bytes of address space: the libraries alone take most of it
MOST_SHOWN = 200  # characters of an error of torch's
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "can't start new thread", "Cannot allocate memory")
PACKAGE = Path(__file__).resolve().parents[1]

# What the library raises with a message for the user. Anything else is a bug and keeps its traceback.
TOLD = (ValueError, OSError, ImportError, MemoryError)
MORE_TOLD = {"gnpool.store.errors": ["StoreError"], "gnpool.engine.cluster": ["LostError", "UnitError"]}
# Of these, what the user can mend by giving other options or files: status 2, as for a misspelled option.
PLACES = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
ARGUMENT = re.compile(r"(?:\w+: )?(?='\w+' )")  # how an error of a function begins that is about an argument


@contextmanager
def reporting(options: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Turn an interruption, or an error that is meant for the user, into one line on stderr and an exit status.

    ``options`` are what the user typed for the arguments of functions, by their names.
    """
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # an OSError, but nobody's mistake
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
    """2 for what the user can mend by giving something else, 1 for anything else."""
    reason = error.__cause__ or error if type(error).__name__ == "StoreError" else error
    theirs = isinstance(reason, (ValueError, *PLACES)) or type(reason).__name__ == "NotRegularError"
    return BAD_USAGE if theirs else FAILED


def in_options(message: str, options: Mapping[str, str]) -> str:
    """A message about arguments of a function, such as 'seed', in the options of a command, such as --seed."""
    begin = ARGUMENT.match(message)
    names = {f"'{name}'": option for name, option in options.items()}
    if begin is None or message[begin.end() :].split(" ", 1)[0] not in names:
        return message
    return re.sub(r"'\w+'", lambda found: names.get(found[0], found[0]), message[begin.end() :])


def check_resources() -> None:
    """Leave with a line if the shell allows fewer files or less memory than the libraries need to start."""
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
    """Show a warning of this package as one line; those of libraries are for developers, and shown to nobody else."""
    if os.environ.get("GNPOOL_TRACEBACK") == "1":
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))
    elif category.__module__.startswith("gnpool") or PACKAGE in Path(filename).parents:
        typer.echo(f"Warning: {' '.join(str(message).split())}", err=True)


def leave_at_once(status: int) -> None:
    """End the process after what was registered for its end, and without taking torch apart, which takes seconds."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def is_told(error: Exception) -> bool:
    """Whether the message of an error is meant for the user."""
    found = [  # not imported here: they bring torch along
        getattr(sys.modules[module], name)
        for module, names in MORE_TOLD.items()
        for name in (names if module in sys.modules else ())
    ]
    return isinstance(error, (*TOLD, *found)) or is_out_of_memory(error)


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory or threads have run out, in the words of Python or of torch."""
    text = str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(mark in text for mark in OUT_OF_MEMORY)
    )


def describe(error: Exception) -> str:
    """The message of an error, without the number that Python puts before those of the system."""
    if is_out_of_memory(error):
        words = " ".join(str(error).split())
        return "there is not enough memory" + (f" ({words[:MOST_SHOWN]})" if words else "")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
