"""Runs calls side by side. Calls for which another process works come later, and failed calls are collected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from gnpool.engine.base import StoppedError
from gnpool.store import StoreError

POLL_SECONDS = 1.0  # between checks whether another process has finished an item
# Errors that do not come from one call, and that every other call would meet, too.
COMMON = (StoppedError, StoreError, OSError, ImportError, BrokenExecutor)
T = TypeVar("T")


def work_off(
    submit: Callable[[T], Future[bool]],
    items: Sequence[T],
    jobs: int,
    doomed: Callable[[T, list[T]], bool] = lambda item, failed: False,
) -> dict[int, Exception]:
    """Submit every item, ``jobs`` at a time, wait for all, and return the errors of failed items by number.

    If a call returns False, another process works on the item, and it is submitted again later. An item that is
    ``doomed``, given the failed ones, is skipped. Errors that every item would meet are raised at once.

    Example:
        >>> import threading
        >>> from gnpool.engine import threads, work_off
        >>> def divide(number):
        ...     return bool(12 / number)  # True: done
        >>> with threads(2, threading.Event()) as submit:
        ...     failed = work_off(lambda number: submit(divide, number), [3, 0, 4], jobs=2)
        >>> failed
        {1: ZeroDivisionError('division by zero')}
    """
    todo, later = list(range(len(items))), list[int]()
    pending: dict[Future[bool], int] = {}
    failed: dict[int, Exception] = {}
    while todo or pending or later:
        while todo and len(pending) < jobs:
            number = todo.pop(0)
            if not doomed(items[number], [items[other] for other in failed]):
                pending[submit(items[number])] = number
        finished, _ = wait(pending, timeout=POLL_SECONDS if later else None, return_when=FIRST_COMPLETED)
        if not finished:  # time to look again
            todo, later = todo + later, []
        for future in finished:
            number = pending.pop(future)
            try:
                if not future.result():
                    later.append(number)
            except COMMON:
                raise
            except Exception as error:  # the others go on
                failed[number] = error
        if later and not pending and not todo:
            time.sleep(POLL_SECONDS)
            todo, later = later, []
    return failed


@contextmanager
def threads(jobs: int, stop: threading.Event) -> Iterator[Callable[..., Future[Any]]]:
    """A function that submits calls to ``jobs`` threads.

    At the end of the block, also after an error or Ctrl-C, ``stop`` is set until all calls have ended. Calls that check
    it can save their state and return.

    Example:
        >>> import threading
        >>> from gnpool.engine import threads
        >>> with threads(2, threading.Event()) as submit:
        ...     futures = [submit(pow, 2, k) for k in range(4)]
        ...     print([future.result() for future in futures])
        [1, 2, 4, 8]
    """
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="gnpool")
    try:
        yield pool.submit
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        stop.clear()


def side_by_side(
    call: Callable[[T], bool], items: Sequence[T], jobs: int, stop: threading.Event
) -> dict[int, Exception]:
    """Run :func:`work_off` in threads of this process.

    Example:
        >>> import threading
        >>> from gnpool.engine import side_by_side
        >>> done = []
        >>> def work(item):
        ...     done.append(item)
        ...     return True
        >>> side_by_side(work, ["a", "b", "c"], jobs=2, stop=threading.Event()), sorted(done)
        ({}, ['a', 'b', 'c'])
    """
    with threads(jobs, stop) as submit:
        return work_off(lambda item: submit(call, item), items, jobs)
