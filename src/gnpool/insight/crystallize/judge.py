"""The criterion: the simplest trial that no other beats, compared graph by graph under every setting."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gnpool.insight.crystallize.trial import Trial, rounding_of
from gnpool.training import Batches
from gnpool.training.program import Forward, Loss, weighted_sum

ERRORS = 2.0  # a difference must exceed this many standard errors; chance exceeds them once in 40 comparisons
FEW = 10  # with fewer graphs than this, their items are compared one by one


class Judge:
    """Measures models on the graphs that judge, and decides which differences count.

    Args:
        model (torch.nn.Module): The model as it was given, for the shape of its predictions.
        batches (Batches): The graphs.
        loss (callable): As in :func:`~gnpool.training.fit_many`.
        call (callable): How to call the model.
        device (str or torch.device): Where to compute.
    """

    def __init__(
        self, model: torch.nn.Module, batches: Batches, loss: Loss, call: Forward, device: str | torch.device
    ) -> None:
        self.loss, self.call, self.device = loss, call, torch.device(device)
        self.batches = copy.copy(batches)
        self.batches.seed = None
        first = self.batches.cut(torch.arange(min(2, batches.count), device="cpu"))
        with torch.no_grad():
            # the loss gives a mean, so take one graph at a time
            if self._values(model.to(self.device).eval(), first)[0].dim() == 0:
                self.batches.batch_size = 1
        self.weight = torch.ones(0, device="cpu")  # of each graph
        self.given = self.losses(model)
        self.constant_losses = self._best_constant(model)
        self.constant = self.mean(self.constant_losses).item()
        self.rounding = rounding_of(self.constant)

    @torch.no_grad()
    def losses(self, model: torch.nn.Module) -> Tensor:
        """The loss of each graph, in float64 and on the CPU; of each item if there are few graphs."""
        model = model.to(self.device).eval()
        parts = [self._per_graph(*self._values(model, batch)) for batch in self.batches]
        total, self.weight = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
        return torch.where(self.weight > 0, total / self.weight.clamp(min=1e-300), 0.0)

    def mean(self, losses: Tensor) -> Tensor:
        """(..., graphs) -> the mean over the graphs, as :func:`~gnpool.training.evaluate_mean` computes it."""
        mean: Tensor = (self.weight * losses).sum(-1) / self.weight.sum()
        return mean

    def perfect(self, trial: Trial) -> bool:
        """Whether nothing can beat the trial: its loss is below rounding, and no loss is negative."""
        return 0 <= trial.loss <= self.rounding

    def beats(self, one: Trial, other: Trial) -> bool:
        """Whether ``one`` has the lower loss under every setting, by more than chance and rounding explain.

        A setting under which both diverged does not count.
        """
        pairs = list(zip(one.losses, other.losses, strict=True))
        alive = [(a, b) for a, b in pairs if bool(a.isfinite().all() | b.isfinite().all())]
        return bool(alive) and all(self._lower(a, b) for a, b in alive)

    def learned_something(self, losses: Tensor) -> bool:
        """Whether the losses (settings x graphs) are lower than those of the best constant, as :meth:`beats` says."""
        alive = [row for row in losses if bool(row.isfinite().all())]
        return bool(alive) and all(self._lower(row, self.constant_losses) for row in alive)

    def choose(self, tried: Sequence[Trial]) -> tuple[Trial, str]:
        """The simplest trial that no other beats, and why."""
        good = [trial for trial in tried if not any(self.beats(other, trial) for other in tried)]
        choice = min(good, key=lambda trial: (trial.complexity, trial.loss))
        lowest = min(trial.loss for trial in tried)
        if self.perfect(choice):
            return choice, f"it is the simplest trial that is exact up to rounding, with loss {choice.loss:.3g}"
        if len(good) == 1:
            return choice, f"it beats the others, {choice.loss:.3g}"
        return choice, f"it is the simplest of {len(good)} that no other beats, {choice.loss:.3g}; lowest {lowest:.3g}"

    def _lower(self, one: Tensor, other: Tensor) -> bool:
        if not bool(one.isfinite().all()):
            return False
        if not bool(other.isfinite().all()):
            return True
        difference = other - one
        mean, count = self.mean(difference), int((self.weight > 0).sum())
        error = 0.0
        if count > 1:
            spread = (self.weight * (difference - mean)).square().sum() * (count / (count - 1))
            error = (spread.sqrt() / self.weight.sum()).item()
        return mean.item() > max(ERRORS * error, self.rounding)

    def _values(self, model: torch.nn.Module, batch: Any) -> tuple[Tensor, Any]:
        """The loss on a batch, and the batch, in float64."""
        here = batch.to(self.device)
        wide = here.double()
        return self.loss(self.call(model, here).double(), wide), wide

    def _per_graph(self, values: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """The summed loss and the weight of each graph, or of each item if there are few graphs."""
        weight = getattr(batch, "weight", None)
        weight = torch.ones_like(values) if weight is None else weight.to(values.dtype).reshape(values.shape)
        values = torch.where(weight > 0, weight * values, 0.0)
        rows = values.size(0) if values.dim() else 1
        both = torch.stack([values.reshape(rows, -1).sum(1), weight.reshape(rows, -1).sum(1)])
        if rows == batch.batch_size or rows != len(batch.batch) or self.batches.count < FEW:
            return both[0], both[1]
        sums = both.new_zeros(2, batch.batch_size).index_add_(1, batch.batch, both)
        return sums[0], sums[1]

    def _best_constant(self, model: torch.nn.Module) -> Tensor:
        """The losses of the constant prediction whose mean loss is lowest, as :meth:`losses` gives those of a model."""
        with torch.no_grad():
            batches = [batch.to(self.device) for batch in self.batches]
            answers = [self.call(model, batch).double() for batch in batches]
        rows = torch.cat([answer.reshape(answer.size(0) if answer.dim() else 1, -1) for answer in answers])
        constant = rows.nan_to_num().mean(0).requires_grad_()
        wide = [batch.double() for batch in batches]

        def values() -> list[tuple[Tensor, Any]]:
            said = [constant.expand(answer.numel() // len(constant), -1).reshape(answer.shape) for answer in answers]
            return [(self.loss(one, batch), batch) for one, batch in zip(said, wide, strict=True)]

        def mean() -> Tensor:
            parts = [weighted_sum(loss, batch) for loss, batch in values()]
            total, weight = (torch.stack(column).sum() for column in zip(*parts, strict=True))
            return total / weight

        def step() -> Tensor:
            constant.grad = None
            found = mean()
            found.backward()
            return found

        before, begin = constant.detach().clone(), mean().item()
        torch.optim.LBFGS([constant], max_iter=100, line_search_fn="strong_wolfe").step(step)
        with torch.no_grad():
            if math.isfinite(begin) and not mean().item() <= begin:
                constant.copy_(before)
            parts = [self._per_graph(*one) for one in values()]
        total, weight = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
        return torch.where(weight > 0, total / weight.clamp(min=1e-300), 0.0)
