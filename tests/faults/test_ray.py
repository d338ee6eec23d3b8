"""What happens to a Ray cluster: a worker, the raylet or the driver is killed; a second run is at the same store."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.helpers import (
    PATIENCE,
    PROC,
    command,
    descendants,
    end,
    finish,
    gone,
    kept,
    ray_problem,
    stored,
    undisturbed,
    wait_until,
)
from tests.lab.shared import program

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PROC, reason="looks for children in /proc")]


@pytest.fixture(autouse=True)
def _needs_ray() -> None:
    problem = ray_problem()
    if problem is not None:
        pytest.skip(problem)


def of(process: subprocess.Popen[str], *names: str) -> list[int]:
    return [pid for pid, line in descendants(process.pid).items() if any(name in line for name in names)]


def test_a_worker_is_killed_and_its_unit_done_again(tmp_path: Path) -> None:
    with program(*command(tmp_path, "--engine", "ray", "--jobs", "2")) as process:
        wait_until(lambda: of(process, "ray::compute"), process)
        for worker in of(process, "ray::compute"):
            os.kill(worker, signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert len(stored(tmp_path)) == 8
    assert finish(tmp_path) == undisturbed()


@pytest.mark.parametrize("victim", ["raylet", "gcs_server", "driver"])
def test_the_cluster_goes_down(tmp_path: Path, victim: str) -> None:
    with program(*command(tmp_path, "--engine", "ray", "--jobs", "2")) as process:
        wait_until(lambda: stored(tmp_path), process)
        before, children = stored(tmp_path), list(descendants(process.pid))
        if victim == "driver":
            process.kill()
        else:
            end(of(process, f"{victim}/{victim}" if victim == "raylet" else victim)[:1])
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


def test_ctrl_c(tmp_path: Path) -> None:
    with program(*command(tmp_path, "--engine", "ray", "--jobs", "2")) as process:
        wait_until(lambda: of(process, "ray::compute"), process)
        children = list(descendants(process.pid))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1].startswith("Stopped. Everything finished is kept in")
    assert gone(children)
    assert finish(tmp_path) == undisturbed()


def test_two_engines_on_one_store(tmp_path: Path) -> None:
    processes = [program(*command(tmp_path, "--engine", "ray")), program(*command(tmp_path, "--jobs", "1"))]
    for process in processes:
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert "Warning" not in errors
    assert len(stored(tmp_path)) == 8
    assert finish(tmp_path) == undisturbed()
