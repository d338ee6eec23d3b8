"""The values that the search passes around: a trial, and the outcome of the search."""

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
PRECISION = 1e-5  # relative error of a prediction after a few hundred operations in float32
SHOWN = 12  # trials that are printed; all of them are in ``tried``


@dataclass(frozen=True)
class Trial:
    """One combination that was tried: for each layer the poolings of its branches, or nothing for the learned GNP.

    Args:
        poolings (dict): By layer, the pooling of each branch that is kept: a name, or two as ``"mean and min"``. An
            empty dictionary keeps the learned GNP.
        biases (bool): Whether the linear layers of the model have kept their biases.
        stage (str): ``"given"`` is the model as it was given. ``"screened"`` was refitted only briefly. ``"refitted"``
            was refitted for the whole time, under all settings.
        loss (float): Lowest loss on the graphs that judge.
        setting (Setting, optional): The setting that reached it; None if nothing was refitted.
        failed (str, optional): Why it could not be refitted.
        fresh (bool): Whether it started from fresh weights instead of the learned ones.

    Example:
        >>> from gnpool.insight import Trial
        >>> trial = Trial({"readout": {"one": "max"}}, biases=False, stage="refitted", loss=0.01, fresh=True)
        >>> trial.describe(), trial.learned
        ('readout: max, no biases', False)
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
        """Its description, without its initial weights."""
        return repr(self.poolings), self.biases

    @property
    def complexity(self) -> tuple[int, ...]:
        """One pooling in each place, fewer learned layers, no biases, one pooling throughout, simpler names come first.

        Two named poolings in one place are less simple than a learned one: together they can imitate many poolings at
        the sizes that they were fitted to, and fail at larger ones.
        """
        layers = [[name for text in names.values() for name in names_in(text)] for names in self.poolings.values()]
        second = sum(max(0, len(names) - 1) for names in layers)
        learned = sum(not names for names in layers)
        kinds = set(map(tuple, layers)) if len(layers) >= STACK else {()}
        ranks = sum(BY_NAME[name].rank for names in layers for name in names)
        return (second, learned, self.biases, len(kinds), ranks)

    def describe(self, weights: bool = False) -> str:
        """The trial in words, layer by layer; ``weights`` adds the initial weights if they are fresh."""
        parts = []
        for layer, names in self.poolings.items():
            pooling = " and ".join(names.values()) if names else LEARNED
            parts.append(f"{layer or 'model'}: {pooling}")
        parts += [] if self.biases else ["no biases"]
        return ", ".join([*parts, FRESH] if weights and self.fresh else parts)


@dataclass(frozen=True)
class Crystal:
    """The outcome of :func:`crystallize`: the chosen model, every trial, the choice with its reason, and the reading.

    Args:
        model (torch.nn.Module): The chosen model, in evaluation mode, on the CPU.
        tried (tuple): Every combination in its last state: as given, then the refitted ones, then those only looked at.
        choice (Trial): The chosen trial.
        reason (str): Why it was chosen.
        reading (Reading): What the model had learned.
        judged (str): The graphs on which the losses were computed, in words.
        constant (float): The loss of the best constant answer on these graphs.
        steps (int): The number of training steps that the search took.

    Example:
        >>> import torch
        >>> from gnpool.insight import Crystal, Reading, Trial
        >>> given = Trial({}, biases=True, stage="given", loss=0.5)
        >>> exact = Trial({"pool": {"one": "sum"}}, biases=False, stage="refitted", loss=0.01)
        >>> crystal = Crystal(torch.nn.Identity(), (exact, given), exact, "it beats the others", Reading((), False))
        >>> print(str(crystal).splitlines()[-1])
        chosen: pool: sum, no biases: it beats the others
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
        """The loss that rounding to float32 leaves; smaller losses count as 0."""
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
    """The loss that rounding to float32 leaves, computed from the loss of the best constant prediction."""
    return PRECISION**2 * abs(constant)
