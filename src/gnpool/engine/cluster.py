"""Runs units on the machines of a Ray cluster. The calling process, the driver, keeps the results.

The driver claims units and stores results, so workers need neither the store's folder nor its locks. Threads of the
driver send one unit after another and wait. If a unit is lost with its worker or its node, Ray starts it again; if the
folder is shared, the unit resumes from its checkpoint.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch

from gnpool.engine.base import ALONE, Caller, Engine, StoppedError, Unit
from gnpool.engine.loaded import load_again
from gnpool.engine.schedule import threads
from gnpool.store.locks import lock

RETRIES = 3  # how often a unit is started again after its worker or node died, before it counts as failed
POLL = 0.5  # seconds between checks of a running unit or of the mailbox
GRACE = 15.0  # seconds that a cancelled unit has to save its state
OBJECTS = 200 * 2**20  # bytes of Ray's object store on a laptop; larger objects go to the disk
GPU_SHARE = 0.25  # share of a GPU for a unit, since steps with small batches leave most of it idle
# Otherwise Ray would send usage statistics, and would for ever restart a unit that its node has no memory for.
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(RETRIES)}
T = TypeVar("T")


class UnitError(RuntimeError):
    """A unit raised an error on a worker; a note has the traceback."""


class LostError(RuntimeError):
    """A unit was lost with its worker too often."""


class RayEngine(Engine):
    """Sends units to a cluster and waits for them; a context manager.

    Args:
        ray (module): Ray itself, connected, or a stand-in for it.
        cpus (int): Cores of all nodes.
        gpus (int, optional): GPUs of all nodes. (default: ``0``)
        device (str, optional): Where units compute: ``"auto"`` is a GPU if any node has one. (default: ``"auto"``)
    """

    remote = True

    def __init__(self, ray: Any, cpus: int, gpus: int = 0, device: str = "auto") -> None:
        if device == "cuda" and not gpus:
            raise ValueError("'device' is cuda, but no node of the Ray cluster has a GPU; use --device cpu")
        super().__init__("cuda" if device == "cuda" or (device == "auto" and gpus) else "cpu")
        self.ray, self.cpus, self.gpus = ray, cpus, gpus
        self._task = ray.remote(compute).options(
            num_cpus=1, num_gpus=GPU_SHARE if self.device.type == "cuda" else 0, max_retries=RETRIES
        )
        self._shared: dict[int, tuple[Any, Any]] = {}
        self._mail: _Mail | None = None

    @property
    def here(self) -> torch.device:
        return self.device if torch.cuda.is_available() else torch.device("cpu")

    def jobs(self, default: int = 1) -> int:
        return max(1, int(self.gpus / GPU_SHARE) if self.device.type == "cuda" else self.cpus)

    def __enter__(self) -> RayEngine:
        self._mail = _Mail(self.ray)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._mail is not None
        self._mail.close()
        self._mail = None
        self._shared.clear()

    def call(self, unit: Unit, *arguments: Any, caller: Caller = ALONE) -> Any:
        ray, mail = self.ray, self._mail
        assert mail is not None, "a RayEngine is used inside a with block"
        with mail.line(caller.tell) as line:
            result = self._task.remote(unit, caller.checkpoint, mail.box, line.number, *arguments)
            while not ray.wait([result], timeout=POLL)[0]:
                if self.stop.is_set() or caller.stopped() or line.problem is not None:
                    ray.cancel(result)  # as Ctrl-C does
                    ray.wait([result], timeout=GRACE)
                    raise line.problem or StoppedError
            try:
                done, found = ray.get(result)
            except ray.exceptions.TaskCancelledError:
                raise StoppedError from None
            except ray.exceptions.RayError as error:
                reason = str(error).strip().partition("\n")[0]
                text = f"lost {RETRIES + 1} times with its worker ({type(error).__name__}: {reason})"
                raise LostError(text) from error
        if line.problem is not None:
            raise line.problem
        if not done:
            reason, story = found
            failure = UnitError(reason)
            failure.add_note(story)
            raise failure
        return found

    def each(
        self, unit: Unit, arguments: Sequence[tuple[Any, ...]], caller: Caller = ALONE
    ) -> Iterator[tuple[int, Any]]:
        stop = threading.Event()
        tied = Caller(lambda: stop.is_set() or caller.stopped(), caller.tell, caller.checkpoint)
        with threads(min(self.jobs(), max(1, len(arguments))), stop) as submit:
            futures = {submit(self.call, unit, *given, caller=tied): n for n, given in enumerate(arguments)}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def share(self, value: T) -> T:
        if id(value) not in self._shared:  # held, so that no other value gets its number
            self._shared[id(value)] = (value, self.ray.put(value))
        reference: T = self._shared[id(value)][1]
        return reference


@contextmanager
def ray_cluster(address: str | None = None, jobs: int | None = None, device: str = "auto") -> Iterator[RayEngine]:
    """Connect to the cluster at ``address`` or ``$RAY_ADDRESS``, or start one on this machine for the block.

    Args:
        address (str, optional): An address such as ``"10.0.0.1:6379"``, or ``"auto"`` on a node of the cluster.
        jobs (int, optional): Number of cores, if the cluster is started on this machine. (default: all)
        device (str, optional): Where units compute: ``"auto"`` is a GPU if any node has one. (default: ``"auto"``)

    Raises:
        ImportError: If Ray is not installed.
        OSError: If Ray does not start or cannot be reached.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ImportError("the engine 'ray' needs Ray: pip install 'gnpool[ray]'") from error
    address = address or os.environ.get("RAY_ADDRESS")
    mine = not ray.is_initialized()
    if mine:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            options |= {"num_cpus": jobs, "include_dashboard": False, "object_store_memory": OBJECTS}
        try:
            ray.init(address or "local", **options)
        except (OSError, RuntimeError, ValueError) as error:
            where = f"cannot be reached at {address!r}" if address else "does not start on this machine"
            hint = "; a cluster that asks for a token needs RAY_AUTH_MODE=token here, too" if address else ""
            raise OSError(f"Ray {where}: {error}{hint}") from error
    try:
        found = ray.cluster_resources()
        with RayEngine(ray, int(found.get("CPU", 1)), int(found.get("GPU", 0)), device) as engine:
            yield engine
    finally:
        if mine:
            ray.shutdown()


def compute(unit: Unit, checkpoint: Path | None, box: Any, number: int, *arguments: Any) -> tuple[bool, Any]:
    """Run a unit on a worker. Returns True and its result, or False and its error."""
    warnings.showwarning = lambda message, *_, **__: box.put.remote(None, str(message))
    try:
        load_again()
        with _folder(checkpoint) as folder:
            return True, unit(Caller(tell=_Post(box, number), checkpoint=folder), *arguments)
    except Exception as error:  # Ray would start the unit again, or fail to send the error
        return False, (f"{type(error).__name__}: {error}", traceback.format_exc())


@contextmanager
def _folder(shared: Path | None) -> Iterator[Path | None]:
    """The unit's checkpoint if its folder is shared and no lost worker still uses it; otherwise a local folder."""
    if shared is None:
        yield None
        return
    with ExitStack() as stack:
        if shared.is_dir():  # the driver has made it, so the file system is shared
            path = shared.parent.parent / "locks" / f"{shared.name}.worker"
            if path.parent.is_dir() and stack.enter_context(lock(path, wait=False)):
                yield shared
                return
        yield Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gnpool-")))


class _Post:
    """Sends reports of a unit, at most two a second."""

    def __init__(self, box: Any, number: int) -> None:
        self.box, self.number, self.last = box, number, 0.0

    def __call__(self, report: Any) -> None:
        if time.monotonic() - self.last > POLL:
            self.last = time.monotonic()
            self.box.put.remote(self.number, report)


class Mailbox:
    """Holds messages of workers until the driver takes them; an actor on the driver's node."""

    def __init__(self) -> None:
        self.messages: list[tuple[int | None, Any]] = []

    def put(self, number: int | None, message: Any) -> None:
        self.messages.append((number, message))

    def take(self) -> list[tuple[int | None, Any]]:
        found, self.messages = self.messages, []
        return found


@dataclass
class _Line:
    """The receiver of the reports of one unit, and an error that it has raised."""

    number: int
    tell: Callable[[Any], None]
    problem: Exception | None = None


class _Mail:
    """A mailbox, and a thread of the driver that delivers its reports; other messages become warnings."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        here = f"node:{ray.util.get_node_ip_address()}"  # every node has this resource
        self.box = ray.remote(Mailbox).options(num_cpus=0, resources={here: 0.001}).remote()
        self.lines: dict[int, _Line] = {}
        self.count = itertools.count()
        self.end = threading.Event()
        self.reader = threading.Thread(target=self._read, name="gnpool-mail", daemon=True)
        self.reader.start()

    @contextmanager
    def line(self, tell: Callable[[Any], None]) -> Iterator[_Line]:
        """A line that lasts as long as a unit."""
        line = _Line(next(self.count), tell)
        self.lines[line.number] = line
        try:
            yield line
        finally:
            del self.lines[line.number]

    def close(self) -> None:
        self.end.set()
        self.reader.join()
        self.ray.kill(self.box)

    def _read(self) -> None:
        while True:
            last = self.end.wait(POLL)
            try:
                messages = self.ray.get(self.box.take.remote(), timeout=GRACE)
            except Exception:  # only progress is lost
                return
            for number, message in messages:
                line = None if number is None else self.lines.get(number)
                try:
                    if line is not None:
                        line.tell(message)
                    elif number is None:
                        warnings.warn(message, stacklevel=1)
                except Exception as error:  # the call of the unit raises it; for a warning there is no call
                    if line is not None:
                        line.problem = error
            if last:
                return
