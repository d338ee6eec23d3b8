"""Starts programs, disturbs them, and lists their processes."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gnpool.lab import reproduce
from tests.lab.shared import SMALL, timeless

PATIENCE = 180.0  # seconds for a program on a busy machine
PROC = Path("/proc/self/task").exists()


def command(folder: Path, *options: str) -> tuple[str, ...]:
    return ("reproduce", SMALL, "--preset", "smoke", "--out", str(folder), *options)


@functools.cache
def undisturbed() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        return finish(Path(folder))


def finish(folder: Path, **options: object) -> dict[str, object]:
    """Start the program again; return the results at its end."""
    (table,) = reproduce([SMALL], folder, preset="smoke", **{"jobs": 1, **options})["tables"]  # type: ignore[arg-type]
    return timeless(table)


def stored(folder: Path) -> dict[str, bytes]:
    """The finished units, by path."""
    return {str(path): path.read_bytes() for path in sorted(folder.glob("units/**/*.json"))}


def kept(folder: Path, before: dict[str, bytes]) -> bool:
    """Whether every unit that was finished is still there, unchanged."""
    return before.items() <= stored(folder).items()


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    begin = time.monotonic()
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.01)


def descendants(process: int) -> dict[int, str]:
    """The descendants of a process, with their command lines."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state[0] != "Z":
                parents[int(entry.name)] = int(state[1])
    found, todo = {}, [process]
    while todo:
        one = todo.pop()
        below = [child for child, parent in parents.items() if parent == one]
        found |= {child: lines[child] for child in below}
        todo += below
    return found


def gone(processes: list[int]) -> bool:
    """Whether all of these processes end by themselves."""
    begin = time.monotonic()
    while time.monotonic() - begin < PATIENCE:
        states = []
        for one in processes:
            try:
                states.append(Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue
        if set(states) <= {"Z"}:
            return True
        time.sleep(0.1)
    return False


def end(processes: list[int]) -> None:
    for one in processes:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            continue
