"""Runs jobs in separate processes: small models on a CPU spend their time in Python, which threads share."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gnpool.engine.children import CONTEXT, children
from gnpool.lab.running.job import Bench, Job, Report
from gnpool.store import Damage, Store

Submit = Callable[[int, Job], "Future[bool]"]
LISTEN_SECONDS = 0.05  # time between checks for messages
PATIENCE = 5.0  # seconds to wait for the last messages; a killed child may have left half of one
_bench: Bench | None = None  # the bench of a child process


@contextmanager
def process_pool(
    store: Store,
    jobs: int,
    threads: int,
    *,
    tell: Callable[[Report], None],
    on_damage: Callable[[Damage], None],
) -> Iterator[Submit]:
    """A function that submits jobs to ``jobs`` processes.

    Leaving the block stops running jobs, which save their state first. One thread of this process passes on everything
    that children send: reports, damaged files and warnings. A child whose parent was killed ends at once.
    """
    stop, messages = CONTEXT.Event(), CONTEXT.SimpleQueue()
    problems: list[Exception] = []
    ended = threading.Event()  # not a last message, because a killed child may hold the lock for writing

    def listen() -> None:
        while True:
            over = ended.is_set()  # read first, so that all earlier messages are in the queue by now
            if messages.empty():
                if over:
                    return
                ended.wait(LISTEN_SECONDS)
                continue
            message = messages.get()
            try:
                if isinstance(message, Report):
                    tell(message)
                elif isinstance(message, Damage):
                    on_damage(message)
                else:
                    warnings.warn(message, stacklevel=1)
            except Exception as error:  # keep listening, or the children would wait for ever
                problems.append(error)

    listener = threading.Thread(target=listen, name="lab-listener", daemon=True)
    listener.start()
    start = (store.root, threads, stop, messages)
    try:
        with children(jobs, _begin, start, leave=stop.set) as pool:
            yield lambda number, job: pool.submit(_work, number, job)
    except BrokenProcessPool:
        raise OSError(
            "a worker process ended abruptly, perhaps for lack of memory; finished work is kept: start again, with "
            "fewer --jobs if need be"
        ) from None
    finally:
        ended.set()
        listener.join(PATIENCE)
    if problems:
        raise problems[0]


def _begin(root: Path, threads: int, stop: Any, messages: Any) -> None:
    global _bench
    warnings.showwarning = lambda message, *_, **__: messages.put(str(message))
    store = Store(root, create=False, on_damage=messages.put)
    _bench = Bench(store, torch.device("cpu"), threads, stop.is_set, messages.put)


def _work(number: int, job: Job) -> bool:
    assert _bench is not None
    return job.work(_bench.of(number))
