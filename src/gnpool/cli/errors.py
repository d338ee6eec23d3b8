"""What the user sees when a command cannot finish: one line on stderr, and an exit status."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

FAILED = 1
INTERRUPTED = 130  # 128 + SIGINT, as shells count

# What the library raises for a user's mistake, with a message for the user. Anything else is a bug and keeps its
# traceback. For bad usage that typer cannot see (status 2) a command raises `typer.BadParameter`.
MISTAKES = (ValueError, OSError, ImportError)
MORE_MISTAKES = {"gnpool.store.errors": ["StoreError"], "gnpool.engine.cluster": ["LostError", "UnitError"]}


@contextmanager
def reporting() -> Iterator[None]:
    """Turn an interruption or a user's mistake inside the block into one line on stderr and an exit status."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # an OSError, but nobody's mistake
        raise
    except Exception as error:
        if not is_mistake(error):
            raise
        if os.environ.get("GNPOOL_TRACEBACK") == "1":
            traceback.print_exc()
        else:
            typer.echo(f"Error: {describe(error)}", err=True)
        raise typer.Exit(FAILED) from None


def is_mistake(error: Exception) -> bool:
    """Whether the message of an error is meant for the user."""
    found = [  # not imported here: they bring torch along
        getattr(sys.modules[module], name)
        for module, names in MORE_MISTAKES.items()
        for name in (names if module in sys.modules else ())
    ]
    return isinstance(error, (*MISTAKES, *found))


def describe(error: Exception) -> str:
    """The message of an error, without the number that Python puts before those of the system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
