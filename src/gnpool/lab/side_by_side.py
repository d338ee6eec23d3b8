"""Calls side by side, in threads that are told to stop when one of them fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(call: Callable[[T], R], items: Iterable[T], jobs: int, stop: threading.Event) -> list[R]:
    """``call`` for every item, ``jobs`` at a time; what they return, in the order in which they ended.

    After an error or Ctrl-C ``stop`` is set until all have ended: who looks at it can save its state and leave.
    """
    waiting, pending, found = list(items), set[Future[R]](), list[R]()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="lab")
    try:
        while waiting or pending:
            while waiting and len(pending) < jobs:
                pending.add(pool.submit(call, waiting.pop(0)))
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            found += [future.result() for future in finished]
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        stop.clear()
    return found
