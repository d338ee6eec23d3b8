"""Run what tables of graph classification need and the store does not have: stacks of folds and seeds."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.data.tudataset import tudataset
from gnpool.engine import Caller, Engine, side_by_side
from gnpool.lab.classify import Amount, Classification, ClassificationTable
from gnpool.lab.crossval import Method, train_stack
from gnpool.lab.failures import Failure, clear_failures, raise_failures
from gnpool.lab.folds import Run
from gnpool.lab.graph_bank import GraphBank
from gnpool.lab.runner import Event
from gnpool.lab.stopwatch import Stopwatch
from gnpool.store import Store
from gnpool.store.files import write
from gnpool.training.cuda_graph import own_stream
from gnpool.training.machine import describe_machine

# Runs of a stack: as many as keep a GPU busy and fit into its memory, or the cache of a core. Rounding depends on it,
# and nothing else.
STACK = {"cuda": {"D&D": 10, "PROTEINS": 40, "NCI1": 40}, "cpu": {"D&D": 1, "PROTEINS": 5, "NCI1": 5}}
GPU_JOBS = 2  # stacks side by side: while one waits for a number from the device, the other works
SCORES = "scores.json"
TYPICAL_EPOCHS = 150  # of a run that ends by patience, for the progress alone


@dataclass
class Work:
    """A stack to train."""

    study: Classification
    runs: list[Run]
    share: float = 0.0

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.study.dataset}: {self.study.model}, {len(self.runs)} runs"


@dataclass
class Banks:
    """Data sets, read when first needed."""

    held: dict[tuple[str, int | None], GraphBank] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, dataset: str, graphs: int | None) -> GraphBank:
        """A data set, or ``graphs`` of its graphs, taken evenly."""
        with self.lock:
            if (dataset, graphs) not in self.held:
                self.held[dataset, graphs] = GraphBank(some(tudataset(dataset), graphs), torch.device("cpu"))
            return self.held[dataset, graphs]


def some(graphs: list[Data], count: int | None) -> list[Data]:
    """``count`` graphs taken evenly from all of them, so that every class is among them."""
    if count is None or count >= len(graphs):
        return graphs
    return [graphs[int(k)] for k in np.linspace(0, len(graphs) - 1, count).round()]


def stack_unit(
    caller: Caller, bank: GraphBank, method: Method, runs: Sequence[Run], device: torch.device
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A stack of runs: the scores of each, and meta data. ``tell`` is given the number of epochs done."""
    if device.type == "cpu":
        torch.set_num_threads(1)  # of this thread: the same bits whatever the machine has
    clock = Stopwatch(caller.checkpoint)
    with own_stream(device):
        scores = train_stack(
            bank.to(device),
            method,
            runs,
            checkpoint=caller.checkpoint,
            progress=lambda epoch, active: caller.tell(epoch),
            check=clock.around(caller.check),
        )
    meta = {**describe_machine(device), "seconds": clock.seconds / len(runs)}
    return [score.to_dict() for score in scores], meta


class ClassificationRunner:
    """Fills a store with the runs that tables need.

    Args:
        store (Store): Where results are kept, and found again.
        amount (Amount): How much of the cross-validation to do.
        device (torch.device): Where to train.
        jobs (int, optional): Stacks side by side. (default: the number of threads of torch, or 2 on a GPU)
        engine (Engine, optional): Who computes. (default: this process)
        on_event (callable, optional): Called with an :class:`Event`, from any thread but never twice at once.
    """

    def __init__(
        self,
        store: Store,
        amount: Amount,
        device: torch.device,
        *,
        jobs: int | None = None,
        engine: Engine | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.store, self.amount, self.device, self.on_event = store, amount, device, on_event
        self.engine = engine or Engine(device)
        self.jobs = jobs or self.engine.jobs(GPU_JOBS if device.type == "cuda" else torch.get_num_threads())
        self.banks = Banks()
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.work: list[Work] = []
        self.began = 0.0

    def run(self, tables: Sequence[ClassificationTable]) -> None:
        """Train everything that the tables need; what is stored already is not done again.

        Raises:
            FailedStudiesError: At the end, if a stack failed for reasons of its own.
        """
        clear_failures(self.store)
        studies = list(dict.fromkeys(study for table in tables for study in table.studies))
        studies = [study for study in studies if study.dataset in self.amount.datasets]
        self.work = [Work(study, runs) for study in studies for runs in self._stacks(study)]
        self.began, before = time.monotonic(), torch.get_num_threads()
        try:
            failed = side_by_side(self._train, self.work, self.jobs, self.stop)
        finally:
            torch.set_num_threads(before)
        found = [
            Failure.of(work.label, work.study.key(self.amount, work.runs[0]), error)
            for work, error in ((self.work[number], error) for number, error in failed.items())
        ]
        raise_failures(self.store, found, len(self.work))

    def _missing(self, study: Classification, runs: Sequence[Run]) -> list[Run]:
        return [run for run in runs if study.key(self.amount, run) not in self.store]

    def _stacks(self, study: Classification) -> Iterator[list[Run]]:
        """What is missing of each stack; which runs would share one does not depend on that."""
        size, runs = STACK.get(self.device.type, STACK["cpu"])[study.dataset], self.amount.runs
        parts = (self._missing(study, runs[first : first + size]) for first in range(0, len(runs), size))
        return (part for part in parts if part)

    def _train(self, work: Work) -> bool:
        """Train a stack and store it; False if another process is at it."""
        study, method = work.study, work.study.method(self.amount)
        typical = min(method.epochs, TYPICAL_EPOCHS)
        keys = {run: study.key(self.amount, run) for run in work.runs}
        with ExitStack() as claims:
            if not all(claims.enter_context(self.store.claim(keys[run])) for run in work.runs):
                return False
            mine = self._missing(study, work.runs)  # somebody may have finished it in between
            if mine:
                checkpoint = self.store.checkpoint(keys[mine[0]])
                trained = _read(checkpoint, mine)
                if trained is None:
                    bank = self.engine.share(self.banks.get(study.dataset, self.amount.graphs))
                    caller = Caller(
                        self.stop.is_set, lambda epoch: self._tell(work, min(0.99, epoch / typical)), checkpoint
                    )
                    trained = self.engine.call(stack_unit, bank, method, mine, self.device, caller=caller)
                    _write(checkpoint, mine, *trained)
                scores, meta = trained
                meta = {**meta, "preset": self.amount.preset, "stack": len(scores), "setting": method.setting.to_dict()}
                for run, score in reversed(list(zip(mine, scores, strict=True))):
                    self.store.put(keys[run], scores=score, meta=meta)  # the first one last: its checkpoint is of all
        self._tell(work, 1.0)
        return True

    def _tell(self, work: Work, share: float) -> None:
        with self.lock:
            work.share = share
            total = sum(len(one.runs) for one in self.work)
            overall = sum(one.share * len(one.runs) for one in self.work) / total
            left = (time.monotonic() - self.began) * (1 - overall) / overall if overall > 0 else None
            done = sum(one.share == 1.0 for one in self.work)
            if self.on_event is not None:
                finished = "training" if share == 1.0 else None
                self.on_event(Event(work.label, share, None, finished, done, len(self.work), overall, left))


def _write(checkpoint: Path, runs: Sequence[Run], scores: list[dict[str, Any]], meta: dict[str, Any]) -> None:
    """Keep the scores of a whole stack until each is stored: what is left of a stack would round otherwise."""
    text = json.dumps([[list(run) for run in runs], scores, meta]).encode()
    write(checkpoint / SCORES, hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def _read(checkpoint: Path, runs: Sequence[Run]) -> tuple[list[dict[str, Any]], dict[str, Any]] | None:
    """Of a stack that was being stored, the scores of these runs; None if there is no such, or it is damaged."""
    try:
        digest, _, text = (checkpoint / SCORES).read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return None
    kept, scores, meta = json.loads(text)
    found = {Run(*run): score for run, score in zip(kept, scores, strict=True)}
    return ([found[run] for run in runs], meta) if all(run in found for run in runs) else None
