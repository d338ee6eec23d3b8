"""Data that several trainings and exams share, generated once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from torch_geometric.data import Data

from gnpool.tasks import get_task

KEPT = 8  # datasets: those of the tasks at hand, train and validation, and the tests of the moment


class DataCache:
    """The datasets asked for last; threads that ask for the same one wait while one of them generates it."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[threading.Lock, list[list[Data]]]] = OrderedDict()

    def dataset(self, task: str, split: str, **options: Any) -> list[Data]:
        """``get_task(task).dataset(split, **options)``, options of None left out."""
        given = {name: value for name, value in options.items() if value is not None}
        key = repr((task, split, sorted(given.items())))
        with self._lock:
            busy, holder = self._found.setdefault(key, (threading.Lock(), []))
            self._found.move_to_end(key)
            while len(self._found) > self.kept:
                self._found.popitem(last=False)
        with busy:
            if not holder:
                holder.append(get_task(task).dataset(split, **given))
            return holder[0]


CACHE = DataCache()
