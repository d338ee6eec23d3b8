"""The results are equal however the work is done and whatever interrupts it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from gnpool.engine import choose_device
from gnpool.lab import PRESETS, TABLES, Event, reproduce
from gnpool.lab.recipes.grids import GRIDS
from gnpool.store import Damage, Store, StoreError
from gnpool.store import store as store_module
from tests.faults.helpers import undisturbed as expected
from tests.lab.shared import ENVIRONMENT, SMALL, program, run_tables, timeless

PATIENCE = 120.0  # seconds for a subprocess on a busy machine


def run(folder: Path, **options: object) -> dict[str, object]:
    (table,) = reproduce([SMALL], folder, preset="smoke", **options)["tables"]  # type: ignore[arg-type]
    return timeless(table)


def stored(folder: Path) -> int:
    return len(list(folder.glob("units/**/*.json")))


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    begin = time.monotonic()
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.02)


@pytest.mark.parametrize("jobs", [1, 4])
def test_any_number_of_threads(tmp_path: Path, jobs: int) -> None:
    threads = torch.get_num_threads()
    assert run(tmp_path, jobs=jobs) == expected()
    assert torch.get_num_threads() == threads


@pytest.mark.slow
def test_processes(tmp_path: Path) -> None:
    events: list[Event] = []
    assert run(tmp_path, jobs=4, processes=True, on_event=events.append) == expected()
    assert sorted(event.done for event in events if event.finished) == list(range(1, 9))


@pytest.mark.slow
def test_an_error_in_a_process_is_ours(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("")  # a file where the folder should be
    with pytest.raises(StoreError, match="there is a file where a folder is expected"):
        run(tmp_path, jobs=2, processes=True)


def test_events(tmp_path: Path) -> None:
    events: list[Event] = []
    run(tmp_path, jobs=1, on_event=events.append)
    assert [(e.done, e.finished) for e in events if e.finished] == [
        (1, "training"),
        *((done, "exam") for done in (2, 3, 4)),
        (5, "training"),
        *((done, "exam") for done in (6, 7, 8)),
    ]
    assert {e.label for e in events} == {"harmonic: gnp", "harmonic: gnp+"}
    assert all(e.total == 8 and 0 < e.overall <= 1 for e in events)
    assert [e.overall for e in events] == sorted(e.overall for e in events)
    assert events[-1].overall == pytest.approx(1.0)
    assert events[-1].seconds_left == pytest.approx(0.0, abs=1e-6)
    assert events[0].error is not None
    assert events[0].fraction == 0.5  # of two epochs
    again: list[Event] = []
    run(tmp_path, jobs=1, on_event=again.append)
    assert again == []


@pytest.mark.parametrize("search", ["all", "point"])
def test_search(tmp_path: Path, search: str) -> None:
    # One training with two settings: `point` tries each with the first seed only.
    preset = PRESETS["smoke"]
    recipe = TABLES[SMALL].recipes[0]
    two = recipe.space.settings[:2]
    grid = type(recipe.space)(two, two[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GRIDS, recipe.grid, grid)
        patch.setattr(type(preset), "settings", lambda _, grid: grid.settings)
        store = Store(tmp_path)
        run_tables(store, preset, [TABLES[SMALL]], search=search, jobs=1)
        record = store.get(recipe.key(preset, search))
    assert record is not None
    tried = [(run["setting"]["clip"], run["seed"]) for run in record.scores["runs"]]
    if search == "all":
        assert tried == [(100.0, 0), (100.0, 1), (10000.0, 0), (10000.0, 1)]
    else:
        assert tried[:2] == [(100.0, 0), (10000.0, 0)]
        best = dict.fromkeys(chosen["setting"]["clip"] for chosen in record.scores["chosen"].values())
        assert tried[2:] == [(clip, seed) for clip in best for seed in (0, 1)]  # each once
    chosen = record.scores["chosen"]["loss"]
    assert chosen["seeds"] == [0, 1]
    assert all(value.shape[0] == 2 for name, value in record.tensors.items() if name.startswith("loss/"))  # type: ignore[union-attr]


def test_bad_options(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'search' must be one of all, point, got 'best'"):
        run(tmp_path, search="best")
    with pytest.raises(ValueError, match="'jobs' must be at least 1, got 0"):
        run(tmp_path, jobs=0)
    with pytest.raises(ValueError, match="'preset' must be one of smoke, quick, paper, got 'huge'"):
        reproduce([SMALL], tmp_path, preset="huge")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without GPU")
def test_no_gpu() -> None:
    with pytest.raises(ValueError, match="'device' is cuda, but torch finds no GPU here; use --device cpu"):
        choose_device("cuda")


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, puts = store_module._write_both, []

    def full(path: Path, data: bytes, blob: bytes | None) -> None:
        puts.append(path)
        if len(puts) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(path, data, blob)

    monkeypatch.setattr(store_module, "_write_both", full)
    with pytest.raises(StoreError, match="the disk is full; free some space and start again"):
        run(tmp_path, jobs=1)
    assert stored(tmp_path) == 2
    assert run(tmp_path, jobs=1) == expected()
    assert len(puts) == 9  # two, the failed one, and the other six: nothing is done twice


def test_damaged_files_are_done_again(tmp_path: Path) -> None:
    run(tmp_path, jobs=1)
    truncated = next(tmp_path.glob("units/score/**/*.json"))
    truncated.write_bytes(truncated.read_bytes()[:-20])
    flipped = next(tmp_path.glob("units/training/**/*.safetensors"))
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    found: list[Damage] = []
    assert run(tmp_path, jobs=1, on_damage=found.append) == expected()
    assert {damage.path for damage in found} == {truncated, flipped.with_suffix(".json")}
    assert len(list((tmp_path / "damaged").glob("*.reason.txt"))) == 2
    found.clear()
    assert run(tmp_path, jobs=1, on_damage=found.append) == expected()
    assert found == []


BIRTH = """
import os, sys, time
from gnpool.engine import children as processes

def import_slowly():
    open(sys.argv[1], "w").close()
    time.sleep(20)

if __name__ == "__main__":
    if sys.argv[2] == "imports of all":
        processes.PRELOADED = ["slow"]
    begin = import_slowly if sys.argv[2] == "imports of one" else int
    try:
        with processes.children(2, begin, (), leave=int):
            for _ in range(600):
                time.sleep(0.1)
    except KeyboardInterrupt:
        os._exit(130)  # as the program does: to take torch apart takes seconds
"""


@pytest.mark.parametrize("when", ["imports of all", "imports of one"])
def test_ctrl_c_while_processes_are_born(tmp_path: Path, when: str) -> None:
    script, begun = tmp_path / "script.py", tmp_path / "begun"
    script.write_text(BIRTH)
    (tmp_path / "slow.py").write_text(f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(20)\n")
    command = [sys.executable, str(script), str(begun), when]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, text=True) as process:
        wait_for(begun.exists, process)
        time.sleep(0.2)  # until the parent waits for them
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)  # and they would import for 20 seconds
        process.kill()
    assert process.returncode == 130


@pytest.mark.slow
@pytest.mark.parametrize("reaches", ["parent", "all"])  # as a terminal sends it
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path, reaches: str) -> None:
    with program("reproduce", "demo", "--preset", "quick", "--out", str(tmp_path), "--jobs", "2") as process:
        wait_for(lambda: len(list(tmp_path.glob("checkpoints/*"))) >= 2, process)
        time.sleep(1.0)  # into the training
        (os.kill if reaches == "parent" else os.killpg)(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out == ""
    stopped = f"Stopped. Everything finished is kept in {tmp_path}; run the same command again to resume.\n"
    assert errors == stopped
    assert list(tmp_path.glob("checkpoints/*/*/unit0000.safetensors"))
