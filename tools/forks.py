"""Runs functions in separate processes, forked from a process that has already imported everything."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Child:
    """A function that runs in a separate process."""

    name: str
    pid: int
    out: Path
    begin: float

    ended: bool = False

    @classmethod
    def start(cls, name: str, work: Callable[[], Any], out: Path) -> Child:
        """Start the function. Its result goes to ``out`` as JSON, and its output to a log beside it."""
        out.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                log = os.open(out.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(log, 1)
                os.dup2(log, 2)
                answer = json.dumps(work())
                out.write_text(answer, encoding="utf-8")
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(0)
        return cls(name, pid, out, time.monotonic())

    @property
    def log(self) -> Path:
        """The file of the function's output."""
        return self.out.with_suffix(".log")

    def kill(self, *, everything: bool = True) -> None:
        """Kill the process, with or without the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everything else os.kill)(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.ended = True

    def done(self, patience: float) -> bool:
        """Whether the process has ended; after ``patience`` seconds it is killed."""
        if not self.ended and time.monotonic() - self.begin > patience:
            self.kill()
        self.ended = self.ended or os.waitpid(self.pid, os.WNOHANG)[0] != 0
        return self.ended

    def answer(self) -> Any:
        """The function's result; None if it did not return."""
        return json.loads(self.out.read_text(encoding="utf-8")) if self.out.exists() else None


def side_by_side(
    todo: list[tuple[str, Callable[[Path], Any]]], folder: Path, jobs: int, patience: float
) -> Iterator[tuple[str, Any, float]]:
    """Run functions in separate processes. Yields the name, the result or None, and the seconds of each.

    A function is called with a folder inside ``folder`` that no other function uses at the same time.
    """
    waiting, slots, running = iter(todo), list(range(jobs)), dict[int, Child]()
    try:
        while True:
            while slots and (following := next(waiting, None)) is not None:
                name, work = following
                slot = slots.pop()
                out = folder / f"answer-{slot}.json"
                running[slot] = Child.start(name, functools.partial(work, folder / f"work-{slot}"), out)
            if not running:
                return
            for slot, child in list(running.items()):
                if child.done(patience):
                    del running[slot]
                    slots.append(slot)
                    yield child.name, child.answer(), time.monotonic() - child.begin
            time.sleep(0.02)
    finally:
        for child in running.values():
            child.kill()
