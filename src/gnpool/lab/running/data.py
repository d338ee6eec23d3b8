"""Data that several trainings and exams share, generated and laid out once."""

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

KEPT = 8  # datasets: those of the tasks at hand, train and validation, and the tests of the moment
COMING = 32  # data sets on their way, at most: what nobody asks for in the end is let go


@dataclass(frozen=True)
class Wanted:
    """Batches that somebody asks for, or will.

    Args:
        task (str): The task.
        split (str): ``"train"``, ``"val"`` or ``"test"``.
        batch_size (int): Graphs or sets of a batch.
        shuffle (int, optional): Seed of the order of the batches; ``None``: that of the data.
        options (tuple): Names and values of the options of :meth:`~gnpool.tasks.Task.dataset`, sorted.
    """

    task: str
    split: str
    batch_size: int
    shuffle: int | None
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, task: str, split: str, batch_size: int, shuffle: int | None, **options: Any) -> Wanted:
        """Options of None are left out."""
        given = sorted((name, value) for name, value in options.items() if value is not None)
        return cls(task, split, batch_size, shuffle, tuple(given))

    def make(self) -> Batches:
        """Generate the data and lay it out."""
        task = get_task(self.task)
        graphs = task.dataset(self.split, **dict(self.options))
        return Batches(graphs, self.batch_size, seed=self.shuffle, sorted_edges=task.level != "set")


class DataCache:
    """What was asked for last; threads that ask for the same wait while one of them makes it."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[threading.Lock, list[Any]]] = OrderedDict()
        self._coming: OrderedDict[str, Future[Parcel]] = OrderedDict()

    def batches(self, wanted: Wanted) -> Batches:
        """The batches that somebody asks for. The graphs themselves are not kept."""

        def make() -> Batches:
            arrived = self._arrived(wanted)
            return wanted.make() if arrived is None else arrived

        found: Batches = self.held(repr(wanted), make)
        return found

    def expect(self, wanted: Wanted, submit: Callable[[Wanted], Future[Parcel]]) -> None:
        """Have batches made elsewhere, unless they are here or on their way; they come as a parcel."""
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
        """Expect nothing any more: what is asked for now is made here."""
        with self._lock:
            self._coming.clear()

    def _arrived(self, wanted: Wanted) -> Batches | None:
        """What was made elsewhere, waited for; None if nothing is expected, or if that failed."""
        with self._lock:
            future = self._coming.pop(repr(wanted), None)
        if future is None:
            return None
        try:
            return unpack(future.result())
        except Exception:  # whatever went wrong there: making it here shows it, if it is the data's fault
            return None
        finally:
            _remove(future)

    def held(self, key: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made once for each key as long as it is kept."""
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
