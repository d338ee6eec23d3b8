"""Run what tables of graph classification need and the store does not have: stacks of folds and seeds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.data.tudataset import tudataset
from gnpool.lab.classify import Amount, Classification, ClassificationTable
from gnpool.lab.crossval import train_stack
from gnpool.lab.folds import Run
from gnpool.lab.graph_bank import GraphBank
from gnpool.lab.runner import Event
from gnpool.lab.side_by_side import side_by_side
from gnpool.lab.studies import POLL_SECONDS, StoppedError
from gnpool.store import Store
from gnpool.training.cuda_graph import own_stream
from gnpool.training.machine import describe_machine

# Runs of a stack: as many as keep a GPU busy and fit into its memory, or the cache of a core. Rounding depends on it,
# and nothing else.
STACK = {"cuda": {"D&D": 10, "PROTEINS": 40, "NCI1": 40}, "cpu": {"D&D": 1, "PROTEINS": 5, "NCI1": 5}}
GPU_JOBS = 2  # stacks side by side: while one waits for a number from the device, the other works
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
    """Data sets on the device, read when first needed."""

    device: torch.device
    held: dict[tuple[str, int | None], GraphBank] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, dataset: str, graphs: int | None) -> GraphBank:
        """A data set, or ``graphs`` of its graphs, taken evenly."""
        with self.lock:
            if (dataset, graphs) not in self.held:
                self.held[dataset, graphs] = GraphBank(some(tudataset(dataset), graphs), self.device)
            return self.held[dataset, graphs]


def some(graphs: list[Data], count: int | None) -> list[Data]:
    """``count`` graphs taken evenly from all of them, so that every class is among them."""
    if count is None or count >= len(graphs):
        return graphs
    return [graphs[int(k)] for k in np.linspace(0, len(graphs) - 1, count).round()]


class ClassificationRunner:
    """Fills a store with the runs that tables need.

    Args:
        store (Store): Where results are kept, and found again.
        amount (Amount): How much of the cross-validation to do.
        device (torch.device): Where to train.
        jobs (int, optional): Stacks side by side. (default: the number of threads of torch, or 2 on a GPU)
        on_event (callable, optional): Called with an :class:`Event`, from any thread but never twice at once.
    """

    def __init__(
        self,
        store: Store,
        amount: Amount,
        device: torch.device,
        *,
        jobs: int | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.store, self.amount, self.device, self.on_event = store, amount, device, on_event
        self.jobs = jobs or (GPU_JOBS if device.type == "cuda" else torch.get_num_threads())
        self.banks = Banks(device)
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.work: list[Work] = []
        self.began = 0.0

    def run(self, tables: Sequence[ClassificationTable]) -> None:
        """Train everything that the tables need; what is stored already is not done again."""
        studies = list(dict.fromkeys(study for table in tables for study in table.studies))
        studies = [study for study in studies if study.dataset in self.amount.datasets]
        while missing := {study: runs for study in studies if (runs := self._missing(study))}:
            self.work = [Work(study, part) for study, runs in missing.items() for part in self._stacks(study, runs)]
            self.began = time.monotonic()
            before = sum(map(len, missing.values()))
            self._all()
            if sum(len(self._missing(study)) for study in studies) == before:  # another process is at them
                time.sleep(POLL_SECONDS)

    def _missing(self, study: Classification) -> list[Run]:
        return [run for run in self.amount.runs if study.key(self.amount, run) not in self.store]

    def _stacks(self, study: Classification, runs: list[Run]) -> Iterator[list[Run]]:
        size = STACK.get(self.device.type, STACK["cpu"])[study.dataset]
        return (runs[first : first + size] for first in range(0, len(runs), size))

    def _all(self) -> None:
        threads = torch.get_num_threads()
        if self.device.type == "cpu" and self.jobs > 1:
            torch.set_num_threads(1)
        try:
            side_by_side(self._train, self.work, self.jobs, self.stop)
        finally:
            torch.set_num_threads(threads)

    def _train(self, work: Work) -> None:
        study, began = work.study, time.monotonic()
        method, bank = study.method(self.amount), self.banks.get(study.dataset, self.amount.graphs)
        typical = min(method.epochs, TYPICAL_EPOCHS)

        def progress(epoch: int, active: int) -> None:
            self._tell(work, min(0.99, epoch / typical))

        with ExitStack() as claims, own_stream(self.device):
            keys = {run: study.key(self.amount, run) for run in work.runs}
            mine = [run for run in work.runs if claims.enter_context(self.store.claim(keys[run]))]
            mine = [run for run in mine if keys[run] not in self.store]  # somebody may have finished it in between
            if not mine:
                return
            checkpoint = self.store.checkpoint(keys[mine[0]])
            scores = train_stack(bank, method, mine, checkpoint=checkpoint, progress=progress, check=self._check)
            seconds = (time.monotonic() - began) / len(mine)
            meta = {**describe_machine(self.device), "preset": self.amount.preset, "seconds": seconds}
            meta |= {"stack": len(mine), "setting": method.setting.to_dict()}
            for score in reversed(scores):  # the first one last, since its checkpoint is that of all
                self.store.put(keys[score.run], scores=score.to_dict(), meta=meta)
        self._tell(work, 1.0)

    def _check(self) -> None:
        if self.stop.is_set():
            raise StoppedError

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
