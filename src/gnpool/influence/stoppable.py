"""Threads that can be told to stop, so that Ctrl-C does not wait for long kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gnpool.ops.cpu.threads import run_on_threads

POLL = 0.1  # seconds between looks of the main thread, which alone hears of Ctrl-C
Stop = NDArray[np.int64]  # one number; kernels give up when it is not 0


def new_stop() -> Stop:
    """A sign that nothing is to stop yet."""
    return np.zeros(1, dtype=np.int64)


def run_stoppable(work: Callable[[], object], threads: int, stop: Stop) -> None:
    """Run ``work`` on threads, where each call draws tasks until none are left or ``stop`` says so.

    The main thread only waits. If it is interrupted, or one of the others fails, ``stop`` is set for all of them, and
    the error is raised when they have ended. Any other thread works itself, since no signal reaches it.
    """
    if threading.current_thread() is not threading.main_thread():
        run_on_threads(work, threads)
        return
    failures: list[BaseException] = []
    # Not Thread.join: interrupted in it, Python 3.11 takes a thread for ended that still runs.
    ends = [threading.Event() for _ in range(threads)]

    def guarded(end: threading.Event) -> None:
        try:
            work()
        except BaseException as error:  # raised again below
            failures.append(error)
            stop[0] = 1
        finally:
            end.set()

    helpers = [
        threading.Thread(target=guarded, args=(end,), name=f"gnpool-{number}", daemon=True)
        for number, end in enumerate(ends)
    ]
    try:
        for helper in helpers:
            helper.start()
        for end in ends:
            while not end.wait(POLL):
                pass
    except BaseException:
        stop[0] = 1
        for helper, end in zip(helpers, ends, strict=True):
            if helper.ident is not None:
                end.wait()
        raise
    if failures:
        raise failures[0]
