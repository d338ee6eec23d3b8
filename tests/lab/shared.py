"""What the tests of the lab, the command line and the reports share: one smoke run of every table."""

from __future__ import annotations

import atexit
import copy
import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.lab import PRESETS, TABLES, AnyTable, Estimate, Preset, Runner, Scope, reproduce
from gnpool.lab.table import Machine
from gnpool.store import Store

SMALL = "ablation_b"  # two trainings, six exams
CPU = torch.device("cpu")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@functools.cache
def smoke_folder() -> Path:
    """A folder with the smoke results of all tables.

    The first process of a test run that asks makes them, and each process has a copy of its own.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    shared, mine = Path(tempfile.gettempdir()) / f"gnpool-smoke-{run}", Path(tempfile.mkdtemp(prefix="gnpool-smoke-"))
    shared.mkdir(exist_ok=True)
    for folder in (shared, mine):
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (shared / "making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "made" / "results.json").exists():
            reproduce(list(TABLES), shared / "made", preset="smoke", jobs=1)
    return Path(shutil.copytree(shared / "made", mine, dirs_exist_ok=True))


def smoke_results() -> dict[str, dict[str, Any]]:
    """The tables of its results.json by id."""
    return {table["table"]: table for table in read(smoke_folder())["tables"]}


def read(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


def timeless(table: dict[str, Any]) -> dict[str, Any]:
    """A table of results without the seconds that it took."""
    found = copy.deepcopy(table)
    del found["meta"]["seconds"]
    return found


def program(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """The program, started with variables of its environment, and with its outputs piped."""
    command, pipe, environment = [sys.executable, "-m", "gnpool", *arguments], subprocess.PIPE, ENVIRONMENT | variables
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True)


def run_tables(
    store: Store,
    preset: Preset,
    tables: Sequence[AnyTable],
    *,
    search: str = "all",
    train: bool = True,
    test: bool = True,
    **options: Any,
) -> None:
    """Run what tables of recipes need under a preset, perhaps the test's own; options are those of the runner."""
    scope = Scope(preset.name, (search,), data_seed=preset.data_seed, train=train, test=test)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, preset.name, preset)
        jobs = [job for table in tables for job in table.jobs(scope, store, CPU)]
    Runner(store, CPU, **options).run(jobs)


def estimate(
    table: AnyTable, preset: Preset, kind: str, *, store: Store | None = None, search: str = "all", jobs: int = 1
) -> Estimate:
    """The cost of a table under a preset, which may be one of the test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, preset.name, preset)
        return table.estimate(Scope(preset.name, (search,)), store, Machine(kind, jobs))
