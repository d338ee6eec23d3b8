"""The result of a study: its runs, their curves, and the weights of their best epochs."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnpool.training.batches import Batches
from gnpool.training.program import Loss
from gnpool.training.settings import Setting
from gnpool.training.unit import Unit


@dataclass(frozen=True)
class Best:
    """The epoch in which a run was best by one criterion, counted from 0, and its value then.

    Example:
        >>> from gnpool.training import Best
        >>> best = Best(epoch=3, value=0.25)
        >>> f"lowest loss {best.value} in epoch {best.epoch}"
        'lowest loss 0.25 in epoch 3'
    """

    epoch: int
    value: float


@dataclass(frozen=True)
class Outcome:
    """One run: its setting and seed, and its best epoch. ``best`` is empty if no epoch had a finite value.

    Example:
        >>> from gnpool.training import Best, Outcome, Setting
        >>> run = Outcome(number=0, setting=Setting(lr=0.01), seed=7, best={"loss": Best(3, 0.25)}, failed=None)
        >>> run.setting.lr, run.seed, run.best["loss"].epoch
        (0.01, 7, 3)
    """

    number: int
    setting: Setting
    seed: int
    best: dict[str, Best]
    failed: str | None  # why, if it diverged


class Fit:
    r"""The result of :func:`fit_many`; ``fit.runs`` lists the runs, setting by setting and seed by seed.

    Example:
        >>> import torch
        >>> from gnpool.training import Batch, Setting, fit_many
        >>> batch = Batch(x=torch.tensor([[1.0], [2.0]]), y=torch.tensor([[2.0], [4.0]]))
        >>> fit = fit_many(
        ...     lambda: torch.nn.Linear(1, 1, bias=False),
        ...     [batch],
        ...     lambda prediction, batch: (prediction - batch.y).square(),
        ...     Setting.grid(lr=[0.1, 1e-4], optimizer="adam"),
        ...     epochs=300,
        ...     forward=lambda model, batch: model(batch.x),
        ... )
        >>> fit, fit.best_setting().lr
        (Fit(2 runs, 0 failed), 0.1)
        >>> fit.curve("loss").shape
        torch.Size([300, 2])
        >>> fit.model(fit.best()).weight.round(decimals=3).item()
        2.0
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = list(units)
        self._place = [(unit, k) for unit in self._units for k in range(len(unit.runs))]
        self.runs = _outcomes(self._units)

    def __len__(self) -> int:
        return len(self.runs)

    def best(self, criterion: str = "loss") -> Outcome:
        """The run with the lowest value of ``criterion``."""
        return min(self.runs, key=lambda run: _value(run, criterion))

    def best_setting(self, criterion: str = "loss") -> Setting:
        """The setting with the lowest mean over its seeds; a run without a value counts as infinitely bad."""
        values: dict[Setting, list[float]] = {}
        for run in self.runs:
            values.setdefault(run.setting, []).append(_value(run, criterion))
        return min(values, key=lambda setting: math.fsum(values[setting]) / len(values[setting]))

    def runs_of(self, setting: Setting) -> list[Outcome]:
        """The runs of one setting, by seed."""
        return [run for run in self.runs if run.setting == setting]

    def curve(self, name: str) -> Tensor:
        """A value over the epochs: ``"train"`` (the training loss) or a criterion, (epochs, runs); or an exponent of
        ``watched``, (epochs + 1, runs, ...), which begins with the value before training.
        """
        columns = [{**unit.history, **unit.watched} for unit in self._units]
        if name not in columns[0]:
            raise KeyError(f"Fit: no curve {name!r}; there are {', '.join(columns[0])}")
        return torch.cat([column[name].cpu() for column in columns], dim=1)

    @property
    def watched(self) -> list[str]:
        """Names of the exponents that were recorded at the start and after every epoch."""
        return list(self._units[0].watched)

    def exponents(self, run: Outcome | int) -> dict[str, dict[str, list[float]]]:
        """How the exponents of one run moved: p and q of each GNP layer, before training and after every epoch.

        Exponents per channel are averaged.
        """
        number = run if isinstance(run, int) else run.number
        found: dict[str, dict[str, list[float]]] = {}
        for name in self.watched:
            layer, _, exponent = name.rpartition(".")
            values = self.curve(name)[:, number].double()
            found.setdefault(layer, {})[exponent] = (
                values.flatten(1).mean(1).tolist() if values.dim() > 1 else values.tolist()
            )
        return found

    def state_dict(self, run: Outcome | int, criterion: str = "loss") -> dict[str, Tensor]:
        """The weights of a run at its best epoch."""
        unit, k = self._place[run if isinstance(run, int) else run.number]
        best = unit.best[criterion]
        return unit.stack.state_dict(best.flat[k], {name: value[k] for name, value in best.constants.items()})

    def model(self, run: Outcome | int, criterion: str = "loss") -> torch.nn.Module:
        """A new module, on the CPU and in evaluation mode, with the weights of a run at its best epoch."""
        unit, _ = self._place[run if isinstance(run, int) else run.number]
        module = copy.deepcopy(unit.stack.pristine).eval()
        module.load_state_dict(self.state_dict(run, criterion))
        return module

    def evaluate(
        self, batches: Batches | Any, metrics: Mapping[str, Loss], criterion: str = "loss"
    ) -> dict[str, Tensor]:
        """(runs,) each, float64: metrics of all runs at their best epochs, as means over all items of the data.

        A run that never had a finite value gets NaN.
        """
        parts = [unit.evaluate(batches, dict(metrics), criterion) for unit in self._units]
        scores = {name: torch.cat([part[name].cpu() for part in parts]) for name in metrics}
        dead = torch.tensor([criterion not in run.best for run in self.runs], device="cpu")
        return {name: torch.where(dead, math.nan, score) for name, score in scores.items()}

    def __repr__(self) -> str:
        failed = sum(run.failed is not None for run in self.runs)
        return f"Fit({len(self)} runs, {failed} failed)"


def _outcomes(units: Sequence[Unit]) -> list[Outcome]:
    """The outcome of every run. Each tensor is copied as a whole, since each transfer from a busy GPU may wait."""
    found: list[Outcome] = []
    for unit in units:
        best = {name: (kept.epoch.tolist(), kept.value.tolist()) for name, kept in unit.best.items()}
        for k, (run, failed) in enumerate(zip(unit.runs, unit.failed.tolist(), strict=True)):
            reached = {name: Best(epochs[k], values[k]) for name, (epochs, values) in best.items() if epochs[k] >= 0}
            reason = f"the loss or its gradient was not finite in epoch {failed}" if failed >= 0 else None
            found.append(Outcome(len(found), run.setting, run.seed, reached, reason))
    return found


def _value(run: Outcome, criterion: str) -> float:
    return run.best[criterion].value if criterion in run.best else math.inf
