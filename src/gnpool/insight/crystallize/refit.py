"""The refits of a search: their initial weights, their checkpoints, and how many steps they took."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from gnpool.insight.crystallize.judge import Judge
from gnpool.insight.crystallize.replace import inherited, is_trainable, renewed, replaced
from gnpool.insight.crystallize.split import first
from gnpool.insight.crystallize.trial import Trial
from gnpool.training import Batches, Setting, fit_many, seeded
from gnpool.training.checkpoint import fingerprint_of
from gnpool.training.program import Forward, Loss

PASSES = 4  # a look makes at least this many passes over its graphs; a short look takes only some of the graphs


@dataclass
class Refits:
    """The refits of one search, each with its own checkpoint.

    Args:
        model (torch.nn.Module): The model as it was given.
        data (Batches): The graphs to refit on.
        judge (Judge): Measures the refitted models.
        loss, call, settings, epochs, device, checkpoint, check: As in :func:`~gnpool.insight.crystallize`.
        steps (int): Steps of training so far.
    """

    model: torch.nn.Module
    data: Batches
    judge: Judge
    loss: Loss
    call: Forward
    settings: Sequence[Setting]
    epochs: int
    device: str | torch.device
    checkpoint: str | Path | None
    check: Callable[[], None] | None
    steps: int = 0

    def __post_init__(self) -> None:
        self.origin = checksum(self.model)
        self.seed = int(self.origin[:8], 16)  # models with other learned weights also get other fresh weights

    @property
    def whole(self) -> int:
        """Steps of a whole refit under one setting."""
        return self.epochs * len(self.data)

    def made(self, trial: Trial) -> torch.nn.Module:
        """The network of a trial, with its current weights."""
        module = replaced(self.model, trial.poolings, trial.biases, trial.own)
        if trial.state:
            module.load_state_dict(trial.state)
        return module

    def begun(self, trial: Trial) -> torch.nn.Module:
        """The network of a trial; if it has no weights yet, it gets the learned weights or fresh ones."""
        if trial.state or not trial.fresh:
            return self.made(trial)
        return replaced(renewed(self.model), trial.poolings, trial.biases, trial.own)

    def child(self, trial: Trial, parent: Trial) -> Trial:
        """A trial that starts from the weights of its parent and at first computes the same."""
        module = seeded(functools.partial(self.made, replace(trial, state={})), 0)
        origin = seeded(functools.partial(self.made, parent), 0)
        return replace(trial, state=inherited(module, origin).state_dict())

    def look(self, trial: Trial, name: str, steps: int) -> Trial:
        """A short refit under the first setting, of about ``steps`` steps, and never longer than a whole refit."""
        steps = min(steps, self.whole)
        size = self.data.batch_size
        part = first(self.data, max(size, steps * size // PASSES))
        return self._refit(trial, "screened", name, part, max(1, round(steps / len(part))), self.settings[:1])

    def refit(self, trial: Trial, number: int = 0) -> Trial:
        """A whole refit under every setting, for the first time or again."""
        return self._refit(trial, "refitted", f"refitted{number}", self.data, self.epochs, self.settings)

    def finish(self, trial: Trial, name: str, data: Batches) -> Trial:
        """The trial refitted on other data, or unchanged if the refit does not lower its loss on them."""
        if trial.setting is None:
            return trial
        judge = Judge(self.made(trial), data, self.loss, self.call, self.device)
        whole = replace(self, data=data, judge=judge, steps=0)
        found = whole._refit(
            trial, "refitted", f"final-{name}", data, math.ceil(self.whole / len(data)), [trial.setting]
        )
        self.steps += whole.steps
        return replace(trial, state=found.state) if found.loss < judge.mean(judge.given).item() else trial

    def _refit(
        self, trial: Trial, stage: str, name: str, data: Batches, epochs: int, settings: Sequence[Setting]
    ) -> Trial:
        """Train under the settings; the rates fall to zero, and the last epoch counts."""
        if self.check is not None:
            self.check()
        make = functools.partial(self.begun, trial)
        seed = self.seed + max(0, trial.fresh - 1)
        candidate = seeded(make, seed).eval()
        if not is_trainable(candidate):
            state = {name: value.detach().cpu() for name, value in candidate.state_dict().items()}
            return self._measured(replace(trial, stage=stage), [state] * len(settings), [None] * len(settings))
        mark = fingerprint_of([self.origin, trial.poolings, trial.biases, trial.own, trial.fresh])
        fit = fit_many(
            make,
            data,
            self.loss,
            settings,
            seeds=[seed],
            epochs=epochs,
            forward=self.call,
            schedule=functools.partial(falling, epochs),
            device=self.device,
            cuda_graph=False if stage == "screened" else None,  # recording takes longer than a look
            vectorize=False if torch.device(self.device).type == "cpu" else None,  # vmap saves nothing with so few runs
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint) / f"{name}-{mark}",
            check=self.check,
        )
        self.steps += epochs * len(data) * len(settings)
        states = [fit.state_dict(run) if "loss" in run.best else None for run in fit.runs]
        failed = next((run.failed for run in fit.runs if "loss" not in run.best), None)
        return self._measured(replace(trial, stage=stage, failed=failed), states, [run.setting for run in fit.runs])

    def _measured(
        self, trial: Trial, states: Sequence[dict[str, Tensor] | None], settings: Sequence[Setting | None]
    ) -> Trial:
        """The trial with the losses of each state, and with the best of them."""
        dead = torch.full_like(self.judge.given, math.inf)
        losses = [
            dead if state is None else self.judge.losses(self.made(replace(trial, state=state))) for state in states
        ]
        means = [value if math.isfinite(value := self.judge.mean(loss).item()) else math.inf for loss in losses]
        best = min(range(len(means)), key=lambda k: means[k])
        table = torch.stack(losses)
        if means[best] == math.inf:
            failed = trial.failed or "its loss is not finite on the graphs that judge"
            return replace(trial, loss=math.inf, losses=table, failed=failed)
        trial = replace(trial, loss=means[best], losses=table)
        return replace(trial, setting=settings[best], state=states[best] or {})


def checksum(model: torch.nn.Module) -> str:
    """A checksum of the weights, so that equal networks with other weights get other refits."""
    digest = hashlib.sha256()
    for value in (*model.parameters(), *model.buffers()):
        digest.update(value.detach().double().numpy().tobytes())
    return digest.hexdigest()


def falling(epochs: int, epoch: int) -> float:
    """The factor of the rates, which falls along a cosine to a thousandth."""
    return 0.001 + 0.999 * 0.5 * (1 + math.cos(math.pi * epoch / max(1, epochs - 1)))
