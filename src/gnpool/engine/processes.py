"""Units in processes of this machine, so that Python itself computes on several cores."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, TypeVar, cast

from gnpool.engine.base import ALONE, Caller, Engine, StoppedError, Unit
from gnpool.engine.cluster import UnitError
from gnpool.engine.loaded import load_again

POLL = 0.2  # seconds between looks at whether to stop, and between reports of a unit
T = TypeVar("T")


@dataclass(frozen=True)
class _Shared:
    """Stands for a large value that every process gets once."""

    number: int


class ProcessEngine(Engine):
    """Sends units to processes of this machine; a context manager.

    A process is started when there is work for it, and it never runs the user's own script again. Units on the CPU
    use one thread each, so that a result does not depend on where its unit ran.

    Args:
        processes (int): How many units run at a time.

    Example:
        >>> from gnpool.engine import ProcessEngine
        >>> ProcessEngine(2)
        ProcessEngine(processes=2)
    """

    remote = True

    def __init__(self, processes: int) -> None:
        super().__init__("cpu")
        self.processes = processes
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._workers: list[_Worker] = []
        self._shared: list[Any] = []

    def jobs(self, default: int = 1) -> int:
        return self.processes

    def __enter__(self) -> ProcessEngine:
        for _ in range(self.processes):
            self._idle.put(None)  # a place for a process that is not there yet
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._shared.clear()

    def share(self, value: T) -> T:
        number = next((k for k, known in enumerate(self._shared) if known is value), len(self._shared))
        if number == len(self._shared):
            self._shared.append(value)
        stands: Any = _Shared(number)
        return cast(T, stands)

    def call(self, unit: Unit, *arguments: Any, caller: Caller = ALONE) -> Any:
        worker = self._idle.get() or self._started()
        try:
            for given in arguments:
                if isinstance(given, _Shared) and given.number not in worker.has:
                    worker.send(("keep", given.number, self._shared[given.number]))
                    worker.has.add(given.number)
            worker.send(("unit", unit, arguments))
            while True:
                try:
                    kind, found = worker.mail.get(timeout=POLL)
                except queue.Empty:
                    if self.stop.is_set() or caller.stopped():
                        raise StoppedError from None
                    continue
                if kind == "tell":
                    caller.tell(found)
                elif kind == "warning":
                    warnings.warn(found, stacklevel=2)
                else:
                    break
            lost = worker.process.poll() is not None
        except BaseException:  # it may be in the middle of something
            self._workers.remove(worker)
            worker.end()
            self._idle.put(None)
            raise
        self._idle.put(None if lost else worker)
        if kind == "failed":
            failure = UnitError(found[0])
            failure.add_note(found[1])
            raise failure
        return found

    def _started(self) -> _Worker:
        worker = _Worker()
        self._workers.append(worker)
        return worker

    def __repr__(self) -> str:
        return f"{type(self).__name__}(processes={self.processes})"


class _Worker:
    """A process, the pipe to it, and what came back."""

    def __init__(self) -> None:
        # -c and not -m: the module would be there twice, and what it pickles would be of the other
        command = [sys.executable, "-c", "from gnpool.engine.processes import serve; serve()"]
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        self.process = subprocess.Popen(  # noqa: S603 -- our own interpreter and code
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to, self.back = self.process.stdin, self.process.stdout
        self.has: set[int] = set()
        self.mail: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, name="gnpool-reader", daemon=True)
        self.reader.start()

    def send(self, message: Any) -> None:
        pickle.dump(message, self.to)
        self.to.flush()

    def _read(self) -> None:
        try:
            while True:
                self.mail.put(pickle.load(self.back))  # noqa: S301 -- what our own process wrote
        except (EOFError, pickle.UnpicklingError):
            status = f"a process that computed ended by itself, with status {self.process.wait()}"
            self.mail.put(("failed", (status, "")))

    def end(self) -> None:
        self.process.kill()
        self.reader.join()
        with contextlib.suppress(BrokenPipeError):
            self.to.close()
        self.back.close()


def serve() -> None:
    """What a process does: take units from its input, one after another, until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked, which ends this one
    take = sys.stdin.buffer
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as give:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a unit prints is no message
        warnings.showwarning = lambda message, *_, **__: _say(give, "warning", str(message))
        load_again()
        _work_off(take, give)


def _work_off(take: BinaryIO, give: BinaryIO) -> None:
    kept: dict[int, Any] = {}
    while True:
        try:
            kind, what, value = pickle.load(take)  # noqa: S301 -- of the process that started this one
        except EOFError:
            return
        if kind == "keep":
            kept[what] = value
            continue
        arguments = [kept[given.number] if isinstance(given, _Shared) else given for given in value]
        try:
            found = what(Caller(tell=_Post(give)), *arguments)
        except Exception as error:  # it travels as text: what it holds may not
            _say(give, "failed", (f"{type(error).__name__}: {error}", traceback.format_exc()))
        else:
            _say(give, "done", found)


class _Post:
    """Reports of a unit, but not more often than anybody looks."""

    def __init__(self, give: BinaryIO) -> None:
        self.give, self.last = give, 0.0

    def __call__(self, report: Any) -> None:
        if time.monotonic() - self.last > POLL:
            self.last = time.monotonic()
            _say(self.give, "tell", report)


def _say(give: BinaryIO, kind: str, found: Any) -> None:
    pickle.dump((kind, found), give)
    give.flush()
