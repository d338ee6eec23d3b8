"""A pool of processes on this machine that end with the one that started them, or before."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from gnpool.engine.loaded import load_again

# On Linux one process imports what takes long, once, and the others are forked from it: it has no threads of torch and
# no CUDA, which a fork of this process would copy halfway. It listens at a socket in the temporary folder, whose path
# must be short. Elsewhere each process starts anew.
SOCKET_CHARACTERS = 108 - len("/pymp-12345678/listener-12345678")  # of the path of the temporary folder, with a 0 byte
FORKS = sys.platform == "linux" and len(os.fsencode(tempfile.gettempdir())) < SOCKET_CHARACTERS
CONTEXT = multiprocessing.get_context("forkserver" if FORKS else "spawn")
PRELOADED = ["torch_geometric.nn"]  # and so torch


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

    Leaving the block calls ``leave`` and waits until what runs has ended; without ``leave``, and after Ctrl-C for the
    second time, the processes are killed. A child whose parent was killed calls ``orphaned`` and ends at once.
    """
    others = multiprocessing.active_children()
    CONTEXT.set_forkserver_preload(PRELOADED)
    born = (begin, start, orphaned, dict(os.environ))
    pool = ProcessPoolExecutor(count, mp_context=CONTEXT, initializer=_born, initargs=born)
    with _deaf():  # Ctrl-C reaches all processes; the parent decides, and children are born deaf
        for _ in range(count):
            pool.submit(int)  # none is idle yet, so that each starts one
    mine = [child for child in multiprocessing.active_children() if child not in others]

    def kill() -> None:
        for child in mine:
            child.kill()

    try:
        yield pool
    finally:
        try:
            (leave or kill)()
            pool.shutdown(wait=True, cancel_futures=True)
        except KeyboardInterrupt:  # for the second time: nobody waits for states to be saved
            kill()
            raise


def _born(
    begin: Callable[..., None], start: tuple[Any, ...], orphaned: Callable[[], object], environment: dict[str, str]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)  # of now: the process that this one was forked from may be older
    threading.Thread(target=_end_with_parent, args=(orphaned,), daemon=True).start()
    torch.set_num_threads(1)
    load_again()
    begin(*start)


@contextmanager
def _deaf() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change what Ctrl-C does
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
