"""What was tried, and what came out: the values that the search hands around."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gnpool.display.poolings import BY_NAME
from gnpool.insight.crystal import names_in
from gnpool.insight.proposals import STACK, Poolings
from gnpool.insight.reading import Reading
from gnpool.training import Setting

LEARNED = "learned GNP"
FRESH = "from fresh weights"
PRECISION = 1e-5  # relative error of a prediction that rounding to float32 explains, after a few hundred operations
SHOWN = 12  # trials that are printed; all of them are in ``tried``


@dataclass(frozen=True)
class Trial:
    """One combination that was tried: for each layer the poolings of its branches, or nothing for the learned GNP.

    Args:
        poolings (dict): By layer, what stands in each branch that is kept: a name, or two as ``"mean and min"``; empty:
            GNP stays.
        biases (bool): Whether the linear layers of the model have kept their biases.
        stage (str): ``"given"``: the model as it was given; ``"screened"``: it was refitted for a short time, and went
            no further; ``"refitted"``: for as long as asked, under all settings.
        loss (float): Lowest loss on the graphs that judge.
        setting (Setting, optional): The setting that reached it; None where nothing was refitted.
        failed (str, optional): Why it could not be refitted.
        fresh (bool): Whether it began with fresh weights in place of the learned ones.
    """

    poolings: Poolings
    biases: bool
    stage: str
    loss: float = math.inf
    setting: Setting | None = None
    failed: str | None = None
    fresh: bool = False
    state: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)
    losses: Tensor = field(
        default_factory=lambda: torch.zeros(0, 0, device="cpu"), repr=False, compare=False
    )  # settings x graphs

    @property
    def learned(self) -> bool:
        """Whether every layer keeps its learned pooling."""
        return not any(self.poolings.values())

    @property
    def combination(self) -> tuple[str, bool]:
        """What it says, whatever weights it began with."""
        return repr(self.poolings), self.biases

    @property
    def complexity(self) -> tuple[int, ...]:
        """One pooling in each place, fewer learned layers, no biases, one pooling throughout, simpler names come first.

        Two named poolings in one place are less simple than a learned one: together they can imitate many others at the
        sizes that they were fitted to, and lead astray beyond.
        """
        layers = [[name for text in names.values() for name in names_in(text)] for names in self.poolings.values()]
        second = sum(max(0, len(names) - 1) for names in layers)
        learned = sum(not names for names in layers)
        kinds = set(map(tuple, layers)) if len(layers) >= STACK else {()}
        ranks = sum(BY_NAME[name].rank for names in layers for name in names)
        return (second, learned, self.biases, len(kinds), ranks)

    def describe(self, weights: bool = False) -> str:
        """In words, layer by layer; with ``weights`` also what it began with, if that was not the learned ones."""
        parts = []
        for layer, names in self.poolings.items():
            pooling = " and ".join(names.values()) if names else LEARNED
            parts.append(f"{layer or 'model'}: {pooling}")
        parts += [] if self.biases else ["no biases"]
        return ", ".join([*parts, FRESH] if weights and self.fresh else parts)


@dataclass(frozen=True)
class Crystal:
    """The outcome: the chosen model, everything that was tried, what was chosen and why, and the reading before.

    Args:
        model (torch.nn.Module): The chosen model, in evaluation mode, on the CPU.
        tried (tuple): Every combination, each as far as it came: as given, refitted, then those of the looks alone.
        choice (Trial): The chosen one.
        reason (str): Why.
        reading (Reading): What the model had learned.
        judged (str): The graphs that the losses of the trials are of.
        constant (float): The loss of the best constant answer on these graphs.
        steps (int): What was spent: steps of training in all.
    """

    model: torch.nn.Module
    tried: tuple[Trial, ...]
    choice: Trial
    reason: str
    reading: Reading
    judged: str = ""
    constant: float = math.inf
    steps: int = 0

    @property
    def rounding(self) -> float:
        """What counts as 0: the loss that rounding to float32 leaves."""
        return rounding_of(self.constant)

    def __str__(self) -> str:
        lines = [f"{'loss':>10}   poolings"]
        order = {"given": 0, "refitted": 1, "screened": 2}
        shown = sorted(self.tried, key=lambda trial: (order[trial.stage], trial.loss))
        for trial in shown[:SHOWN]:
            mark = "*" if trial is self.choice else " "
            notes = {"given": " (as given)", "screened": " (first looks)", "refitted": ""}[trial.stage]
            notes += f" [{trial.failed}]" if trial.failed else ""
            lines.append(f"{trial.loss:>10.4g} {mark} {trial.describe(weights=True)}{notes}")
        if len(shown) > SHOWN:
            lines.append(f"{'':>10}   and {len(shown) - SHOWN} more, worse at first looks")
        lines.append(f"judged by {self.judged}; the best constant has {self.constant:.3g}; {self.steps:,} steps")
        return "\n".join([*lines, f"chosen: {self.choice.describe()}: {self.reason}"])


def rounding_of(constant: float) -> float:
    """The loss that rounding to float32 leaves, from that of the best constant answer."""
    return PRECISION**2 * abs(constant)
