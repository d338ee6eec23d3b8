"""What happens to a Ray cluster: a worker, the raylet or the driver is killed; a second run is at the same store.

The logic behind it is tested without Ray, by a stand-in: tests/engine, and test_engine(s).py of other rooms.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from gnpool.engine import Caller, LostError, RayEngine
from gnpool.engine.cluster import RETRIES, ray_cluster
from gnpool.influence import CascadeGraph, simulate
from gnpool.lab import PRESETS
from gnpool.lab.running.failures import FailedStudiesError
from gnpool.store import Store
from tests.faults.helpers import (
    PATIENCE,
    PROC,
    command,
    descendants,
    end,
    finish,
    gone,
    kept,
    stored,
    undisturbed,
    wait_until,
)
from tests.lab.shared import program, run_tables
from tests.lab.test_engines import broken_table
from tests.training import test_engine as fits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'gnpool[ray]'"
    ),
    pytest.mark.skipif(not PROC, reason="looks for children in /proc"),
]
WORKER = "ray::compute"  # a process of Ray's while it computes a unit
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "c0ffee" * 10 + "1234"}  # newer versions want one
IMPATIENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}  # and not a minute


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    """A cluster of two cores for all tests that do not destroy it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in TOKEN.items():
            patch.setenv(name, value)
        try:
            with ray_cluster(jobs=2) as found:
                yield found
        except OSError as error:
            pytest.skip(str(error))


def of(process: int, *names: str) -> list[int]:
    return [pid for pid, line in descendants(process).items() if any(name in line for name in names)]


def end_worker(caller: Caller, counter: Path) -> int:
    """Its worker dies twice; the third time it succeeds."""
    with counter.open("a") as file:
        file.write("x")
    count = len(counter.read_text())
    if count < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


def end_every_worker(caller: Caller) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_same_scores_on_a_cluster(tmp_path: Path, engine: RayEngine) -> None:
    assert finish(tmp_path, engine="ray") == undisturbed()
    fits.assert_same(fits.fit(engine=engine), fits.fit())
    graph = CascadeGraph(3, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.5]))
    there, here = (simulate(graph, [[0], [1]], 9000, record=True, engine=one) for one in (engine, None))
    assert torch.equal(there.influence, here.influence)
    assert torch.equal(there.probability, here.probability)


def test_a_study_that_fails_by_itself_is_recorded_once(tmp_path: Path, engine: RayEngine) -> None:
    with pytest.raises(FailedStudiesError, match="1 of 2 studies failed"):
        run_tables(Store(tmp_path), PRESETS["smoke"], [broken_table()], engine=engine)
    (failure,) = json.loads((tmp_path / "failures.json").read_text())
    assert "no such pooling" in failure["reason"]
    assert "in training_unit" in failure["traceback"]  # that of the worker


def test_a_unit_that_is_lost_with_its_worker_is_done_again(tmp_path: Path, engine: RayEngine) -> None:
    assert engine.call(end_worker, tmp_path / "counter") == 3
    with pytest.raises(LostError, match=f"lost {RETRIES + 1} times with its worker"):
        engine.call(end_every_worker)


def test_workers_are_killed_in_the_middle_of_a_run(tmp_path: Path, engine: RayEngine) -> None:
    killed: list[int] = []

    def kill() -> None:
        begin = time.monotonic()
        while len(killed) < 2 and time.monotonic() - begin < PATIENCE:
            for worker in of(os.getpid(), WORKER)[: 2 - len(killed)]:
                end([worker])
                killed.append(worker)
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    found = finish(tmp_path, engine="ray", jobs=2)
    killer.join()
    assert killed
    assert found == undisturbed()
    assert len(stored(tmp_path)) == 8


def test_ctrl_c(tmp_path: Path, engine: RayEngine) -> None:
    address = engine.ray.get_runtime_context().gcs_address
    with program(*command(tmp_path, "--engine", "ray", "--address", address), **TOKEN) as process:
        wait_until(lambda: of(os.getpid(), WORKER), process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1].startswith("Stopped. Everything finished is kept in")
    assert gone(of(os.getpid(), WORKER))  # nothing of it runs on
    assert finish(tmp_path) == undisturbed()


def test_two_engines_on_one_store(tmp_path: Path, engine: RayEngine) -> None:
    address = engine.ray.get_runtime_context().gcs_address
    options = [("--engine", "ray", "--address", address), ("--jobs", "1")]
    for process in [program(*command(tmp_path, *some), **TOKEN) for some in options]:
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert "Warning" not in errors
    assert len(stored(tmp_path)) == 8
    assert finish(tmp_path) == undisturbed()


@pytest.mark.parametrize("victim", ["raylet", "gcs_server", "driver"])
def test_a_cluster_goes_down(tmp_path: Path, victim: str) -> None:
    with program(*command(tmp_path, "--engine", "ray", "--jobs", "1"), **IMPATIENT) as process:
        wait_until(lambda: stored(tmp_path), process)
        before, children = stored(tmp_path), list(descendants(process.pid))
        if victim == "driver":
            process.kill()
        else:
            end(of(process.pid, f"{victim}/{victim}" if victim == "raylet" else victim)[:1])
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            end(children)
            pytest.fail(f"the program waits for ever after the end of the {victim}")
    assert gone(children)
    assert kept(tmp_path, before)
    assert finish(tmp_path) == undisturbed()
