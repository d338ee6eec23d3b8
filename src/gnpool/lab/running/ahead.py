"""Makes training data in other processes before jobs in threads ask for it.

Making data keeps Python busy for seconds, and all threads of a process share Python. Trainings on a GPU need Python
for every step, so they would all have to wait.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gnpool.engine.children import children
from gnpool.lab.running.data import CACHE, DataCache, Wanted
from gnpool.training.padded import padding_of
from gnpool.training.parcels import Parcel, pack

AHEAD = 3  # jobs whose data is made while earlier ones are still running
WORTH = 1000  # training graphs or sets from which the seconds to start a process pay
Prepare = Callable[[Sequence[tuple[Wanted, int | None]]], None]


def data_makers(device: torch.device, jobs: int, wanted: Sequence[Wanted]) -> int:
    """Number of processes to make data in for ``jobs`` trainings in threads: at most half the cores; 0 if none pays."""
    large = any(dict(one.options).get("count", WORTH) >= WORTH for one in wanted)
    return min(jobs, (os.cpu_count() or 1) // 2) if device.type == "cuda" and jobs > 1 and large else 0


@contextmanager
def data_ahead(makers: int, cache: DataCache = CACHE) -> Iterator[Prepare]:
    """A function that has data made by ``makers`` processes, in the order of its calls. Data with a number of epochs is
    padded for them.

    ``cache`` then returns the data that a process made, and waits for it if need be; it equals what this process would
    make, to the bit. If a process fails, the data is made here. The function may be called with the same data again.
    """
    if makers < 1:
        yield lambda wanted: None
        return
    with TemporaryDirectory(prefix="gnpool-ahead-", ignore_cleanup_errors=True) as name:
        orphaned = partial(shutil.rmtree, name, ignore_errors=True)
        with children(makers, warnings.simplefilter, ("ignore",), orphaned=orphaned) as pool:

            def submit(epochs: int | None, wanted: Wanted) -> Future[Parcel]:
                return pool.submit(_made, Path(name), epochs, wanted)

            def prepare(asked: Sequence[tuple[Wanted, int | None]]) -> None:
                with suppress(BrokenExecutor):  # a process was killed
                    for wanted, epochs in asked:
                        cache.expect(wanted, partial(submit, epochs))

            try:
                yield prepare
            finally:
                cache.forget()


def _made(folder: Path, epochs: int | None, wanted: Wanted) -> Parcel:
    batches = wanted.make()
    if epochs is not None:
        padding_of(batches, epochs)  # the batches keep it
    return pack(batches, folder)
