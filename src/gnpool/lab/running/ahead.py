"""Training data made in other processes before jobs in threads ask for it.

Making it keeps Python busy for seconds, which all threads of a process share: beside trainings on a GPU, which need
Python for every step, it would hold up all of them.
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

AHEAD = 3  # jobs whose data is made while those before them are still at work
WORTH = 1000  # training graphs or sets from which on starting a process, some seconds, pays
Prepare = Callable[[Sequence[tuple[Wanted, int | None]]], None]


def data_makers(device: torch.device, jobs: int, wanted: Sequence[Wanted]) -> int:
    """Processes to make data in, where ``jobs`` trainings run in threads: at most half the cores; 0 where none pays."""
    large = any(dict(one.options).get("count", WORTH) >= WORTH for one in wanted)
    return min(jobs, (os.cpu_count() or 1) // 2) if device.type == "cuda" and jobs > 1 and large else 0


@contextmanager
def data_ahead(makers: int, cache: DataCache = CACHE) -> Iterator[Prepare]:
    """A function that has data made by one of ``makers`` processes, in the order of its calls, each padded for a number
    of epochs if there is one.

    Who asks ``cache`` for that data gets what came, to the bit what would have been made here, and waits for it if need
    be. Where a process fails the data is made here. The function may be called for the same data again and again.
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
                with suppress(BrokenExecutor):  # somebody killed a process
                    for wanted, epochs in asked:
                        cache.expect(wanted, partial(submit, epochs))

            try:
                yield prepare
            finally:
                cache.forget()


def _made(folder: Path, epochs: int | None, wanted: Wanted) -> Parcel:
    batches = wanted.make()
    if epochs is not None:
        padding_of(batches, epochs)  # stays with them
    return pack(batches, folder)
