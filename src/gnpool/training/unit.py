"""Training one work unit: a fixed list of runs, advanced together, each with its own selection."""

from __future__ import annotations

import functools
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from gnpool.training.batches import Batches
from gnpool.training.cuda_graph import record
from gnpool.training.optimizer import StackedOptimizer
from gnpool.training.padded import PaddedEpochs, StaticBatch
from gnpool.training.program import Forward, Loss, Program
from gnpool.training.settings import Run
from gnpool.training.stack import Stack

KEPT_BYTES = 31 * 2**20  # just below the most that glibc learns from


@dataclass(frozen=True)
class StudyPlan:
    """What all runs of a study share. ``criteria`` are the losses that select an epoch, the training loss first."""

    make_model: Callable[[], torch.nn.Module]
    batches: Any
    validation: Any
    loss: Loss
    criteria: dict[str, Loss]
    epochs: int
    device: torch.device
    forward: Forward | None = None
    vectorize: bool | None = None
    schedule: Callable[[int], float] | None = None
    cuda_graph: bool | None = None


class Unit:
    """R runs in training. All that changes is in :meth:`state`, so that copying it back resumes the run."""

    def __init__(self, study: StudyPlan, runs: Sequence[Run]) -> None:
        if study.device.type == "cpu":
            _keep_freed_memory()
        self.study = study
        self.runs = list(runs)
        starts = [run.setting.start for run in runs]
        self.stack = Stack(study.make_model, [run.seed for run in runs], study.device, starts)
        self.program = Program(self.stack, study.loss, study.criteria, study.forward, study.vectorize)
        self.flat, self.constants = self.stack.flat, self.stack.constants
        self.draws = any(_has_dropout(module) for module in self.stack.module.modules())  # random numbers
        settings = [run.setting for run in runs]
        self.optimizer = StackedOptimizer(settings, self.stack.group_of_column, self.flat)
        replicas, device = len(runs), study.device
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)  # epochs done
        self.step = torch.zeros((), dtype=torch.int64, device=device)  # steps done in this epoch
        self.alive = torch.ones(replicas, 1, dtype=torch.bool, device=device)
        self.failed = torch.full((replicas,), -1, device=device)  # the epoch in which a replica diverged
        self.train_loss = torch.zeros(replicas, dtype=torch.float64, device=device)  # summed over the epoch
        self.best = {name: _Best(self.flat, self.constants) for name in study.criteria}
        curve = torch.full((study.epochs, replicas), math.nan, dtype=torch.float64, device=device)
        self.history = {name: curve.clone() for name in ("train", *study.criteria)}
        watched = self.program.watched(self.flat, self.constants)
        self.watched = {name: v.new_full((study.epochs + 1, *v.shape), math.nan) for name, v in watched.items()}
        self._watch(0)
        self._recorded: _Recorded | None = None
        self._may_record = True

    def state(self) -> dict[str, Tensor]:
        """Every tensor that training changes, by name."""
        parts: dict[str, dict[str, Tensor]] = {
            "unit": {
                "flat": self.flat,
                "epoch": self.epoch,
                "step": self.step,
                "train_loss": self.train_loss,
                "alive": self.alive,
                "failed": self.failed,
            },
            "constant": self.constants,
            "optimizer": self.optimizer.state(),
            "history": self.history,
            "watched": self.watched,
            **{f"best.{name}": best.state() for name, best in self.best.items()},
        }
        return {f"{part}/{name}": value for part, tensors in parts.items() for name, value in tensors.items()}

    def describe(self) -> dict[str, Any]:
        """What a checkpoint must agree with, as JSON can hold it."""
        study = self.study
        data = {"train": study.batches, "validation": study.validation}
        return {
            "runs": [{**run.setting.to_dict(), "seed": run.seed} for run in self.runs],
            "model": re.sub(r" at 0x[0-9a-f]+", "", repr(self.stack.module)),  # an address is another in every process
            "state": {name: list(value.shape) for name, value in self.state().items()},
            "data": {k: v.describe() if isinstance(v, Batches) else v is not None for k, v in data.items()},
            "schedule": study.schedule and [float(study.schedule(epoch)) for epoch in range(study.epochs)],
            "device": study.device.type,
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from what :meth:`state` was at some moment between two steps."""
        with torch.no_grad():
            for name, value in self.state().items():
                value.copy_(state[name])

    def train_epoch(self, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end of the epoch and validate; False if stopped on the way, between two steps."""
        study = self.study
        number, done = torch.stack((self.epoch, self.step)).tolist()
        steps = done
        if study.schedule is not None:
            self.optimizer.scale.fill_(study.schedule(number))
        for take in self._epoch(number, done):
            if stopped():
                return False
            if self.draws:
                torch.manual_seed(_mix([number, steps, *(run.seed for run in self.runs)]))
            take()
            steps += 1
        if steps == 0:
            raise ValueError("fit_many: 'batches' gave no batch")
        self.history["train"][number] = self.train_loss / steps
        for name, score in self._validation_scores(number).items():
            self.history[name][number] = score
            self.best[name].offer(score, self.epoch, self.alive, self.flat, self.constants, study.validation is None)
        self.epoch += 1
        self.step.zero_()
        self.train_loss.zero_()
        self._watch(number + 1)
        return True

    def evaluate(self, batches: Any, metrics: dict[str, Loss], criterion: str) -> dict[str, Tensor]:
        """(R,) each: metrics of the selected weights, the weighted mean over all items of all batches."""
        best = self.best[criterion]
        return self._mean_scores(best.flat, best.constants, batches, metrics)

    def _epoch(self, number: int, skip: int) -> Iterable[Callable[[], None]]:
        """The steps of an epoch that are still to do, each a function that takes it."""
        data, device = self.study.batches, self.study.device
        ready: Iterable[Any]
        if isinstance(data, Batches):
            if self._recorded is None and self._wants_graph():
                self._record(data)
            if self._recorded is not None:
                return self._recorded.steps(number, skip)
            ready = (data.cut(graphs) for graphs in data.order(number)[skip:])
        else:
            ready = itertools.islice(data, skip, None)
        return (functools.partial(self._step, _to(batch, device)) for batch in ready)

    def _step(self, batch: Any) -> None:
        flat = self.flat.detach().requires_grad_()
        losses = self.program.losses(flat, self.constants, batch)
        (gradient,) = torch.autograd.grad(losses.sum(), flat)  # a replica's loss depends on its own row alone
        with torch.no_grad():
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            finite = torch.isfinite(norm) & torch.isfinite(losses)[:, None]
            self.failed.copy_(torch.where((self.alive & ~finite).squeeze(1), self.epoch, self.failed))
            self.alive &= finite
            self.optimizer.step(self.flat, gradient, norm, self.alive)
            self.train_loss += torch.where(self.alive.squeeze(1), losses.double(), math.nan)
            self.step += 1

    def _validation_scores(self, number: int) -> dict[str, Tensor]:
        study = self.study
        if study.validation is None:
            return dict.fromkeys(study.criteria, self.history["train"][number])
        if self._recorded is not None and self._recorded.validate is not None:
            self._recorded.validate()
            return dict(zip(study.criteria, self._recorded.scores.unbind(1), strict=True))
        return self._mean_scores(self.flat, self.constants, study.validation, study.criteria)

    def _mean_scores(
        self, flat: Tensor, constants: dict[str, Tensor], batches: Any, metrics: dict[str, Loss]
    ) -> dict[str, Tensor]:
        total = flat.new_zeros(len(flat), 2 * len(metrics), dtype=torch.float64)
        for batch in batches:
            total += self.program.scores(flat, constants, _to(batch, self.study.device), metrics)
        return {name: total[:, 2 * i] / total[:, 2 * i + 1] for i, name in enumerate(metrics)}

    def _watch(self, epoch: int) -> None:
        for name, value in self.program.watched(self.flat, self.constants).items():
            self.watched[name][epoch] = value

    def _wants_graph(self) -> bool:
        study = self.study
        wanted = study.cuda_graph is not False and study.vectorize is not False
        return self._may_record and wanted and study.device.type == "cuda"

    def _record(self, batches: Batches) -> None:
        before = {name: value.clone() for name, value in self.state().items()}
        try:
            self._recorded = _Recorded(self, batches)
        except Exception as error:
            if self.study.cuda_graph:
                raise
            warnings.warn(
                f"fit_many: the step cannot be recorded as a CUDA graph and runs operation by operation, which is "
                f"slower (cuda_graph=False says so from the start). The reason: {error}",
                stacklevel=2,
            )
            self._may_record = False
        self.load_state(before)  # recording takes some steps


class _Recorded:
    """The step and the validation of a unit as CUDA graphs."""

    def __init__(self, unit: Unit, batches: Batches) -> None:
        study = unit.study
        self.epochs = PaddedEpochs(batches, study.epochs, study.device)
        self.static = StaticBatch(self.epochs)
        self.replay = record(lambda: unit._step(self.static.batch), study.device)
        self.validate: Callable[[], None] | None = None
        self.scores = unit.flat.new_zeros(len(unit.flat), len(study.criteria), dtype=torch.float64)
        if isinstance(study.validation, Batches):
            self.held = [batch.to(study.device) for batch in study.validation]

            def validate() -> None:
                means = unit._mean_scores(unit.flat, unit.constants, self.held, study.criteria)
                self.scores.copy_(torch.stack(list(means.values()), dim=1))

            self.validate = record(validate, study.device)

    def steps(self, number: int, skip: int) -> Iterator[Callable[[], None]]:
        epoch = self.epochs.epoch(number)
        for step in range(skip, len(self.epochs.batches)):
            yield functools.partial(self._take, epoch, step)

    def _take(self, epoch: dict[str, Tensor], step: int) -> None:
        self.static.load(epoch, step)
        self.replay()


def _to(batch: Any, device: torch.device) -> Any:
    return batch.to(device) if hasattr(batch, "to") else batch


def _keep_freed_memory() -> None:
    """Let the memory that a step frees stay with the process for the next step.

    By default glibc gives blocks of a few MiB back to the system, and a quarter of a step is page faults. Freeing one
    large block moves the sizes from which it does so up there, for good. Other allocators take no notice.
    """
    torch.empty(KEPT_BYTES, dtype=torch.uint8, device="cpu")


def _has_dropout(module: torch.nn.Module) -> bool:
    """Whether a module is a dropout, or has an attribute of that name, as PyG's that call torch's function do."""
    rates = getattr(module, "dropout", 0.0)
    rates = rates if isinstance(rates, (list, tuple)) else [rates]
    return isinstance(module, _DropoutNd) or any(isinstance(rate, (int, float)) and rate > 0 for rate in rates)


def _mix(numbers: Sequence[int]) -> int:
    """One seed from several numbers, the same on every machine."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


class _Best:
    """The weights of every replica at its best epoch so far, by one criterion."""

    def __init__(self, flat: Tensor, constants: dict[str, Tensor]) -> None:
        self.value = flat.new_full((len(flat),), math.inf, dtype=torch.float64)
        self.epoch = torch.full((len(flat),), -1, device=flat.device)
        self.flat = flat.clone()
        self.constants = {name: value.clone() for name, value in constants.items()}

    def state(self) -> dict[str, Tensor]:
        kept = {f"constant.{name}": value for name, value in self.constants.items()}
        return {"value": self.value, "epoch": self.epoch, "flat": self.flat, **kept}

    @torch.no_grad()
    def offer(
        self,
        score: Tensor,
        epoch: Tensor,
        alive: Tensor,
        flat: Tensor,
        constants: dict[str, Tensor],
        always: bool,
    ) -> None:
        """Take over the replicas that improved, or, with ``always``, all that are alive."""
        better = alive.squeeze(1) & (torch.isfinite(score) if always else score < self.value)
        for mine, new in [
            (self.value, score),
            (self.epoch, epoch.expand_as(self.epoch)),
            (self.flat, flat),
            *((self.constants[name], constants[name]) for name in constants),
        ]:
            mask = better.view(-1, *(1,) * (mine.dim() - 1))
            torch.where(mask, new, mine, out=mine)
