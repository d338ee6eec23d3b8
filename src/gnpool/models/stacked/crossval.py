"""Trains folds and seeds of a classifier side by side: one program for all of them, each with its own graphs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.engine import StoppedError
from gnpool.models import ASAPClassifier, SAGClassifier
from gnpool.models.stacked.folds import Fold, Ids, shuffled, split
from gnpool.models.stacked.gnp import set_range
from gnpool.models.stacked.graph_bank import NONE, GraphBank
from gnpool.models.stacked.replicas import Dice
from gnpool.nn import GNPAggregation
from gnpool.store.errors import Damaged
from gnpool.training import Setting
from gnpool.training.checkpoint import check_like, fingerprint_of, read_checkpoint, write_checkpoint
from gnpool.training.optimizer import CLIP_EPS, StackedOptimizer
from gnpool.training.stack import GROUPS, Stack

NETWORKS = {"sag": SAGClassifier, "asap": ASAPClassifier}
CHECKPOINT_SECONDS = 30.0
THIN = 0.75  # a stack is packed again when at most this share of it still trains
LEAST = {"cuda": 2}  # least number of runs in a packed stack: with a single run, code would have to be compiled again
PER_RUN = ("adam", "beta1", "beta2", "eps", "clip", "rate", "decay", "first", "second")  # an optimiser's state, (R, *)


@dataclass(frozen=True)
class Method:
    """A classifier, and how it is trained and selected.

    Args:
        net (str): ``"sag"`` or ``"asap"``.
        options (Mapping): Options of the network.
        setting (Setting): The optimiser and its rates.
        batch_size (int): Graphs in a batch.
        epochs (int): Largest number of epochs.
        select (str): The epoch to choose: the one with the lowest validation ``"loss"``, or the first one with the
            highest ``"accuracy"``.
        patience (int, optional): Stop after more than this many epochs without improvement. (default: never)
        halve (int, optional): Halve all rates each time that this many epochs have passed. (default: never)
        gnp_clip (float, optional): Largest norm of the gradient of all GNP parameters. (default: none)
    """

    net: str
    options: Mapping[str, Any]
    setting: Setting
    batch_size: int
    epochs: int
    select: str
    patience: int | None = None
    halve: int | None = None
    gnp_clip: float | None = None

    def build(self, channels: int, classes: int) -> torch.nn.Module:
        """The network."""
        module: torch.nn.Module = NETWORKS[self.net](channels, classes, **self.options)
        return module

    def to_dict(self) -> dict[str, Any]:
        """The method as a JSON object."""
        return {**asdict(self), "options": dict(self.options), "setting": self.setting.to_dict()}


@dataclass
class FoldScore:
    """The outcome of one run."""

    run: Fold
    epochs: int = 0  # number of trained epochs
    epoch: int = -1  # number of the chosen epoch
    val_loss: float = math.nan
    val_accuracy: float = math.nan
    correct: int = 0
    tested: int = 0
    failed: str | None = None
    exponents: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The scores for the store; accuracy is None if the run failed."""
        found = {name: value for name, value in asdict(self).items() if name != "run"}
        return {**found, "accuracy": None if self.failed else self.correct / max(self.tested, 1)}


class FoldStack:
    """Runs of one method in training, each with its own fold, seed, order of batches, dropout and end.

    Up to rounding, a run gives the same result as alone, because its computations do not depend on the other runs. Runs
    that have ended leave the stack.

    Args:
        bank (GraphBank): The data set.
        method (Method): What to train.
        runs (Sequence[Fold]): Seeds and folds.
    """

    def __init__(self, bank: GraphBank, method: Method, runs: Sequence[Fold]) -> None:
        self.bank, self.method, self.runs, self.device = bank, method, list(runs), bank.device
        self.splits = [split(len(bank), run) for run in runs]
        classes = bank.classes
        mixed = [int(np.random.SeedSequence([run.seed, run.fold]).generate_state(1)[0]) for run in runs]
        self.parameters = Stack(lambda: method.build(bank.channels, classes), mixed, self.device)
        self.module = self.parameters.module
        self.flat = self.parameters.flat
        self.seeds = torch.tensor(mixed, device=self.device) * 0x5DEECE66D
        self.optimizer = StackedOptimizer([method.setting] * len(runs), self.parameters.group_of_column, self.flat)
        groups = self.parameters.group_of_column
        self.of_p = (groups == GROUPS.index("p")).nonzero().squeeze(1).to(self.device)
        self.of_gnp = _gnp_columns(self.module, self.parameters).to(self.device)
        self.best = self.flat.clone()  # of all runs, including ended ones
        self.active = np.arange(len(runs))  # numbers of the runs in the stack
        self.ended = np.zeros(len(runs), dtype=bool)  # which of these have ended
        self.scores = [FoldScore(run) for run in runs]
        self.waited = np.zeros(len(runs), dtype=np.int64)
        self.chosen = np.full(len(runs), math.inf)  # the best value of the selection criterion; lower is better
        self.alive = torch.ones(len(runs), 1, dtype=torch.bool, device=self.device)
        self.epoch = 0

    @property
    def done(self) -> bool:
        """Whether every run has ended."""
        return len(self.active) == 0 or self.epoch >= self.method.epochs

    def train_epoch(self, check: Callable[[], None] = lambda: None) -> None:
        """Train all active runs for one epoch, and evaluate them."""
        method, size = self.method, self.method.batch_size
        orders = [shuffled(self.splits[k].train, self.runs[k], self.epoch) for k in self.active]
        steps = max(math.ceil(len(order) / size) for order in orders)
        ids = _padded(orders, steps * size).reshape(len(orders), steps, size).transpose(1, 0, 2).copy()
        there = torch.from_numpy(ids).to(self.device)
        if method.halve:
            self.optimizer.scale.fill_(0.5 ** (self.epoch // method.halve))
        self._set_range(self.flat)
        self.module.train()
        for step in range(steps):
            check()
            self._step(ids[step], there[step], self.epoch * steps + step)
        loss, accuracy = self._evaluate(self.flat, [self.splits[k].val for k in self.active])
        self._judge(loss, accuracy)
        self.epoch += 1

    def _set_range(self, flat: Tensor) -> None:
        """Tell the GNPs how large their exponents are; within an epoch these change little."""
        if self.of_p.numel():
            largest = flat[:, self.of_p].nan_to_num().max()
            set_range(self.module, 1.0 + torch.nn.functional.softplus(largest).item())

    def _step(self, ids: Ids, there: Tensor, number: int) -> None:
        stack = self.bank.stack(ids, there)
        flat = self.flat.detach().requires_grad_()
        out = self._call(flat, stack, Dice(self.seeds, number))
        count = stack.real.sum(1)
        loss = torch.where(stack.real, _nll(out, stack.y), 0.0).sum(1) / count.clamp(min=1)
        (gradient,) = torch.autograd.grad(loss.sum(), flat)  # a run's loss depends only on its own row
        with torch.no_grad():
            if self.method.gnp_clip is not None:
                norm = torch.where(self.of_gnp, gradient, 0.0).norm(dim=1, keepdim=True)
                scale = (self.method.gnp_clip / (norm + CLIP_EPS)).clamp(max=1.0)
                gradient = torch.where(self.of_gnp, gradient * scale, gradient)
            norm = gradient.norm(dim=1, keepdim=True)
            self.alive &= torch.isfinite(norm) & torch.isfinite(loss)[:, None]
            self.optimizer.step(self.flat, gradient, norm, self.alive & (count > 0)[:, None])

    def _call(self, flat: Tensor, stack: Any, dice: Dice | None = None) -> Tensor:
        trained = self.parameters.trained
        parts = flat.split(self.parameters.sizes, dim=1)
        values = {n: part.reshape(len(flat), *p.shape) for (n, p), part in zip(trained.items(), parts, strict=True)}
        out: Tensor = torch.func.functional_call(self.module, values, (stack,), {"dice": dice})
        return out

    @torch.no_grad()
    def _evaluate(self, flat: Tensor, graphs: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        """The mean loss and the number of correct graphs of each run on its own graphs, (R) each in float64."""
        self.module.eval()
        size = 2 * self.method.batch_size
        ids = _padded(graphs, max(map(len, graphs)))
        sums = torch.zeros(2, len(flat), dtype=torch.float64, device=self.device)
        for first in range(0, ids.shape[1], size):
            stack = self.bank.stack(ids[:, first : first + size])
            out = self._call(flat, stack)
            right = out.argmax(-1) == stack.y
            for total, values in zip(sums, (_nll(out, stack.y).double(), right.double()), strict=True):
                total += torch.where(stack.real, values, 0.0).sum(1)
        counts = torch.tensor([len(g) for g in graphs], dtype=torch.float64, device=self.device)
        return sums[0] / counts, sums[1]

    def _judge(self, loss: Tensor, right: Tensor) -> None:
        """Keep improved parameters, and release runs that have ended."""
        method = self.method
        losses, rights, alive = torch.stack([loss, right, self.alive.squeeze(1).double()]).cpu().numpy()
        better = np.zeros(len(self.active), dtype=bool)
        ended = np.zeros(len(self.active), dtype=bool)
        for place, k in enumerate(self.active):
            if self.ended[place]:
                continue
            score = self.scores[k]
            score.epochs = self.epoch + 1
            accuracy = rights[place] / len(self.splits[k].val)
            if not alive[place]:
                score.failed = f"diverged in epoch {self.epoch}"
                ended[place] = True
                continue
            value = losses[place] if method.select == "loss" else -accuracy
            better[place] = value < self.chosen[k]
            if better[place]:
                self.chosen[k], self.waited[k] = value, 0
                score.epoch, score.val_loss, score.val_accuracy = self.epoch, float(losses[place]), float(accuracy)
            else:
                self.waited[k] += 1
                ended[place] = method.patience is not None and self.waited[k] > method.patience
        if better.any():
            mine = torch.from_numpy(np.flatnonzero(better)).to(self.device)
            theirs = torch.from_numpy(self.active[better]).to(self.device)
            self.best[theirs] = self.flat[mine]
        self._let_go(ended)

    def _let_go(self, ended: np.ndarray[Any, Any]) -> None:
        """Stop ended runs at once, and pack the stack when enough of them have ended."""
        self.alive &= torch.from_numpy(~ended).to(self.device)[:, None]
        self.ended |= ended
        stay = np.flatnonzero(~self.ended)
        enough = 0 < len(stay) < LEAST.get(self.device.type, 1)
        if len(stay) > THIN * len(self.ended) or enough:
            return
        self._pack(stay)

    def _pack(self, stay: np.ndarray[Any, Any]) -> None:
        keep = torch.from_numpy(stay).to(self.device)
        self.active, self.ended = self.active[stay], np.zeros(len(stay), dtype=bool)
        self.flat, self.seeds, self.alive = self.flat[keep], self.seeds[keep], self.alive[keep]
        for name in PER_RUN:
            value = getattr(self.optimizer, name)
            if value is not None:
                setattr(self.optimizer, name, value[keep])

    def finish(self) -> list[FoldScore]:
        """The scores of all runs, with the accuracy on their test graphs at the chosen epoch."""
        self._set_range(self.best)
        _, right = self._evaluate(self.best, [parts.test for parts in self.splits])
        exponents = _exponents(self.module, self.parameters, self.best)
        for k, score in enumerate(self.scores):
            score.correct, score.tested = round(right[k].item()), len(self.splits[k].test)
            score.exponents = {name: float(values[k]) for name, values in exponents.items()}
        return self.scores


def train_stack(
    bank: GraphBank,
    method: Method,
    runs: Sequence[Fold],
    *,
    checkpoint: Path | None = None,
    progress: Callable[[int, int], None] = lambda epoch, active: None,
    check: Callable[[], None] = lambda: None,
) -> list[FoldScore]:
    """Train runs side by side. With ``checkpoint``, a folder, the work resumes from the state found there.

    ``progress`` is called after each epoch with the numbers of epochs and of active runs. ``check`` is called before
    each step, and may raise to stop. After a :class:`~gnpool.engine.StoppedError`, all complete epochs are kept.
    """
    stack = FoldStack(bank, method, runs)
    described = {"method": method.to_dict(), "runs": [list(run) for run in runs], "graphs": len(bank)}
    fingerprint = fingerprint_of({**described, "device": bank.device.type})
    path = None if checkpoint is None else checkpoint / f"stack-{fingerprint}.safetensors"
    if path is not None:
        _restore(stack, path, fingerprint)
    saved = time.monotonic()
    while not stack.done:
        before = None if path is None else _copied(_state(stack))
        try:
            stack.train_epoch(check)
        except StoppedError:
            if path is not None and before is not None and stack.epoch > 0:
                write_checkpoint(path, before, fingerprint)
            raise
        progress(stack.epoch, len(stack.active))
        if path is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
            write_checkpoint(path, _state(stack), fingerprint)
            saved = time.monotonic()
    return stack.finish()


def _state(stack: FoldStack) -> dict[str, Tensor]:
    """Every value that training changes, with the scores of runs as columns of numbers."""
    numbers = [[s.epochs, s.epoch, s.val_loss, s.val_accuracy, float(s.failed is not None)] for s in stack.scores]
    per_run = {f"optimizer/{name}": getattr(stack.optimizer, name) for name in ("first", "second")}
    return {
        "flat": stack.flat,
        "best": stack.best,
        "alive": stack.alive,
        "steps": stack.optimizer.steps,
        "epoch": torch.tensor(stack.epoch),
        "active": torch.from_numpy(stack.active),
        "ended": torch.from_numpy(stack.ended),
        "waited": torch.from_numpy(stack.waited),
        "chosen": torch.from_numpy(stack.chosen),
        "scores": torch.tensor(numbers, dtype=torch.float64),
        **per_run,
    }


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Load a state by writing into the existing tensors."""
    return {name: value.clone() for name, value in state.items()}


def _restore(stack: FoldStack, path: Path, fingerprint: str) -> None:
    state = read_checkpoint(path, fingerprint, lambda tensors: _check(stack, tensors))
    if state is None:
        return
    stack._pack(state["active"].numpy())
    stack.ended = state["ended"].numpy()
    stack.epoch = int(state["epoch"])
    stack.waited, stack.chosen = state["waited"].numpy().copy(), state["chosen"].numpy().copy()
    for target, name in (
        (stack.flat, "flat"),
        (stack.best, "best"),
        (stack.alive, "alive"),
        (stack.optimizer.steps, "steps"),
        (stack.optimizer.first, "optimizer/first"),
        (stack.optimizer.second, "optimizer/second"),
    ):
        target.copy_(state[name])
    for score, (epochs, epoch, loss, accuracy, failed) in zip(stack.scores, state["scores"].tolist(), strict=True):
        score.epochs, score.epoch, score.val_loss, score.val_accuracy = int(epochs), int(epoch), loss, accuracy
        score.failed = f"diverged in epoch {int(epochs) - 1}" if failed else None


def _check(stack: FoldStack, state: dict[str, Tensor]) -> None:
    """Raise :class:`~gnpool.store.errors.Damaged` if a state does not fit a stack that has not begun."""
    left = len(state["active"]) if "active" in state and state["active"].ndim else 0
    of_active = ("flat", "alive", "active", "ended", "optimizer/first", "optimizer/second")
    expected = {name: value[:left] if name in of_active else value for name, value in _state(stack).items()}
    check_like(state, expected)
    active, numbers = state["active"], state["scores"]
    if not (set(active.tolist()) <= set(range(len(stack.runs))) and bool((active.diff() > 0).all())):
        raise Damaged("its runs do not belong to this stack")
    epochs = torch.cat([state["epoch"][None], numbers[:, 0], numbers[:, 1] + 1])
    if not bool(((epochs >= 0) & (epochs <= stack.method.epochs) & (epochs == epochs.round())).all()):
        raise Damaged("its epochs do not belong to this stack")


def _nll(out: Tensor, y: Tensor) -> Tensor:
    return -out.gather(-1, y[..., None]).squeeze(-1)


def _padded(ids: Sequence[Ids], width: int) -> Ids:
    """Rows of different lengths as one array, padded with -1."""
    out = np.full((len(ids), width), NONE, dtype=np.int64)
    for row, values in zip(out, ids, strict=True):
        row[: len(values)] = values
    return out


def _gnp_columns(module: torch.nn.Module, stack: Stack) -> Tensor:
    """Which columns of the flat parameters belong to a GNP, (P)."""
    inside = {id(p) for part in module.modules() if isinstance(part, GNPAggregation) for p in part.parameters()}
    return torch.cat([torch.full((p.numel(),), id(p) in inside) for p in stack.trained.values()])


def _exponents(module: torch.nn.Module, stack: Stack, flat: Tensor) -> dict[str, Tensor]:
    """p and q of every GNP by name of the layer and the branch, (R) each."""
    columns = dict(zip(stack.trained, flat.detach().cpu().split(stack.sizes, dim=1), strict=True))
    found: dict[str, Tensor] = {}
    for name, part in module.named_modules():
        if isinstance(part, GNPAggregation):
            for branch in ("pos", "neg"):
                t = columns[f"{name}.raw_p_{branch}"].squeeze(1)
                found[f"{name}.p_{branch}"] = (1 + torch.nn.functional.softplus(t)).clamp(max=part.p_max)
                found[f"{name}.q_{branch}"] = columns[f"{name}.raw_q_{branch}"].squeeze(1)
    return found
