"""Run tables: whatever their cells need and the store does not have, several trainings side by side."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gnpool.lab.presets import Preset
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.tables import Table
from gnpool.lab.training import SEARCHES, describe_machine, examine, train, train_or_load
from gnpool.store import Record, Store
from gnpool.training import Progress

GPU_JOBS = 4  # trainings side by side on one GPU: steps at small batches leave most of it idle
POLL_SECONDS = 2.0  # how often to look whether another process has finished what this one waits for


@dataclass(frozen=True)
class Event:
    """Something to show: a training went on by an epoch, or work was finished."""

    label: str  # of the training
    done: int  # units of work finished, trainings and exams
    total: int
    fraction: float  # of this training
    error: float | None  # lowest validation value of the metric so far
    finished: bool = False


class _StoppedError(Exception):
    """Raised inside a training when the others were asked to stop."""


def choose_device(name: str) -> torch.device:
    """``"auto"`` is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("'device' is cuda, but torch finds no GPU here; use --device cpu")
    return device


class Runner:
    """Fills a store with what tables need.

    Args:
        store (Store): Where results are kept, and found again.
        preset (Preset): How much of the study to do.
        device (torch.device): Where to train.
        search (str): ``"all"`` or ``"point"``, see :func:`~gnpool.lab.training.train`.
        jobs (int, optional): Trainings side by side. (default: the number of threads of torch, or 4 on a GPU)
        on_event (callable, optional): Called with an :class:`Event`, from any thread but never twice at once.
    """

    def __init__(
        self,
        store: Store,
        preset: Preset,
        device: torch.device,
        *,
        search: str = "all",
        jobs: int | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        if search not in SEARCHES:
            raise ValueError(f"'search' must be one of {', '.join(SEARCHES)}, got {search!r}")
        self.store, self.preset, self.device, self.search = store, preset, device, search
        self.jobs = jobs or (GPU_JOBS if device.type == "cuda" else torch.get_num_threads())
        self.on_event = on_event
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._done = self._total = 0
        self._workers = 1  # threads of one training

    def run(self, tables: Sequence[Table]) -> None:
        """Train and examine everything that the tables need; what is stored already is not done again."""
        work = _exams_by_recipe(tables)
        if self.device.type == "cpu" and work:
            self._workers = max(1, self.jobs // len(work))
        self._total = sum(1 + len(exams) for _, exams in work)
        todo = list(range(len(work)))
        pool = ThreadPoolExecutor(max_workers=self.jobs, thread_name_prefix="lab")
        pending: dict[Future[bool], int] = {}
        threads = torch.get_num_threads()
        if self.device.type == "cpu":
            torch.set_num_threads(1)  # of the process, since MKL has one number for all threads; bits depend on it
        try:
            while todo or pending:
                while todo and len(pending) < self.jobs:
                    place = todo.pop(0)
                    pending[pool.submit(self._study, *work[place])] = place
                finished, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    place = pending.pop(future)
                    if not future.result():  # another process has it: come back when nothing else is left
                        todo.append(place)
                        if not pending:
                            time.sleep(POLL_SECONDS)
        finally:
            self._stop.set()  # after an error or Ctrl-C the others save their state and end
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(threads)

    def _study(self, recipe: Recipe, exams: list[Exam]) -> bool:
        """Train a recipe and hold its exams; False if another process is at it."""
        key = recipe.key(self.preset, self.search)
        label = f"{recipe.task}: {recipe.model}"
        epochs = self.preset.epochs_of(recipe.spec)
        seen: dict[int, int] = {}  # epochs done by unit of the fit at hand

        def progress(step: Progress) -> None:
            if self._stop.is_set():
                raise _StoppedError
            seen[step.unit] = step.epoch
            error = step.best["metric"]
            self._tell(label, sum(seen.values()) / (epochs * step.units), error if error < float("inf") else None)

        def compute(checkpoint: Path) -> Any:
            return train(
                recipe,
                self.preset,
                search=self.search,
                device=self.device,
                workers=self._workers,
                checkpoint=checkpoint,
                progress=progress,
            )

        if self._stop.is_set():
            raise _StoppedError
        if self.device.type == "cpu":
            torch.set_num_threads(1)  # of this thread
        trained = train_or_load(self.store, key, compute)
        if trained is None:
            return False
        self._finish(label)
        for exam in exams:
            if self._stop.is_set():
                raise _StoppedError
            hold = functools.partial(self._hold, recipe, exam, trained)
            while train_or_load(self.store, exam.key(key, self.preset, recipe.spec), hold) is None:
                time.sleep(POLL_SECONDS)
            self._finish(label)
        return True

    def _hold(self, recipe: Recipe, exam: Exam, trained: Record, _: Path) -> Any:
        began = time.monotonic()
        scores = examine(recipe, exam, self.preset, trained, self.device)
        return scores, {}, {**describe_machine(self.device), "seconds": time.monotonic() - began}

    def _tell(self, label: str, fraction: float, error: float | None, finished: bool = False) -> None:
        if self.on_event is not None:
            with self._lock:
                self.on_event(Event(label, self._done, self._total, fraction, error, finished))

    def _finish(self, label: str) -> None:
        with self._lock:
            self._done += 1
        self._tell(label, 1.0, None, finished=True)


def _exams_by_recipe(tables: Sequence[Table]) -> list[tuple[Recipe, list[Exam]]]:
    """Every recipe once, with all exams that any cell asks for."""
    found: dict[str, tuple[Recipe, list[Exam]]] = {}
    for table in tables:
        for cell in table.cells:
            name = json.dumps([cell.recipe.__dict__], default=dict, sort_keys=True)
            _, exams = found.setdefault(name, (cell.recipe, []))
            if cell.exam not in exams:
                exams.append(cell.exam)
    return list(found.values())
