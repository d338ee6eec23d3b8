"""A job, which is what one of the ``--jobs`` does at a time, and the bench that it works with."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import torch

from gnpool.engine import Caller, Engine
from gnpool.lab.running.data import DataCache, Wanted
from gnpool.store import Record, Store

Key = dict[str, Any]
J = TypeVar("J", bound="Job")
SHARED = 1000  # objects that jobs of one run may share: more than any run has


def key_text(key: Mapping[str, Any]) -> str:
    """A key as text."""
    return json.dumps(key, sort_keys=True)


def digest(content: Any) -> str:
    """A short hash of what a result depends on; keys have it behind the name of the preset."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class JobPart:
    """A part of a job.

    Args:
        held (bool): Whether the store has it already.
        seconds (float): Its estimated time.
        what (str, optional): ``"training"`` or ``"exam"``, shown when the part is finished. (default: nothing is shown)
    """

    held: bool
    seconds: float = 0.0
    what: str | None = None


@dataclass(frozen=True)
class Report:
    """The progress of a part of a job: its share, and the lowest validation error so far."""

    job: int
    part: int = 0
    share: float = 1.0
    error: float | None = None
    finished: bool = False


@dataclass(frozen=True)
class Bench:
    """The surroundings of a job: its store, its device and its engine.

    Args:
        store (Store): Where results are kept and looked up.
        device (torch.device): Where to compute.
        threads (int): Work units of one training that run side by side.
        stopped (callable): Tells whether to stop.
        tell (callable): Called with a :class:`Report` now and then.
        engine (Engine): Computes units. (default: in this thread)
        number (int): Number of the job.
        shared (DataCache): Objects that jobs of one run share.
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
        """The same bench for another job."""
        return dataclasses.replace(self, number=number)

    def caller(self, checkpoint: Path | None = None, part: int = 0) -> Caller:
        """The connection of a unit to this bench: it reports its share and, perhaps, the error so far."""
        return Caller(self.stopped, lambda told: self.tell(Report(self.number, part, *told)), checkpoint)

    def check(self) -> None:
        """Raise an error if the job was asked to stop."""
        Caller(self.stopped).check()

    def finish(self, part: int = 0) -> None:
        """Report that a part is done and stored."""
        self.tell(Report(self.number, part, finished=True))

    def record(self, key: Key, compute: Callable[[Path], tuple[Any, dict[str, Any], Key]]) -> Record | None:
        """The stored record of a key. A missing one is computed now, unless another process works on it; then None.

        ``compute`` gets the folder of the checkpoint, and returns scores, tensors and meta data.
        """
        found = self.store.get(key)
        if found is not None:
            return found
        with self.store.claim(key) as mine:
            if not mine:
                return None
            found = self.store.get(key)  # another process may have finished it meanwhile
            if found is None:
                scores, tensors, meta = compute(self.store.checkpoint(key))
                self.store.put(key, scores=scores, tensors=tensors, meta=meta)
                found = self.store.get(key)
        return found


class Job(ABC):
    """Work that one worker does in one go. Its results are stored as they come."""

    gpu_jobs: ClassVar[int] = 4  # jobs of this kind side by side on a GPU: small batches leave most of it idle
    separable: ClassVar[bool] = False  # whether it may run in its own process
    one_core: ClassVar[bool] = True  # on a CPU; other jobs use all cores
    stage: ClassVar[int] = 0  # it begins when all jobs of earlier stages have ended
    tells_lowest: ClassVar[bool] = True  # whether reported errors are the lowest so far, and valid at the end
    needed: ClassVar[bool] = False  # whether all other jobs need it, so that its failure ends the run

    @property
    @abstractmethod
    def label(self) -> str:
        """The label that people see."""

    @property
    @abstractmethod
    def key(self) -> Key:
        """The key of its result in the store, or of the first of several."""

    @property
    def root(self) -> object:
        """A value that jobs share if the failure of one leaves the others nothing to start from."""
        return self

    @property
    def name(self) -> object:
        """A value that is equal for the same job of two tables."""
        return self

    def joined(self, other: Any) -> Self:
        """One job in place of two with the same name."""
        return self

    def parts(self, store: Store, kind: str) -> Sequence[JobPart]:
        """Its parts, with times on a ``kind`` of device; nothing is left to do once the store holds them all."""
        return [JobPart(self.key in store)]

    def data(self, store: Store) -> set[str]:
        """The data sets of real graphs that it still needs."""
        return set()

    def wants(self, store: Store) -> Iterator[tuple[Wanted, int | None]]:
        """Data that other processes may make ahead, each with the number of epochs that it is padded for."""
        return iter(())

    def side_by_side(self, jobs: int, engine: Engine) -> int:
        """Number of jobs of this kind to run side by side if ``jobs`` are requested."""
        return jobs

    @abstractmethod
    def work(self, bench: Bench) -> bool:
        """Do what is missing; return False if another process is working on it."""


def merged(jobs: Sequence[J]) -> list[J]:
    """Every job once, with all that any table needs from it."""
    found: dict[object, J] = {}
    for job in jobs:
        found[job.name] = found[job.name].joined(job) if job.name in found else job
    return list(found.values())
