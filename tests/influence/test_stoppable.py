"""Ctrl-C reaches long kernels."""

from __future__ import annotations

import _thread
import threading
import time

import numpy as np
import pytest

from gnpool.influence import CascadeGraph, MonteCarloGains, simulate
from gnpool.influence.stoppable import new_stop, run_stoppable


def chain(nodes: int) -> CascadeGraph:
    ends = np.arange(nodes - 1)
    return CascadeGraph(nodes, ends, ends + 1, np.ones(nodes - 1))


def test_an_interruption_ends_all_threads() -> None:
    stop, ended = new_stop(), []

    def work() -> None:
        while not stop[0]:
            time.sleep(0.001)
        ended.append(threading.current_thread().name)

    threading.Timer(0.05, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(work, 3, stop)
    assert sorted(ended) == ["gnpool-0", "gnpool-1", "gnpool-2"]


def test_the_error_of_one_thread_ends_the_others() -> None:
    stop, first = new_stop(), threading.Lock()

    def work() -> None:
        if first.acquire(blocking=False):
            raise ValueError("mine")
        while not stop[0]:
            time.sleep(0.001)

    with pytest.raises(ValueError, match="mine"):
        run_stoppable(work, 2, stop)


def test_another_thread_works_itself() -> None:
    found: list[str] = []

    def call() -> None:
        run_stoppable(lambda: found.append(threading.current_thread().name), 1, new_stop())

    caller = threading.Thread(target=call, name="caller")
    caller.start()
    caller.join()
    assert found == ["caller"]


def test_kernels_give_up_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain(3000)

    def stopped() -> np.ndarray:
        return np.ones(1, dtype=np.int64)

    monkeypatch.setattr("gnpool.influence.cascades.new_stop", stopped)
    monkeypatch.setattr("gnpool.influence.estimate.new_stop", stopped)
    assert float(simulate(graph, [[0]], runs=64).influence[0]) == 0
    gains = MonteCarloGains(graph, runs=64)
    gains.add(0)
    assert not gains.base.any()
    monkeypatch.undo()
    assert float(simulate(graph, [[0]], runs=64).influence[0]) == 3000
    gains.add(2999)
    assert gains.gains([0, 2999]) == [2999, 0]


def test_a_progress_that_is_interrupted_ends_the_simulation() -> None:
    graph, seen = chain(50), []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(graph, [[0]], runs=64 * 1000, progress=progress)
    assert len(seen) < 10
