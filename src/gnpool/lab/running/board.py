"""Keeps track of what is done and what is left, and reports it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnpool.lab.running.job import Job, JobPart, Report

ALMOST = 0.999  # largest share shown for a part that has not reported its end


@dataclass(frozen=True)
class Event:
    """A step of progress: an epoch of a training, or finished work.

    Example:
        >>> from gnpool.lab import Event
        >>> event = Event("GNP on harmonic", 1.0, 0.012, "training", done=3, total=10, overall=0.25, seconds_left=90.0)
        >>> f"{event.done} of {event.total}, {event.seconds_left:.0f} s left"
        '3 of 10, 90 s left'
    """

    label: str  # name of the training
    fraction: float  # of this training
    error: float | None  # lowest validation value of the metric so far
    finished: str | None  # "training" or "exam"
    done: int  # trainings and exams that are finished
    total: int
    overall: float  # share of all work that had to be done, by its estimated time
    seconds_left: float | None  # None before there is something to tell it from


class Board:
    """The progress of all jobs, in shares of the estimated time."""

    def __init__(
        self, jobs: Sequence[Job], parts: Sequence[Sequence[JobPart]], on_event: Callable[[Event], None] | None
    ) -> None:
        self.jobs, self.parts, self.on_event = jobs, parts, on_event
        self.share = [[float(part.held) for part in mine] for mine in parts]
        self.total = sum(part.what is not None for mine in parts for part in mine)
        self.first: tuple[float, float] | None = None  # time and share of the first report
        self.errors: dict[int, float] = {}
        self.lock = threading.Lock()

    def tell(self, report: Report) -> None:
        """Record a report and pass on the state."""
        with self.lock:
            mine, part = self.share[report.job], self.parts[report.job][report.part]
            if mine[report.part] == 1.0 or part.what is None:
                return  # it was stored before, reported its end already, or is not shown
            mine[report.part] = 1.0 if report.finished else min(report.share, ALMOST)
            (overall, done), now = self._state(), time.monotonic()
            self.first = self.first or (now, overall)
            since, gained = now - self.first[0], overall - self.first[1]
            left = since * (1 - overall) / gained if gained > 0 else None
            if report.error is not None:
                self.errors[report.job] = report.error
            finished = part.what if report.finished else None
            job = self.jobs[report.job]
            error = self.errors.get(report.job) if job.tells_lowest or not report.finished else None
            if self.on_event is not None:
                self.on_event(Event(job.label, mine[0], error, finished, done, self.total, overall, left))

    def _state(self) -> tuple[float, int]:
        """The share of the work that is done, and the number of finished parts."""
        pairs = [pair for row in zip(self.share, self.parts, strict=True) for pair in zip(*row, strict=True)]
        todo = [(share, part.seconds) for share, part in pairs if not part.held]
        overall = sum(share * seconds for share, seconds in todo) / max(sum(seconds for _, seconds in todo), 1e-9)
        return overall, sum(share == 1.0 for share, part in pairs if part.what is not None)
