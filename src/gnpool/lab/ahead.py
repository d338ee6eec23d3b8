"""Training data made in other processes before studies in threads ask for it.

Making it keeps Python busy for seconds, which all threads of a process share: beside trainings on a GPU, which need
Python for every step, it would hold up all of them.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gnpool.lab.data import CACHE, DataCache, Wanted
from gnpool.lab.parcels import Parcel, pack
from gnpool.lab.presets import Preset
from gnpool.lab.processes import children
from gnpool.lab.recipes import Recipe
from gnpool.training.padded import padding_of

AHEAD = 3  # studies whose data is made while those before them are still at work
WORTH = 1000  # training graphs or sets from which on starting a process, some seconds, pays
Prepare = Callable[[Recipe], None]


def data_makers(device: torch.device, preset: Preset, jobs: int) -> int:
    """Processes to make data in, where ``jobs`` studies run in threads: at most half the cores; 0 where none pays."""
    small = preset.counts.get("train", WORTH) < WORTH
    return 0 if device.type != "cuda" or jobs < 2 or small else min(jobs, (os.cpu_count() or 1) // 2)


@contextmanager
def data_ahead(makers: int, preset: Preset, cache: DataCache = CACHE) -> Iterator[Prepare]:
    """A function that has the data of a recipe made by one of ``makers`` processes, in the order of its calls.

    Who asks ``cache`` for that data gets what came, to the bit what would have been made here, and waits for it if need
    be. Where a process fails the data is made here. The function may be called for the same data again and again.
    """
    if makers < 1:
        yield lambda recipe: None
        return
    with TemporaryDirectory(prefix="gnpool-ahead-", ignore_cleanup_errors=True) as name:
        orphaned = partial(shutil.rmtree, name, ignore_errors=True)
        with children(makers, warnings.simplefilter, ("ignore",), orphaned=orphaned) as pool:

            def submit(epochs: int | None, wanted: Wanted) -> Future[Parcel]:
                return pool.submit(_made, Path(name), epochs, wanted)

            def prepare(recipe: Recipe) -> None:
                with suppress(BrokenExecutor):  # somebody killed a process
                    for split, epochs in (("train", preset.epochs_of(recipe.spec)), ("val", None)):
                        cache.expect(recipe.wanted(split, preset), partial(submit, epochs))

            try:
                yield prepare
            finally:
                cache.forget()


def _made(folder: Path, epochs: int | None, wanted: Wanted) -> Parcel:
    batches = wanted.make()
    if epochs is not None:
        padding_of(batches, epochs)  # stays with them
    return pack(batches, folder)
