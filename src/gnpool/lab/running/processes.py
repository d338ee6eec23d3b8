"""Jobs in processes of their own: small models on a CPU spend their time in Python, which threads share."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Set
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import torch

from gnpool.engine.loaded import load_again
from gnpool.lab.running.job import Bench, Job, Report
from gnpool.store import Damage, Store

Submit = Callable[[int, Job], "Future[bool]"]
# On Linux one process imports what takes long, once, and the others are forked from it: it has no threads of torch and
# no CUDA, which a fork of this process would copy halfway. It listens at a socket in the temporary folder, whose path
# must be short. Elsewhere each process starts anew.
SOCKET_CHARACTERS = 108 - len("/pymp-12345678/listener-12345678")  # of the path of the temporary folder, with a 0 byte
FORKS = sys.platform == "linux" and len(os.fsencode(tempfile.gettempdir())) < SOCKET_CHARACTERS
CONTEXT = multiprocessing.get_context("forkserver" if FORKS else "spawn")
PRELOADED = ["torch_geometric.nn"]  # and so torch
LISTEN_SECONDS = 0.05  # between looks for messages
PATIENCE = 5.0  # seconds for the last messages; a child that was killed may have left half of one
_bench: Bench | None = None  # of a child


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

    Leaving the block stops what still runs; it saves its state first. Whatever children have to say is said here, by
    one thread: reports, damaged files and warnings. A child whose parent was killed ends at once.
    """
    stop, messages = CONTEXT.Event(), CONTEXT.SimpleQueue()
    problems: list[Exception] = []
    ended = threading.Event()  # and not a last message: a child that was killed may hold the lock for writing

    def listen() -> None:
        while True:
            if messages.empty():
                if ended.wait(LISTEN_SECONDS):
                    return
                continue
            message = messages.get()
            try:
                if isinstance(message, Report):
                    tell(message)
                elif isinstance(message, Damage):
                    on_damage(message)
                else:
                    warnings.warn(message, stacklevel=1)
            except Exception as error:  # listen on, or the children would wait for ever
                problems.append(error)

    listener = threading.Thread(target=listen, name="lab-listener", daemon=True)
    listener.start()
    start = (store.root, threads, stop, messages)
    try:
        with children(jobs, _begin, start, leave=stop.set) as pool:
            yield lambda number, job: pool.submit(_work, number, job)
    except BrokenProcessPool:
        raise OSError(
            "a worker process ended abruptly, perhaps for want of memory; what is finished is kept: start again, with "
            "fewer --jobs if need be"
        ) from None
    finally:
        ended.set()
        listener.join(PATIENCE)
    if problems:
        raise problems[0]


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
    second time, the processes are killed. After Ctrl-C those are killed at once that still import, and have nothing to
    save. A child whose parent was killed calls ``orphaned`` and ends at once.
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
        except KeyboardInterrupt:  # for the second time: nobody waits for states to be saved
            kill()
            raise


def _start_all(pool: ProcessPoolExecutor, count: int) -> None:
    """Start the processes of a pool. Ctrl-C reaches all of them, but the parent decides: children are born deaf."""
    with _deaf():
        if FORKS:
            CONTEXT.set_forkserver_preload(PRELOADED)
            forkserver.ensure_running()  # and it alone: it imports for seconds, in which Ctrl-C must be heard here
        else:
            _fill(pool, count)
    if FORKS:
        _fill(pool, count)


def _fill(pool: ProcessPoolExecutor, count: int) -> None:
    for _ in range(count):
        pool.submit(int)  # none is idle yet, so that each starts one


def _born(
    begin: Callable[..., None],
    start: tuple[Any, ...],
    orphaned: Callable[[], object],
    environment: dict[str, str],
    ready: Any,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)  # of now: the process that this one was forked from may be older
    threading.Thread(target=_end_with_parent, args=(orphaned,), daemon=True).start()
    torch.set_num_threads(1)
    load_again()
    begin(*start)
    ready.put(os.getpid())


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


def _begin(root: Path, threads: int, stop: Any, messages: Any) -> None:
    global _bench
    warnings.showwarning = lambda message, *_, **__: messages.put(str(message))
    store = Store(root, create=False, on_damage=messages.put)
    _bench = Bench(store, torch.device("cpu"), threads, stop.is_set, messages.put)


def _end_with_parent(orphaned: Callable[[], object]) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    try:
        orphaned()
    finally:
        os._exit(1)


def _work(number: int, job: Job) -> bool:
    assert _bench is not None
    return job.work(_bench.of(number))
