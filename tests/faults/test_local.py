"""Whatever happens to a run on one machine: no finished score is lost, no wrong one kept, the next run completes it.

More of the kind, where the part that must stand it is tested: a store killed at every step, written by several
processes, on a full disk, truncated, with any bit flipped (tests/store); a program interrupted, a disk that fills up,
damaged files (tests/lab/test_runner.py).
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from gnpool.lab import PRESETS, TABLES
from gnpool.lab.recipes import jobs as recipe_jobs
from gnpool.lab.running.failures import FailedStudiesError
from gnpool.store import Store
from tests.faults.helpers import (
    PATIENCE,
    PROC,
    command,
    descendants,
    finish,
    gone,
    kept,
    stored,
    undisturbed,
    wait_until,
)
from tests.lab.shared import ENVIRONMENT, SMALL, program, read, run_tables, timeless

CPU = torch.device("cpu")
needs_proc = pytest.mark.skipif(not PROC, reason="looks for children in /proc")


@pytest.mark.slow
@needs_proc
def test_a_worker_process_is_killed(tmp_path: Path) -> None:
    with program(*command(tmp_path, "--jobs", "2")) as process:
        wait_until(lambda: stored(tmp_path), process)
        forks = [pid for pid, line in descendants(process.pid).items() if "forkserver" in line]
        workers = forks[1:]  # the first one forked them
        assert len(workers) == 2
        before = stored(tmp_path)
        os.kill(workers[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE)
    if process.returncode:  # else it was at its end already
        assert process.returncode == 1
        assert errors.splitlines()[-1].startswith("Error: a worker process ended abruptly")
    assert gone(workers)
    assert kept(tmp_path, before)
    assert finish(tmp_path) == undisturbed()


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("signals", [["SIGTERM"], ["SIGINT", "SIGINT"]], ids="-".join)
def test_the_program_is_told_to_end(tmp_path: Path, signals: list[str], jobs: str) -> None:
    with program(*command(tmp_path, "--jobs", jobs)) as process:
        wait_until(lambda: stored(tmp_path), process)
        before, children = stored(tmp_path), list(descendants(process.pid))
        for name in signals:
            process.send_signal(getattr(signal, name))
            time.sleep(0.05)
        process.communicate(timeout=PATIENCE)
    assert process.returncode in {0, 1, 130, -signal.SIGINT, -signal.SIGTERM}
    assert gone(children)
    assert kept(tmp_path, before)
    assert finish(tmp_path) == undisturbed()


@pytest.mark.slow
@needs_proc
def test_the_program_is_killed_twice(tmp_path: Path) -> None:
    for jobs, units in (("2", 1), ("1", 4)):  # with processes of their own, and without
        with program(*command(tmp_path, "--jobs", jobs)) as process:
            wait_until(lambda units=units: len(stored(tmp_path)) >= units, process)  # type: ignore[misc]
            before, children = stored(tmp_path), list(descendants(process.pid))
            process.kill()
            process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "results.json").exists()
        assert gone(children)
        assert kept(tmp_path, before)
    assert len(stored(tmp_path)) >= 4
    assert finish(tmp_path) == undisturbed()
    assert timeless(read(tmp_path)["tables"][0]) == undisturbed()


@pytest.mark.slow
def test_files_may_not_grow(tmp_path: Path) -> None:
    # as a full disk: records fit, weights do not
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))"
    arguments = ["gnpool", *command(tmp_path, "--jobs", "1")]
    code = f"{limit}; sys.argv = {arguments}; from gnpool.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr or "larger than the limit of this process" in done.stderr
    assert stored(tmp_path) == {}
    assert finish(tmp_path) == undisturbed()


@pytest.mark.parametrize("harm", ["truncated", "flipped"])
def test_stored_files_are_damaged(tmp_path: Path, harm: str) -> None:
    finish(tmp_path)
    damaged = []
    for pattern in ("*.json", "*.safetensors"):  # a score, and the weights of a training
        path = max(tmp_path.glob(f"units/**/{pattern}"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content if harm == "flipped" else content[: len(content) // 2])
        damaged.append(path)
    before = {path: data for path, data in stored(tmp_path).items() if Path(path) not in damaged}
    found: list[Any] = []
    assert finish(tmp_path, on_damage=found.append) == undisturbed()
    assert len(found) >= 1
    assert all(stored(tmp_path)[path] == data for path, data in before.items() if "score" in path)


@pytest.mark.slow
def test_two_runs_on_one_store(tmp_path: Path) -> None:
    for process in [program(*command(tmp_path, "--jobs", jobs)) for jobs in ("1", "2")]:
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert "Warning" not in errors
    assert timeless(read(tmp_path)["tables"][0]) == undisturbed()
    assert len(stored(tmp_path)) == 8
    assert finish(tmp_path) == undisturbed()


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("no room for 8 GiB")], ids=["host", "device"])
def test_out_of_memory_in_one_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    original, calls = recipe_jobs.train, []

    def train(recipe: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(recipe.model)
        if recipe.model == "gnp":
            raise error
        return original(recipe, *arguments, **options)

    monkeypatch.setattr(recipe_jobs, "train", train)
    with pytest.raises(FailedStudiesError, match="1 of 2 studies failed, the others are done and stored"):
        finish(tmp_path)
    assert sorted(calls) == ["gnp", "gnp+"]  # each once
    (failure,) = json.loads((tmp_path / "failures.json").read_text())
    assert failure["key"]["model"] == "gnp"
    tables = json.loads((tmp_path / "results.json").read_text())["tables"]
    assert {cell["verdict"] for cell in tables[0]["cells"] if cell["ours"] is None} == {"not run"}
    before = stored(tmp_path)
    assert len(before) == 4  # a training and its exams
    monkeypatch.undo()
    assert finish(tmp_path) == undisturbed()
    assert kept(tmp_path, before)
    assert not (tmp_path / "failures.json").exists()


def test_a_replica_that_becomes_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset, recipe = PRESETS["smoke"], TABLES[SMALL].recipes[0]
    good = recipe.space.quick
    seen = {}
    for name, lr in (("wild", 1e30), ("tame", 1e-6)):
        settings = (good, dataclasses.replace(good, lr=lr))
        monkeypatch.setattr(type(preset), "settings", lambda _, grid, settings=settings: settings)
        store = Store(tmp_path / name)
        run_tables(store, dataclasses.replace(preset, unit=4), [TABLES[SMALL]], jobs=1)
        record = store.get(recipe.key(dataclasses.replace(preset, unit=4), "all"))
        assert record is not None
        seen[name] = record.scores["runs"]
    wild, tame = ([run for run in seen[name] if run["setting"]["lr"] == good.lr] for name in ("wild", "tame"))
    assert len(wild) == len(tame) == 2
    assert wild == tame  # to the last bit, though they share a program
    assert [run["failed"] for run in tame] == [None, None]
    failed = [run for run in seen["wild"] if run["setting"]["lr"] == 1e30]
    assert [run["best"] for run in failed] == [{}, {}]
    assert all("not finite" in run["failed"] for run in failed)
