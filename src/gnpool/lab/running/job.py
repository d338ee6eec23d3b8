"""A job: what one of the ``--jobs`` does at a time, and what it is given to do it with."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch

from gnpool.engine import Caller, Engine
from gnpool.lab.running.data import DataCache, Wanted
from gnpool.store import Record, Store

Key = dict[str, Any]
SHARED = 1000  # things that jobs of one run may have in common: more than any run has


@dataclass(frozen=True)
class JobPart:
    """A part of a job.

    Args:
        held (bool): Whether the store has it already.
        seconds (float): Its estimated time.
        what (str, optional): What is shown when it is finished: ``"training"`` or ``"exam"``. (default: nothing)
    """

    held: bool
    seconds: float = 0.0
    what: str | None = None


@dataclass(frozen=True)
class Report:
    """How far a part of a job is: its share, and the lowest validation error so far."""

    job: int
    part: int = 0
    share: float = 1.0
    error: float | None = None
    finished: bool = False


@dataclass(frozen=True)
class Bench:
    """Where a job works.

    Args:
        store (Store): Where results are kept, and found again.
        device (torch.device): Where to compute.
        threads (int): Work units of one training side by side.
        stopped (callable): Whether to stop.
        tell (callable): Called with a :class:`Report` now and then.
        engine (Engine): Who computes units. (default: this thread)
        number (int): Of the job.
        shared (DataCache): What jobs of one run have in common.
    """

    store: Store
    device: torch.device
    threads: int
    stopped: Callable[[], bool]
    tell: Callable[[Report], None]
    engine: Engine = field(default_factory=Engine)
    number: int = 0
    shared: DataCache = field(default_factory=functools.partial(DataCache, SHARED))

    def of(self, number: int) -> Bench:
        """The same for another job."""
        return dataclasses.replace(self, number=number)

    def caller(self, checkpoint: Path | None = None, part: int = 0) -> Caller:
        """What ties a unit to this bench: it tells its share and, perhaps, the error so far."""
        return Caller(self.stopped, lambda told: self.tell(Report(self.number, part, *told)), checkpoint)

    def check(self) -> None:
        """Leave, if that was asked for."""
        Caller(self.stopped).check()

    def finish(self, part: int = 0) -> None:
        """Tell that a part is done and stored."""
        self.tell(Report(self.number, part, finished=True))

    def record(self, key: Key, compute: Callable[[Path], tuple[Any, dict[str, Any], Key]]) -> Record | None:
        """What the store has of a key; what is missing is computed now, unless another process is at it: then None.

        ``compute`` is given the folder of the checkpoint, and returns scores, tensors and meta data.
        """
        found = self.store.get(key)
        if found is not None:
            return found
        with self.store.claim(key) as mine:
            if not mine:
                return None
            found = self.store.get(key)  # somebody may have finished it in between
            if found is None:
                scores, tensors, meta = compute(self.store.checkpoint(key))
                self.store.put(key, scores=scores, tensors=tensors, meta=meta)
                found = self.store.get(key)
        return found


class Job(ABC):
    """Work that is done in one go by one worker. What it makes is stored as it comes."""

    gpu_jobs: ClassVar[int] = 4  # of its kind side by side on one GPU: steps at small batches leave most of it idle
    separable: ClassVar[bool] = False  # may be sent to a process of its own
    one_core: ClassVar[bool] = True  # on a CPU; others use all cores
    stage: ClassVar[int] = 0  # begins when all jobs of earlier stages have ended
    tells_lowest: ClassVar[bool] = True  # the errors that it tells are the lowest so far, and hold at its end
    needed: ClassVar[bool] = False  # by all others: its failure ends the run

    @property
    @abstractmethod
    def label(self) -> str:
        """For people."""

    @property
    @abstractmethod
    def key(self) -> Key:
        """What it makes, or the first of it, in the store."""

    @property
    def root(self) -> object:
        """What jobs have in common if the failure of one leaves the others without anything to go on from."""
        return self

    @property
    def name(self) -> object:
        """Equal for the same job of two tables."""
        return self

    def joined(self, other: Any) -> Job:
        """One job for two of the same name."""
        return self

    def parts(self, store: Store, kind: str) -> Sequence[JobPart]:
        """What it consists of, with times on a ``kind`` of device; when the store holds all, nothing is left to do."""
        return [JobPart(self.key in store)]

    def wants(self, store: Store) -> Iterator[tuple[Wanted, int | None]]:
        """Data that other processes may make ahead, each with the number of epochs that it is padded for."""
        return iter(())

    def side_by_side(self, jobs: int, engine: Engine) -> int:
        """How many of its kind, where ``jobs`` are asked for."""
        return jobs

    @abstractmethod
    def work(self, bench: Bench) -> bool:
        """Do what is missing; False if another process is at it."""


def merged(jobs: Sequence[Job]) -> list[Job]:
    """Every job once, with all that any table asks of it."""
    found: dict[object, Job] = {}
    for job in jobs:
        found[job.name] = found[job.name].joined(job) if job.name in found else job
    return list(found.values())
