"""Work units on the machines of a Ray cluster; the store stays with the process that asked for them.

The driver claims units and stores results, so workers need neither the store's folder nor its locks. Every study has a
thread of the driver, which sends one unit after another and waits. Ray starts a unit again that was lost with its
worker or its node; where the folder is shared it goes on from its checkpoint.
"""

from __future__ import annotations

import importlib
import logging
import os
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gnpool.lab.presets import Preset
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.studies import Bench, Report, StoppedError
from gnpool.store import Record
from gnpool.store.locks import lock

RETRIES = 3  # of a unit whose worker or node died; after that the unit counts as failed
POLL = 0.5  # seconds between looks at a unit that runs, or at the mail
GRACE = 15.0  # seconds that a cancelled unit has to save its state
OBJECTS = 200 * 2**20  # bytes of Ray's object store on a laptop: weights of a unit, a few megabytes
GPU_SHARE = 0.25  # of a GPU, for a unit: steps at small batches leave most of it idle


class LostError(RuntimeError):
    """A unit failed on a worker, or was lost with too many of them."""


@dataclass(frozen=True)
class Cluster:
    """A connection to Ray.

    Args:
        ray (module): Ray itself, or what stands in for it.
        cpus (int): Cores of all nodes.
        gpus (int): GPUs of all nodes.
    """

    ray: Any
    cpus: int
    gpus: int

    def device(self, name: str) -> torch.device:
        """Where units run: ``"auto"`` is a GPU if any node has one."""
        if name == "cuda" and not self.gpus:
            raise ValueError("'device' is cuda, but no node of the Ray cluster has a GPU; use --device cpu")
        return torch.device("cuda" if name == "cuda" or (name == "auto" and self.gpus) else "cpu")

    def jobs(self, device: torch.device) -> int:
        """Units side by side, where the user does not say."""
        return max(1, int(self.gpus / GPU_SHARE) if device.type == "cuda" else self.cpus)


@contextmanager
def ray_cluster(address: str | None = None, jobs: int | None = None) -> Iterator[Cluster]:
    """A cluster: the one at ``address`` or ``$RAY_ADDRESS``, or one of this machine's cores for the time of the block.

    Args:
        address (str, optional): Such as ``"10.0.0.1:6379"``, or ``"auto"`` on a node of the cluster.
        jobs (int, optional): Cores to offer, if the cluster is of this machine. (default: all)

    Raises:
        ImportError: If Ray is not installed.
        OSError: If Ray does not start or cannot be reached.
    """
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ImportError("the engine 'ray' needs Ray: pip install 'gnpool[ray]'") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would call home
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
            raise OSError(f"Ray {where}: {error}") from error
    try:
        found = ray.cluster_resources()
        yield Cluster(ray, int(found.get("CPU", 1)), int(found.get("GPU", 0)))
    finally:
        if mine:
            ray.shutdown()


@dataclass(frozen=True)
class RayBench(Bench):
    """Sends work units to a cluster and waits for them."""

    cluster: Cluster = field(kw_only=True)
    mailbox: Any = field(kw_only=True)

    def train(self, number: int, recipe: Recipe, learned: Record | None, checkpoint: Path) -> Any:
        return self._send("train", (number, recipe, learned), checkpoint)

    def hold(self, recipe: Recipe, exam: Exam, trained: Record) -> Any:
        return self._send("hold", (recipe, exam, trained), None)

    def _send(self, what: str, arguments: tuple[Any, ...], checkpoint: Path | None) -> Any:
        ray = self.cluster.ray
        task = ray.remote(compute).options(
            num_cpus=1, num_gpus=GPU_SHARE if self.device.type == "cuda" else 0, max_retries=RETRIES
        )
        result = task.remote(
            what, arguments, checkpoint, self.preset, self.device.type, self.search, self.threads, self.mailbox
        )
        while not ray.wait([result], timeout=POLL)[0]:
            if self.stopped():
                ray.cancel(result)  # as Ctrl-C does
                ray.wait([result], timeout=GRACE)
                raise StoppedError
        try:
            done, found = ray.get(result)
        except ray.exceptions.TaskCancelledError:
            raise StoppedError from None
        except ray.exceptions.RayError as error:
            reason = str(error).strip().partition("\n")[0]
            raise LostError(f"lost {RETRIES + 1} times with its worker ({type(error).__name__}: {reason})") from error
        if not done:
            raise LostError(found)
        return found


def compute(
    what: str,
    arguments: tuple[Any, ...],
    checkpoint: Path | None,
    preset: Preset,
    device: str,
    search: str,
    threads: int,
    mailbox: Any,
) -> tuple[bool, Any]:
    """One unit, on a worker: True and its result, or False and why it failed for reasons of its own."""
    warnings.showwarning = lambda message, *_, **__: mailbox.put.remote(str(message))
    bench = Bench(preset, torch.device(device), search, threads, lambda: False, _Post(mailbox))
    try:
        if what == "hold":
            return True, bench.hold(*arguments)
        number, recipe, learned = arguments
        with _folder(checkpoint) as folder:
            return True, bench.train(number, recipe, learned, folder)
    except Exception as error:  # Ray would start it again, or wrap what may not travel
        return False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"


@contextmanager
def _folder(shared: Path | None) -> Iterator[Path]:
    """The unit's checkpoint, if the file system is shared and no lost worker is still at it; else one of this node."""
    with ExitStack() as stack:
        if shared is not None and shared.is_dir():  # the driver has just made it
            path = shared.parent.parent / "locks" / f"{shared.name}.worker"
            if path.parent.is_dir() and stack.enter_context(lock(path, wait=False)):
                yield shared
                return
        yield Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gnpool-")))


class _Post:
    """Reports of a worker, not more than two a second."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox, self.last = mailbox, 0.0

    def __call__(self, report: Report) -> None:
        if time.monotonic() - self.last > POLL:
            self.last = time.monotonic()
            self.mailbox.put.remote(report)


class Mailbox:
    """What workers have to say until the driver asks for it; an actor on the driver's node."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def put(self, message: Any) -> None:
        self.messages.append(message)

    def take(self) -> list[Any]:
        found, self.messages = self.messages, []
        return found


@contextmanager
def mail(cluster: Cluster, tell: Callable[[Report], None]) -> Iterator[Any]:
    """A mailbox whose reports go to ``tell``, and everything else becomes a warning."""
    ray = cluster.ray
    here = f"node:{ray.util.get_node_ip_address()}"  # a resource that every node has, of itself
    mailbox = ray.remote(Mailbox).options(num_cpus=0, resources={here: 0.001}).remote()
    end = threading.Event()
    problems: list[Exception] = []

    def read() -> None:
        while True:
            last = end.wait(POLL)
            try:
                for message in ray.get(mailbox.take.remote(), timeout=GRACE):
                    if isinstance(message, Report):
                        tell(message)
                    else:
                        warnings.warn(message, stacklevel=1)
            except Exception as error:  # progress is lost, results are not
                problems.append(error)
                return
            if last:
                return

    reader = threading.Thread(target=read, name="lab-mail", daemon=True)
    reader.start()
    try:
        yield mailbox
    finally:
        end.set()
        reader.join()
        ray.kill(mailbox)
    if problems and not isinstance(problems[0], ray.exceptions.RayError):
        raise problems[0]
