"""Run tables: whatever their cells need and the store does not have, several trainings side by side."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gnpool.engine import Engine, threads, work_off
from gnpool.lab.ahead import AHEAD, data_ahead, data_makers
from gnpool.lab.cost import exam_seconds, training_seconds
from gnpool.lab.failures import Failure, clear_failures, raise_failures
from gnpool.lab.forms import candidates
from gnpool.lab.presets import Preset
from gnpool.lab.processes import Submit, process_pool
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.studies import Bench, Report, Worker
from gnpool.lab.tables import Table
from gnpool.lab.training import SEARCHES
from gnpool.store import Damage, Store, StoreWarning

GPU_JOBS = 4  # trainings side by side on one GPU: steps at small batches leave most of it idle


@dataclass(frozen=True)
class Event:
    """Something to show: a training went on by an epoch, or work was finished."""

    label: str  # of the training
    fraction: float  # of this training
    error: float | None  # lowest validation value of the metric so far
    finished: str | None  # "training" or "exam"
    done: int  # trainings and exams that are finished
    total: int
    overall: float  # share of all work that had to be done, by its estimated time
    seconds_left: float | None  # None before there is something to tell it from


def default_jobs(device: torch.device) -> int:
    """Trainings side by side, where the user does not say."""
    return GPU_JOBS if device.type == "cuda" else torch.get_num_threads()


class Runner:
    """Fills a store with what tables need.

    Args:
        store (Store): Where results are kept, and found again.
        preset (Preset): How much of the study to do.
        device (torch.device): Where to train.
        search (str): ``"all"`` or ``"point"``, see :func:`~gnpool.lab.training.train`.
        jobs (int, optional): Trainings side by side. (default: the number of threads of torch, or 4 on a GPU)
        processes (bool, optional): On a CPU, whether every job is a process of its own: faster for small models. A
            child knows only tasks that importing gnpool registers. On a GPU, whether data is made in processes of
            its own, ahead of the trainings. (default: ``False``, threads)
        train (bool, optional): Whether to train what is missing, or to do only what stored trainings allow: to
            crystallise and to test their models. (default: ``True``)
        test (bool, optional): Whether to crystallise and to test, or only to train. (default: ``True``)
        engine (Engine, optional): Who computes. (default: this process)
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
        processes: bool = False,
        train: bool = True,
        test: bool = True,
        engine: Engine | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        if search not in SEARCHES:
            raise ValueError(f"'search' must be one of {', '.join(SEARCHES)}, got {search!r}")
        if jobs is not None and jobs < 1:
            raise ValueError(f"'jobs' must be at least 1, got {jobs}")
        self.store, self.preset, self.device, self.search = store, preset, device, search
        self.engine = engine or Engine(device)
        self.jobs = jobs or self.engine.jobs(default_jobs(device))
        processes = processes and not self.engine.remote
        self.processes = processes and device.type == "cpu" and self.jobs > 1
        self.makers = data_makers(device, preset, self.jobs) if processes else 0
        self.train, self.test = train, test
        self.on_event = on_event

    def run(self, tables: Sequence[Table]) -> None:
        """Train and examine everything that the tables need; what is stored already is not done again.

        Raises:
            FailedStudiesError: At the end, if a study failed for reasons of its own; ``failures.json`` has the details.
        """
        clear_failures(self.store)  # those of an earlier run
        work = exams_by_recipe(tables, self.preset)
        if not self.test:
            work = [(recipe, []) for recipe in _distinct([recipe.base for recipe, _ in work])]
        if not self.train:
            work = [pair for pair in work if pair[0].base.key(self.preset, self.search) in self.store]
        board = _Board(work, self)
        todo = [number for number, (recipe, exams) in enumerate(work) if not self._stored(number, recipe, exams, board)]
        if not todo:
            return

        def no_models(number: int, failed: list[int]) -> bool:
            """Whether it has no models to go on from."""
            return any(work[number][0].base == work[other][0].base for other in failed)

        untrained = [n for n in todo if self.makers and work[n][0].base.key(self.preset, self.search) not in self.store]
        makers = data_ahead(min(self.makers, len(untrained)), self.preset)
        with makers as prepare, self._pool(min(self.jobs, len(todo)), board) as submit:

            def begin(number: int) -> Future[bool]:
                for other in [n for n in untrained if n >= number][: self.jobs + AHEAD]:
                    prepare(work[other][0])
                return submit(number, *work[number])

            failed = work_off(begin, todo, self.jobs, no_models)
        found = [
            Failure.of(board.labels[todo[n]], work[todo[n]][0].key(self.preset, self.search), error)
            for n, error in failed.items()
        ]
        raise_failures(self.store, found, len(work))

    def _stored(self, number: int, recipe: Recipe, exams: list[Exam], board: _Board) -> bool:
        """Whether nothing is left to do; what there is already is told to the board."""
        key = recipe.key(self.preset, self.search)
        if self.store.get(key) is None:  # every byte is checked, since a damaged unit has to be done again
            return False
        board.skip(number, 0)
        held = [exam.key(key, self.preset, recipe.spec) in self.store for exam in exams]
        for place in [place for place, there in enumerate(held, start=1) if there]:
            board.skip(number, place)
        return all(held)

    @contextmanager
    def _pool(self, jobs: int, board: _Board) -> Iterator[Submit]:
        if self.processes and jobs > 1:
            options = {"jobs": jobs, "threads": max(1, self.jobs // jobs), "tell": board.tell}
            with process_pool(self.store, self.preset, self.search, on_damage=self._damaged, **options) as submit:  # type: ignore[arg-type]
                yield submit
            return
        stop, before = threading.Event(), torch.get_num_threads()
        here = self.device.type == "cpu" and not self.engine.remote
        units = max(1, self.jobs // jobs) if here else 1
        bench = Bench(self.preset, self.device, self.search, units, stop.is_set, board.tell, self.engine)
        worker = Worker(self.store, bench)
        if here:
            torch.set_num_threads(1)  # of the process, since MKL has one number for all threads; bits depend on it
        try:
            with threads(jobs, stop) as submit:
                yield lambda number, recipe, exams: submit(worker.study, number, recipe, exams)
        finally:
            torch.set_num_threads(before)

    def _damaged(self, damage: Damage) -> None:
        """A child found a damaged file: report it as the store here would."""
        if self.store.on_damage is not None:
            self.store.on_damage(damage)
        else:
            warnings.warn(str(damage), StoreWarning, stacklevel=2)


class _Board:
    """What was done and what is left, in shares of the estimated time."""

    def __init__(self, work: Sequence[tuple[Recipe, list[Exam]]], runner: Runner) -> None:
        preset, kind = runner.preset, runner.device.type
        self.labels = [" ".join(filter(None, [r.task, r.data and f"({r.data})"])) + f": {r.model}" for r, _ in work]
        self.costs = [
            [
                training_seconds(recipe, preset, runner.search, kind),
                *(exam_seconds(recipe, exam, preset, kind) for exam in exams),
            ]
            for recipe, exams in work
        ]
        self.share = [[0.0] * len(costs) for costs in self.costs]
        self.skipped = 0.0
        self.total = sum(map(len, self.costs))
        self.on_event = runner.on_event
        self.first: tuple[float, float] | None = None  # time and share of the first report
        self.errors: dict[int, float] = {}
        self.lock = threading.Lock()

    def skip(self, number: int, place: int) -> None:
        """Something was there before."""
        self.share[number][place] = 1.0
        self.skipped += self.costs[number][place]

    def tell(self, report: Report) -> None:
        """Pass on where things stand."""
        with self.lock:
            finished = None if report.finished is None else "exam" if report.finished else "training"
            mine = self.share[report.study]
            if mine[report.finished or 0] == 1.0:
                return  # it was there before, or the mail was slow
            mine[report.finished or 0] = 1.0 if finished else min(report.fraction, 0.999)
            overall = self._overall()
            now = time.monotonic()
            self.first = self.first or (now, overall)
            since, gained = now - self.first[0], overall - self.first[1]
            left = since * (1 - overall) / gained if gained > 0 else None
            if report.error is not None:
                self.errors[report.study] = report.error
            done = sum(share == 1.0 for shares in self.share for share in shares)
            if self.on_event is not None:
                label, error = self.labels[report.study], self.errors.get(report.study)
                self.on_event(Event(label, mine[0], error, finished, done, self.total, overall, left))

    def _overall(self) -> float:
        pairs = [pair for row in zip(self.share, self.costs, strict=True) for pair in zip(*row, strict=True)]
        done = sum(share * cost for share, cost in pairs) - self.skipped
        return done / max(sum(cost for _, cost in pairs) - self.skipped, 1e-9)


def _distinct(recipes: Sequence[Recipe]) -> list[Recipe]:
    return [recipe for place, recipe in enumerate(recipes) if recipe not in recipes[:place]]


def exams_by_recipe(tables: Sequence[Table], preset: Preset) -> list[tuple[Recipe, list[Exam]]]:
    """Every recipe once, in both forms where there are two, with all exams that any cell asks for."""
    found: dict[str, tuple[Recipe, list[Exam]]] = {}
    for table in tables:
        for cell in table.cells:
            for recipe in candidates(cell.recipe, preset):
                name = json.dumps([recipe.__dict__], default=dict, sort_keys=True)
                _, exams = found.setdefault(name, (recipe, []))
                if cell.exam not in exams:
                    exams.append(cell.exam)
    return list(found.values())
