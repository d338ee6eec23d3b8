"""A lazy pool of threads, one per process, for kernels that release the GIL.

Numba's ``prange`` is not used: its OpenMP layer dies after a fork, and its workqueue aborts when two threads enter it.
"""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    """Reset the pool in a forked child, which has none of its parent's threads and may have inherited a held lock."""
    global _lock, _pool, _pool_size
    _lock = threading.Lock()
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def thread_count() -> int:
    """``torch.get_num_threads()``, but 1 inside DataLoader and Ray workers, where every core has its own process."""
    threads = torch.get_num_threads()
    if threads == 1 or torch.utils.data.get_worker_info() is not None:
        return 1
    ray = sys.modules.get("ray")
    if ray is not None:
        worker = getattr(getattr(getattr(ray, "_private", None), "worker", None), "global_worker", None)
        if worker is not None and getattr(worker, "mode", None) == getattr(ray, "WORKER_MODE", 1):
            return 1
    return threads


def _executor(helpers: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < helpers:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(helpers, thread_name_prefix="gnpool")
            _pool_size = helpers
        return _pool


def run_on_threads(work: Callable[[], Any], threads: int) -> None:
    """Run ``work`` on this thread and up to ``threads - 1`` others; each call draws tasks until none are left.

    This thread could do everything alone, and it waits only for helpers that have started. A call from inside a pool
    thread therefore cannot deadlock, and a busy pool costs only speed.
    """
    helpers: list[Future[Any]] = []
    for _ in range(threads - 1):
        try:
            helpers.append(_executor(threads - 1).submit(work))
        except RuntimeError:  # the interpreter is shutting down, or another thread has just replaced the pool
            break
    try:
        work()
    finally:
        for helper in helpers:
            helper.cancel()
    for helper in helpers:
        if not helper.cancelled():
            helper.result()
