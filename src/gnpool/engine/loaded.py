"""What users have registered in files of their own, imported in every process that computes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "GNPOOL_LOAD"  # names of modules, for the processes that this one starts


def load(modules: Sequence[str]) -> None:
    """Import modules, from the working directory too, here and in every process that is started from here."""
    known = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*known, *modules]))
    load_again()


def load_again() -> None:
    """Import what the process that started this one has loaded."""
    names = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.append(here)
    for name in names:
        importlib.import_module(name)
