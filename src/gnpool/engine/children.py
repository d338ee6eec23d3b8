"""A pool of processes on this machine that end no later than the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Set
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any

import torch

from gnpool.engine.loaded import load_again

# On Linux, one process imports slow modules once, and the others are forked from it: it has no threads of torch and
# no CUDA, which a fork of this process would copy incompletely. It listens at a socket in the temporary folder, whose
# path must be short. On other systems each process starts anew.
SOCKET_CHARACTERS = 108 - len("/pymp-12345678/listener-12345678")  # of the path of the temporary folder, with a 0 byte
FORKS = sys.platform == "linux" and len(os.fsencode(tempfile.gettempdir())) < SOCKET_CHARACTERS
CONTEXT = multiprocessing.get_context("forkserver" if FORKS else "spawn")
PRELOADED = ["torch_geometric.nn"]  # imports torch, too


@contextmanager
def children(
    count: int,
    begin: Callable[..., None],
    start: tuple[Any, ...],
    *,
    leave: Callable[[], None] | None = None,
    orphaned: Callable[[], object] = int,
) -> Iterator[ProcessPoolExecutor]:
    """A pool of ``count`` processes, each of which calls ``begin(*start)`` first.

    Leaving the block calls ``leave`` and waits until running calls have ended. Without ``leave``, and after a second
    Ctrl-C, the processes are killed. After the first Ctrl-C, processes that still import are killed at once, since they
    have nothing to save. A child whose parent was killed calls ``orphaned`` and ends at once.
    """
    others, ready = multiprocessing.active_children(), CONTEXT.SimpleQueue()
    born = (begin, start, orphaned, dict(os.environ), ready)
    pool = ProcessPoolExecutor(count, mp_context=CONTEXT, initializer=_born, initargs=born)

    def kill(spared: Set[int | None] = frozenset()) -> None:
        for child in mine:
            if child.pid not in spared:
                child.kill()

    try:
        try:
            _start_all(pool, count)
        finally:
            mine = [child for child in multiprocessing.active_children() if child not in others]
        yield pool
    finally:
        try:
            (leave or kill)()
            if isinstance(sys.exception(), KeyboardInterrupt):
                kill(spared={ready.get() for _ in iter(ready.empty, True)})
            pool.shutdown(wait=True, cancel_futures=True)
        except KeyboardInterrupt:  # for the second time: do not wait until states are saved
            kill()
            raise


def _start_all(pool: ProcessPoolExecutor, count: int) -> None:
    """Start the processes of a pool. They ignore Ctrl-C, which reaches all of them, because the parent decides."""
    with _deaf():
        if FORKS:
            CONTEXT.set_forkserver_preload(PRELOADED)
            forkserver.ensure_running()  # only this: it imports for seconds, and Ctrl-C must work meanwhile
        else:
            _fill(pool, count)
    if FORKS:
        _fill(pool, count)


def _fill(pool: ProcessPoolExecutor, count: int) -> None:
    for _ in range(count):
        pool.submit(int)  # no process is idle yet, so each call starts one


def _born(
    begin: Callable[..., None],
    start: tuple[Any, ...],
    orphaned: Callable[[], object],
    environment: dict[str, str],
    ready: Any,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)  # the current one, because the process that this one was forked from may be older
    threading.Thread(target=_end_with_parent, args=(orphaned,), daemon=True).start()
    torch.set_num_threads(1)
    load_again()
    begin(*start)
    ready.put(os.getpid())


@contextmanager
def _deaf() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change the handling of Ctrl-C
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent(orphaned: Callable[[], object]) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    try:
        orphaned()
    finally:
        os._exit(1)
