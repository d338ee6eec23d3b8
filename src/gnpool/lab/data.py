"""Data that several trainings and exams share, generated and laid out once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch_geometric.data import Data

from gnpool.tasks import get_task
from gnpool.training import Batches

KEPT = 8  # datasets: those of the tasks at hand, train and validation, and the tests of the moment


class DataCache:
    """What was asked for last; threads that ask for the same wait while one of them makes it."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[threading.Lock, list[Any]]] = OrderedDict()

    def dataset(self, task: str, split: str, **options: Any) -> list[Data]:
        """``get_task(task).dataset(split, **options)``, options of None left out."""
        given = {name: value for name, value in options.items() if value is not None}
        key = repr((task, split, sorted(given.items())))
        found: list[Data] = self.held(key, lambda: get_task(task).dataset(split, **given))
        return found

    def batches(self, task: str, split: str, batch_size: int, shuffle: int | None, **options: Any) -> Batches:
        """The same in batches, whose order is that of the seed ``shuffle``. The graphs themselves are not kept."""
        given = {name: value for name, value in options.items() if value is not None}
        spec = get_task(task)

        def make() -> Batches:
            edges = spec.level != "set"
            return Batches(spec.dataset(split, **given), batch_size, seed=shuffle, sorted_edges=edges)

        found: Batches = self.held(repr((task, split, batch_size, shuffle, sorted(given.items()))), make)
        return found

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


CACHE = DataCache()
