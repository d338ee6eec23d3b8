"""Shares data among trainings and exams; it is generated and laid out once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from gnpool.tasks import get_task
from gnpool.training import Batches
from gnpool.training.parcels import Parcel, unpack

KEPT = 8  # data sets: training and validation of the current tasks, and the current tests
COMING = 32  # largest number of data sets on their way; the oldest are dropped


@dataclass(frozen=True)
class Wanted:
    """A description of batches that a job needs or will need.

    Args:
        task (str): Name of the task.
        split (str): ``"train"``, ``"val"`` or ``"test"``.
        batch_size (int): Graphs or sets in a batch.
        shuffle (int, optional): Seed for the order of the batches; ``None`` keeps that of the data.
        options (tuple): Names and values of the options of :meth:`~gnpool.tasks.Task.dataset`, sorted.
    """

    task: str
    split: str
    batch_size: int
    shuffle: int | None
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, task: str, split: str, batch_size: int, shuffle: int | None, **options: Any) -> Wanted:
        """Describe batches; options that are None are left out."""
        given = sorted((name, value) for name, value in options.items() if value is not None)
        return cls(task, split, batch_size, shuffle, tuple(given))

    def make(self) -> Batches:
        """Generate the data and lay it out."""
        task = get_task(self.task)
        graphs = task.dataset(self.split, **dict(self.options))
        return Batches(graphs, self.batch_size, seed=self.shuffle, sorted_edges=task.level != "set")


class DataCache:
    """A cache of the data requested last; threads that need the same data wait while one of them makes it."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[threading.Lock, list[Any]]] = OrderedDict()
        self._coming: OrderedDict[str, Future[Parcel]] = OrderedDict()

    def batches(self, wanted: Wanted) -> Batches:
        """The batches, from the cache if possible. The graphs themselves are not kept."""

        def make() -> Batches:
            arrived = self._arrived(wanted)
            return wanted.make() if arrived is None else arrived

        found: Batches = self.held(repr(wanted), make)
        return found

    def expect(self, wanted: Wanted, submit: Callable[[Wanted], Future[Parcel]]) -> None:
        """Have batches made elsewhere, unless they are here or on their way; they arrive as a parcel."""
        key = repr(wanted)
        with self._lock:
            if key in self._found or key in self._coming:
                return
            self._coming[key] = submit(wanted)
            while len(self._coming) > COMING:
                _, forgotten = self._coming.popitem(last=False)
                forgotten.cancel()
                forgotten.add_done_callback(_remove)

    def forget(self) -> None:
        """Stop expecting data: from now on it is made here."""
        with self._lock:
            self._coming.clear()

    def _arrived(self, wanted: Wanted) -> Batches | None:
        """Wait for data made elsewhere; None if none is expected, or if making it failed."""
        with self._lock:
            future = self._coming.pop(repr(wanted), None)
        if future is None:
            return None
        try:
            return unpack(future.result())
        except Exception:  # making the data here will raise the error again, if the data is at fault
            return None
        finally:
            _remove(future)

    def held(self, key: str, make: Callable[[], Any]) -> Any:
        """The result of ``make``, computed once for each key as long as it is kept."""
        with self._lock:
            busy, holder = self._found.setdefault(key, (threading.Lock(), []))
            self._found.move_to_end(key)
            while len(self._found) > self.kept:
                self._found.popitem(last=False)
        with busy:
            if not holder:
                holder.append(make())
            return holder[0]


def _remove(future: Future[Parcel]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().path.unlink(missing_ok=True)


CACHE = DataCache()
