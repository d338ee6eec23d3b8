"""The part of Ray that the engine uses, with threads for workers: nothing of Ray's has to be installed."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from gnpool.engine import RayEngine


class RayError(Exception):
    pass


class TaskCancelledError(RayError):
    pass


@dataclass(frozen=True)
class Reference:
    data: bytes


class StandIn:
    """Workers that can be lost; what goes to them and comes back is copied, as between processes.

    Args:
        workers (int): How many there are.
        losses (int): How many units are lost with their workers before the others go well.
    """

    exceptions = SimpleNamespace(RayError=RayError, TaskCancelledError=TaskCancelledError)
    util = SimpleNamespace(get_node_ip_address=lambda: "here")

    def __init__(self, workers: int = 2, losses: int = 0) -> None:
        self.pool, self.losses = ThreadPoolExecutor(workers), losses
        self.lock = threading.Lock()
        self.options: list[dict[str, Any]] = []
        self.started: list[str] = []  # names of units, each time one is started
        self.puts = 0
        self.cancelled: list[Future[Any]] = []

    def remote(self, what: Any) -> Any:
        def options(**given: Any) -> Any:
            self.options.append(given)
            return SimpleNamespace(remote=lambda *arguments: self._start(what, arguments, given))

        return SimpleNamespace(options=options)

    def _start(self, what: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if isinstance(what, type):
            actor = what(*arguments)
            call = {n: SimpleNamespace(remote=lambda *a, n=n: _done(getattr(actor, n)(*a))) for n in ("put", "take")}
            return SimpleNamespace(**call)
        unit, checkpoint, box, number, *given = arguments
        travels = pickle.dumps((unit, checkpoint, number))
        sent = [value.data if isinstance(value, Reference) else pickle.dumps(value) for value in given]
        return self.pool.submit(self._work, what, travels, box, sent, options["max_retries"])

    def _work(self, what: Any, travels: bytes, box: Any, sent: list[bytes], retries: int) -> Any:
        for _ in range(retries + 1):
            unit, checkpoint, number = pickle.loads(travels)  # noqa: S301 - made here
            with self.lock:
                self.started.append(unit.__name__)
                lost, self.losses = self.losses > 0, max(0, self.losses - 1)
            given = [pickle.loads(data) for data in sent]  # noqa: S301
            with warnings.catch_warnings():
                found = what(unit, checkpoint, box, number, *given)
            if not lost:  # else the worker ends before it has said so
                return pickle.loads(pickle.dumps(found))  # noqa: S301
        raise RayError("The worker died.\nlong story")

    def put(self, value: Any) -> Reference:
        self.puts += 1
        return Reference(pickle.dumps(value))

    def wait(self, futures: list[Future[Any]], timeout: float) -> tuple[list[Any], list[Any]]:
        done, rest = wait_for(futures, timeout=timeout)
        return list(done), list(rest)

    def get(self, future: Future[Any], timeout: float | None = None) -> Any:
        return future.result(timeout)

    def cancel(self, future: Future[Any]) -> None:
        self.cancelled.append(future)

    def kill(self, _: Any) -> None:
        pass

    @property
    def units(self) -> list[dict[str, Any]]:
        """The options of all units; those of the mailbox are left out."""
        return [given for given in self.options if "max_retries" in given]


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@contextmanager
def standing_in(workers: int = 2, losses: int = 0) -> Iterator[tuple[RayEngine, StandIn]]:
    """An engine on the stand-in."""
    ray = StandIn(workers, losses)
    with RayEngine(ray, workers) as engine:
        yield engine, ray
    ray.pool.shutdown()
