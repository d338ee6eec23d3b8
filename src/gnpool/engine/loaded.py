"""Imports users' modules, with what they register, in every process that computes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "GNPOOL_LOAD"  # holds the names of modules for processes that this one starts


def load(modules: Sequence[str]) -> None:
    """Import modules, also from the working directory, in this process and in all that it starts."""
    known = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*known, *modules]))
    load_again()


def load_again() -> None:
    """Import the modules that the parent process has loaded."""
    names = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.append(here)
    for name in names:
        importlib.import_module(name)
