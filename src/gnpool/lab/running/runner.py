"""Runs whatever tables need and the store does not have, several jobs side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

import torch

from gnpool.engine import Engine, threads, work_off
from gnpool.lab.running.ahead import AHEAD, data_ahead, data_makers
from gnpool.lab.running.board import Board, Event
from gnpool.lab.running.data import DataCache
from gnpool.lab.running.failures import clear_failures, failure, raise_failures
from gnpool.lab.running.job import SHARED, Bench, Job, merged
from gnpool.lab.running.processes import Submit, process_pool
from gnpool.store import Store


def default_jobs(device: torch.device, on_gpu: int = Job.gpu_jobs) -> int:
    """The number of jobs side by side if the user does not give one."""
    return on_gpu if device.type == "cuda" else torch.get_num_threads()


class Runner:
    """Fills a store with the results of jobs.

    Args:
        store (Store): Where results are kept and looked up.
        device (torch.device): Where to compute.
        jobs (int, optional): Jobs side by side. (default: the number of torch's threads; on a GPU the jobs decide)
        processes (bool, optional): On a CPU, whether every job is a separate process, which is faster for small models.
            A child knows only what importing gnpool registers. On a GPU, whether separate processes make data ahead of
            the trainings. (default: ``False``, threads)
        engine (Engine, optional): Computes units. (default: in this process)
        on_event (callable, optional): Called with an :class:`Event`, from any thread but never twice at once.
    """

    def __init__(
        self,
        store: Store,
        device: torch.device,
        *,
        jobs: int | None = None,
        processes: bool = False,
        engine: Engine | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        if jobs is not None and jobs < 1:
            raise ValueError(f"'jobs' must be at least 1, got {jobs}")
        self.store, self.device, self.jobs = store, device, jobs
        self.engine = engine or Engine(device)
        self.processes = processes and not self.engine.remote
        self.on_event = on_event
        self.shared = DataCache(SHARED)

    def run(self, jobs: Sequence[Job]) -> None:
        """Do what is missing; stored results are not computed again.

        Raises:
            FailedStudiesError: At the end, if a job failed on its own; ``failures.json`` has the details.
        """
        clear_failures(self.store)  # failures of an earlier run
        jobs = merged(jobs)
        parts = [job.parts(self.store, self.device.type) for job in jobs]
        board = Board(jobs, parts, self.on_event)
        todo = [number for number, mine in enumerate(parts) if not all(part.held for part in mine)]
        failed: dict[int, Exception] = {}
        for stage in sorted({jobs[number].stage for number in todo}):
            failed |= self._stage(jobs, [number for number in todo if jobs[number].stage == stage], board)
        found = [failure(jobs[number].label, jobs[number].key, error) for number, error in failed.items()]
        raise_failures(self.store, found, len(jobs))

    def _stage(self, jobs: Sequence[Job], todo: Sequence[int], board: Board) -> dict[int, Exception]:
        """Run the jobs of one stage, and return the failures by job number."""
        first = jobs[todo[0]]
        most = self.jobs or self.engine.jobs(default_jobs(self.device, first.gpu_jobs))
        side = first.side_by_side(most, self.engine)
        wants = {number: list(jobs[number].wants(self.store)) for number in todo} if self.processes else {}
        coming = [number for number in todo if wants.get(number)]
        makers = min(data_makers(self.device, side, [wanted for n in coming for wanted, _ in wants[n]]), len(coming))

        def doomed(number: int, failed: list[int]) -> bool:
            """Whether a job has nothing to start from."""
            return any(jobs[number].root == jobs[other].root for other in failed)

        with data_ahead(makers) as prepare, self._pool(first, most, min(side, len(todo)), board) as submit:

            def begin(number: int) -> Future[bool]:
                for other in [n for n in coming if n >= number][: side + AHEAD]:
                    prepare(wants[other])
                return submit(number, jobs[number])

            found = {todo[place]: error for place, error in work_off(begin, todo, side, doomed).items()}
        for number, error in found.items():
            if jobs[number].needed:
                raise error
        return found

    @contextmanager
    def _pool(self, job: Job, most: int, side: int, board: Board) -> Iterator[Submit]:
        here = self.device.type == "cpu" and not self.engine.remote
        units = max(1, most // side) if here else 1
        if self.processes and here and job.separable and side > 1:
            with process_pool(self.store, side, units, tell=board.tell, on_damage=self.store.report_damage) as submit:
                yield submit
            return
        stop, before = threading.Event(), torch.get_num_threads()
        bench = Bench(self.store, self.device, units, stop.is_set, board.tell, self.engine, shared=self.shared)
        if here and job.one_core:
            torch.set_num_threads(1)  # for the process: MKL has one number for all threads, and bits depend on it
        try:
            with threads(side, stop) as submit:
                yield lambda number, job: submit(job.work, bench.of(number))
        finally:
            torch.set_num_threads(before)
