"""Jobs for tables of graph classification: train stacks of folds and seeds that are missing from the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.data.tudataset import tudataset
from gnpool.engine import Caller
from gnpool.lab.classification.cost import TYPICAL_EPOCHS, run_seconds, stack_size
from gnpool.lab.classification.methods import Amount, Trial
from gnpool.lab.running.job import Bench, Job, JobPart, Key
from gnpool.models.stacked.crossval import Method, train_stack
from gnpool.models.stacked.folds import Fold
from gnpool.models.stacked.graph_bank import GraphBank
from gnpool.store import Store
from gnpool.store.encoding import encode, pack, unpack
from gnpool.store.errors import Damaged
from gnpool.store.files import write
from gnpool.training.cuda_graph import own_stream
from gnpool.training.machine import describe_machine
from gnpool.training.stopwatch import Stopwatch

SCORES = "scores.json"
ALMOST = 0.99  # the share shown for a stack that trains longer than is typical


@dataclass(frozen=True)
class StackJob(Job):
    """Runs of one trial that are trained together."""

    gpu_jobs: ClassVar[int] = 2  # stacks side by side: while one waits for the GPU's answer, the other works

    trial: Trial
    amount: Amount
    runs: tuple[Fold, ...]

    @property
    def label(self) -> str:
        return f"{self.trial.dataset}: {self.trial.row}, {len(self.runs)} runs"

    @property
    def key(self) -> Key:
        return self.trial.key(self.amount, self.runs[0])

    def parts(self, store: Store, kind: str) -> list[JobPart]:
        seconds = len(self.runs) * run_seconds(self.trial, self.amount, kind)
        return [JobPart(not self._missing(store), seconds, "training")]

    def data(self, store: Store) -> set[str]:
        return {self.trial.dataset}

    def _missing(self, store: Store) -> list[Fold]:
        return [run for run in self.runs if self.trial.key(self.amount, run) not in store]

    def work(self, bench: Bench) -> bool:
        keys = {run: self.trial.key(self.amount, run) for run in self.runs}
        with ExitStack() as claims:
            if not all(claims.enter_context(bench.store.claim(key)) for key in keys.values()):
                return False
            mine = self._missing(bench.store)  # another process may have finished some of it meanwhile
            if mine:
                checkpoint = bench.store.checkpoint(keys[mine[0]])
                scores, meta = _read(checkpoint, mine) or self._train(bench, mine, checkpoint)
                method = self.trial.method(self.amount)
                meta = {**meta, "preset": self.amount.preset, "stack": len(scores), "setting": method.setting.to_dict()}
                for run, score in reversed(list(zip(mine, scores, strict=True))):
                    bench.store.put(keys[run], scores=score, meta=meta)  # the first run last: it holds the checkpoint
        bench.finish()
        return True

    def _train(self, bench: Bench, runs: Sequence[Fold], checkpoint: Path) -> tuple[list[dict[str, Any]], Key]:
        dataset, graphs = self.trial.dataset, self.amount.graphs

        def read() -> GraphBank:
            return GraphBank(some(tudataset(dataset), graphs), torch.device("cpu"))

        bank = bench.engine.share(bench.shared.held(dataset, read))
        work = (bank, self.trial.method(self.amount), runs, bench.device)
        found: tuple[list[dict[str, Any]], Key] = bench.engine.call(stack_unit, *work, caller=bench.caller(checkpoint))
        _write(checkpoint, runs, *found)
        return found


def stack_jobs(trials: Sequence[Trial], amount: Amount, store: Store, kind: str) -> list[StackJob]:
    """The missing runs of each stack. Stacks are formed first, so their members do not depend on what is missing."""
    found = []
    for trial in trials:
        size = stack_size(trial.dataset, kind)
        for first in range(0, len(amount.runs), size):
            runs = (run for run in amount.runs[first : first + size] if trial.key(amount, run) not in store)
            found.append(StackJob(trial, amount, tuple(runs)))
    return [job for job in found if job.runs]


def some(graphs: list[Data], count: int | None) -> list[Data]:
    """``count`` graphs at even spacing in the list, so that every class is represented."""
    if count is None or count >= len(graphs):
        return graphs
    return [graphs[int(k)] for k in np.linspace(0, len(graphs) - 1, count).round()]


def stack_unit(
    caller: Caller, bank: GraphBank, method: Method, runs: Sequence[Fold], device: torch.device
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Train a stack of runs: the scores of each, and meta data. ``tell`` gets the share of a typical length."""
    if device.type == "cpu":
        torch.set_num_threads(1)  # set for this thread, so that results are the same to the bit on every machine
    clock = Stopwatch(caller.checkpoint)
    with own_stream(device):
        scores = train_stack(
            bank.to(device),
            method,
            runs,
            checkpoint=caller.checkpoint,
            progress=lambda epoch, active: caller.tell((min(ALMOST, epoch / min(method.epochs, TYPICAL_EPOCHS)),)),
            check=clock.around(caller.check),
        )
    meta = {**describe_machine(device), "seconds": clock.seconds / len(runs)}
    return [score.to_dict() for score in scores], meta


def _write(checkpoint: Path, runs: Sequence[Fold], scores: list[dict[str, Any]], meta: dict[str, Any]) -> None:
    """Keep a stack's scores until all are stored, because the remaining runs alone would round differently."""
    write(checkpoint / SCORES, pack(encode({"runs": runs, "scores": scores, "meta": meta}, SCORES)))


def _read(checkpoint: Path, runs: Sequence[Fold]) -> tuple[list[dict[str, Any]], dict[str, Any]] | None:
    """The kept scores of these runs, if a stack was only partly stored; None if there are none or they are damaged."""
    try:
        kept = unpack((checkpoint / SCORES).read_bytes())
    except (FileNotFoundError, Damaged):
        return None
    found = {Fold(*run): score for run, score in zip(kept["runs"], kept["scores"], strict=True)}
    return ([found[run] for run in runs], kept["meta"]) if all(run in found for run in runs) else None
