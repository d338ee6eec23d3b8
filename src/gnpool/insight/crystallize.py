r"""``crystallize``: from "about the sum" to the sum, where validation agrees."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.insight.crystal import CrystalAggregation
from gnpool.insight.names import BY_NAME
from gnpool.insight.probe import gnp_layers
from gnpool.insight.reading import Reading, read
from gnpool.training import Batches, Setting, evaluate_mean, fit_many
from gnpool.training.program import Forward, Loss, by_name

LEARNED = "learned GNP"
MARGIN = 0.2  # a simpler model may have a validation loss larger by this part
READ_GRAPHS = 200  # validation graphs that the reading looks at
SETTINGS = (
    Setting(lr=1e-2, lr_p=3e-2, optimizer="adam"),
    Setting(lr=3e-3, lr_p=3e-2, optimizer="adam"),
    Setting(lr=1e-3, lr_p=1e-2, optimizer="adam"),
)


@dataclass(frozen=True)
class Trial:
    """One combination that was tried: for each layer the poolings of its branches, or nothing for the learned GNP.

    Args:
        poolings (dict): By layer, the name of the pooling of each branch that is kept; empty: GNP stays.
        loss (float): Lowest validation loss after refitting.
        setting (Setting, optional): The setting that reached it; None for the model as it was given.
        failed (str, optional): Why it could not be refitted.
    """

    poolings: dict[str, dict[str, str]]
    loss: float
    setting: Setting | None
    failed: str | None = None
    state: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def complexity(self) -> tuple[int, ...]:
        """Fewer learned layers, fewer branches, simpler names come first; the given model is as complex as can be."""
        learned = sum(not names for names in self.poolings.values())
        branches = sum(len(names) or 2 for names in self.poolings.values())
        ranks = sum(BY_NAME[name].rank for names in self.poolings.values() for name in names.values())
        return (learned, branches, ranks, self.setting is None)

    def describe(self) -> str:
        """In words, layer by layer."""
        parts = []
        for layer, names in self.poolings.items():
            pooling = " with ".join(names.values()) if names else LEARNED
            parts.append(f"{layer or 'model'}: {pooling}")
        return ", ".join(parts) + (" (as given)" if self.setting is None else "")


@dataclass(frozen=True)
class Crystal:
    """The outcome: the chosen model, everything that was tried, what was chosen and the reading it started from."""

    model: torch.nn.Module
    tried: tuple[Trial, ...]
    choice: Trial
    reading: Reading

    @property
    def reason(self) -> str:
        """Why the choice is what it is."""
        best = min(trial.loss for trial in self.tried)
        if self.choice.loss == best:
            return f"lowest validation loss of {len(self.tried)} ({best:.3g})"
        losses = f"{self.choice.loss:.3g} against {best:.3g}"
        return f"the simplest within {100 * MARGIN:.0f} % of the lowest validation loss ({losses})"

    def __str__(self) -> str:
        lines = [f"{'validation loss':>15}   poolings"]
        for trial in sorted(self.tried, key=lambda trial: trial.loss):
            mark = "*" if trial is self.choice else " "
            note = f" [{trial.failed}]" if trial.failed else ""
            lines.append(f"{trial.loss:>15.4g} {mark} {trial.describe()}{note}")
        return "\n".join([*lines, f"chosen: {self.choice.describe()}: {self.reason}"])


def crystallize(
    model: torch.nn.Module,
    train: Batches | Sequence[Data],
    validation: Batches | Sequence[Data],
    loss: Loss,
    *,
    forward: Forward | None = None,
    settings: Sequence[Setting] = SETTINGS,
    epochs: int = 50,
    batch_size: int = 16,
    trials: int = 16,
    device: str | torch.device = "cpu",
    progress: Callable[[int, int, str], None] | None = None,
) -> Crystal:
    r"""Replaces learned poolings by exact ones, refits the rest, and lets validation decide.

    The reading of the model (:func:`read`, on validation data) proposes named poolings for each GNP layer. Combinations
    of them are tried: exponents fixed, a branch that is hardly used dropped, everything else refitted from the learned
    weights under several settings at once, with rates that fall to zero. So is the model with its learned GNP, under
    the same conditions. The simplest model whose validation loss is within a fifth of the lowest is chosen. Test data
    is never seen.

    Args:
        model (torch.nn.Module): A trained model with GNP layers; it is not changed.
        train (Batches or Sequence[Data]): The data it was trained with.
        validation (Batches or Sequence[Data]): The data it was selected with.
        loss (callable): ``loss(prediction, batch)``, as in :func:`fit_many`.
        forward (callable, optional): How to call the model, as in :func:`fit_many`.
        settings (Sequence[Setting], optional): What to refit with.
        epochs (int, optional): How long to refit.
        batch_size (int, optional): For data given as graphs.
        trials (int, optional): Combinations to try at most, nearest first.
        device (str or torch.device, optional): Where to refit.
        progress (callable, optional): Called with the number of the trial, how many there are, and its description.

    Returns:
        Crystal: The chosen model (in evaluation mode, on the CPU), what was tried and why it was chosen.
    """
    train = train if isinstance(train, Batches) else Batches(train, batch_size)
    validation = validation if isinstance(validation, Batches) else Batches(validation, batch_size, seed=None)
    model = copy.deepcopy(model).cpu().eval()
    call = by_name(model) if forward is None else forward
    look = validation.cut(torch.arange(min(READ_GRAPHS, validation.count)))
    reading = read(model, look, forward=call)
    combinations = _combinations(reading)[: max(0, trials - 1)]
    keep: dict[str, dict[str, str]] = {path: {} for path in reading.layers}
    wanted = [*combinations, keep]
    tried = [Trial(keep, evaluate_mean(model, validation, loss, forward=call), None)]
    for number, poolings in enumerate(wanted):
        if progress is not None:
            progress(number, len(wanted), Trial(poolings, math.nan, settings[0]).describe())
        fit = fit_many(
            functools.partial(replaced, model, poolings),
            train,
            loss,
            settings,
            seeds=[0],
            epochs=epochs,
            validation=validation,
            forward=call,
            schedule=functools.partial(_falling, epochs),
            device=device,
        )
        best = fit.best()
        if "loss" in best.best:
            tried.append(Trial(poolings, best.best["loss"].value, best.setting, None, fit.state_dict(best)))
        else:
            tried.append(Trial(poolings, math.inf, best.setting, best.failed))
    lowest = min(trial.loss for trial in tried)
    choice = min(
        (trial for trial in tried if trial.loss <= lowest * (1 + MARGIN)),
        key=lambda trial: (trial.complexity, trial.loss),
    )
    chosen = replaced(model, choice.poolings)
    if choice.setting is not None:
        chosen.load_state_dict(choice.state)
    return Crystal(chosen.eval(), tuple(tried), choice, reading)


def replaced(model: torch.nn.Module, poolings: dict[str, dict[str, str]]) -> torch.nn.Module:
    """A copy of the model with exact poolings in the named layers."""
    model = copy.deepcopy(model)
    layers = gnp_layers(model)
    for path, names in poolings.items():
        if not names:
            continue
        crystal = CrystalAggregation.from_gnp(layers[path], names)
        if path == "":
            return crystal
        parent, _, attribute = path.rpartition(".")
        setattr(model.get_submodule(parent), attribute, crystal)
    return model


def _combinations(reading: Reading) -> list[dict[str, dict[str, str]]]:
    """Poolings for every layer, the combinations that the reading finds nearest first."""
    options: list[list[tuple[float, dict[str, str]]]] = []
    for layer in reading.layers:
        branches = reading.layer(layer)
        found: list[tuple[float, dict[str, str]]] = []
        for branch in branches:  # one branch alone: what the others add counts as distance
            rest = sum(other.share or 0.0 for other in branches if other is not branch)
            found += [(distance + rest, {branch.branch: name}) for name, distance in branch.ranking]
        used = [branch for branch in branches if branch.used]
        if len(used) == 2:
            pair = {branch.branch: branch.name for branch in used}
            found.append((sum(branch.distance for branch in used), pair))
        options.append(found)
    ranked = sorted(itertools.product(*options), key=lambda choice: sum(distance for distance, _ in choice))
    return [dict(zip(reading.layers, (names for _, names in choice), strict=True)) for choice in ranked]


def _falling(epochs: int, epoch: int) -> float:
    """Rates fall along a cosine, to a thousandth."""
    return 0.001 + 0.999 * 0.5 * (1 + math.cos(math.pi * epoch / max(1, epochs - 1)))
