"""The values that the search passes around: a trial, and the outcome of the search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gnpool.display.poolings import BY_NAME
from gnpool.insight.crystal import names_in
from gnpool.insight.laws import Law
from gnpool.insight.proposals import STACK, Poolings
from gnpool.insight.reading import Reading
from gnpool.training import Setting

LEARNED = "learned GNP"
FRESH = "from fresh weights"
PRECISION = 1e-5  # relative error of a prediction after a few hundred operations in float32
SHOWN = 11  # trials that are printed; all of them are in ``tried``


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
        fresh (int): Which fresh weights it started from, 1 or 2; 0 if from the learned ones.
        own (bool): Whether layers that add the node's own value to what it pools, as GIN does, still do.

    Example:
        >>> from gnpool.insight import Trial
        >>> trial = Trial({"readout": {"one": "max"}}, biases=False, stage="refitted", loss=0.01, fresh=1)
        >>> trial.describe(), trial.learned
        ('readout: max, no biases', False)
    """

    poolings: Poolings
    biases: bool
    stage: str
    loss: float = math.inf
    setting: Setting | None = None
    failed: str | None = None
    fresh: int = 0
    own: bool = True
    state: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)
    losses: Tensor = field(
        default_factory=lambda: torch.zeros(0, 0, device="cpu"), repr=False, compare=False
    )  # settings x graphs

    @property
    def learned(self) -> bool:
        """Whether every layer keeps its learned pooling."""
        return not any(self.poolings.values())

    @property
    def combination(self) -> tuple[str, bool, bool]:
        """Its description, without its initial weights."""
        return repr(self.poolings), self.biases, self.own

    @property
    def complexity(self) -> tuple[int, ...]:
        """What is simpler comes first.

        In this order: one pooling in each place, fewer learned layers, no biases, no value of the node's own, one
        pooling throughout, simpler names.

        Two named poolings in one place are less simple than a learned one: together they can imitate many poolings at
        the sizes that they were fitted to, and fail at larger ones.
        """
        layers = [[name for text in names.values() for name in names_in(text)] for names in self.poolings.values()]
        second = sum(max(0, len(names) - 1) for names in layers)
        learned = sum(not names for names in layers)
        kinds = set(map(tuple, layers)) if len(layers) >= STACK else {()}
        ranks = sum(BY_NAME[name].rank for names in layers for name in names)
        return (second, learned, self.biases, self.own, len(kinds), ranks)

    def describe(self, weights: bool = False) -> str:
        """The trial in words, layer by layer; ``weights`` adds the initial weights if they are fresh."""
        parts = []
        for layer, names in self.poolings.items():
            pooling = " and ".join(names.values()) if names else LEARNED
            parts.append(f"{layer or 'model'}: {pooling}")
        parts += [] if self.biases else ["no biases"]
        parts += [] if self.own else ["without the node itself"]
        return ", ".join([*parts, FRESH] if weights and self.fresh else parts)


@dataclass(frozen=True)
class Certificate:
    """What a crystal is worth on larger graphs; printed, it says so in words.

    Args:
        verdict (str): ``"law"``: the poolings are named, what they leave is noise, and other trials that validation
            cannot tell apart from them agree at all sizes tried. ``"undecided"``: such trials part at some size.
            ``"approximate"``: exponents stay learned, or the errors are not noise. ``"nothing"``: no trial is better
            than a constant.
        law (Law, optional): The formula that the network computes, if it is a law of one or two terms.
        noise (float, optional): Size of the errors, relative to the targets; of classes, the share of wrong ones.
        trusted_size (int, optional): The number of nodes up to which the trials that validation cannot tell apart agree
            within ``tolerance``; None if graphs could not be grown. No graph is larger than ``largest``.
        tolerance (float): The relative difference that counts as agreement; of classes, a share.
        largest (int): Nodes of the largest graph given.
        why (str): Why it is only approximate.

    Example:
        >>> from gnpool.insight import Certificate
        >>> print(Certificate("undecided", noise=0.05, trusted_size=58, tolerance=0.05, largest=29))
        Undecided. Errors are 5 % of the targets. Trials that fit as well agree within 5 % up to 58 nodes.
    """

    verdict: str
    law: Law | None = None
    noise: float | None = None
    trusted_size: int | None = None
    tolerance: float = 0.0
    largest: int = 0
    why: str = ""

    def __str__(self) -> str:
        if self.verdict == "nothing":
            return "Nothing was learned: no trial is better than the best constant."
        names = {"law": "A law", "undecided": "Undecided", "approximate": "Approximate, not a law"}
        words = [f"{names[self.verdict]}{f': {self.law}' if self.law else ''}{f', since {self.why}' * bool(self.why)}."]
        if self.noise is not None:
            words.append(f"Errors are {100 * self.noise:.2g} % of the targets.")
        if self.trusted_size is not None and self.trusted_size > self.largest:
            within = f"within {100 * self.tolerance:.2g} % up to {self.trusted_size} nodes"
            words.append(f"Trials that fit as well agree {within}.")
        elif self.trusted_size is not None:
            words.append(f"Do not trust it beyond {self.largest} nodes.")
        return " ".join(words)


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
        certificate (Certificate, optional): The verdict, the formula, and the size up to which to trust the model.

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
    certificate: Certificate | None = None

    @property
    def verdict(self) -> str:
        """``"law"``, ``"undecided"``, ``"approximate"`` or ``"nothing"``, see :class:`Certificate`."""
        return "" if self.certificate is None else self.certificate.verdict

    @property
    def law(self) -> Law | None:
        """The formula that the chosen network computes, with ``latex()`` and ``sympy()``; None if it is no such law."""
        return None if self.certificate is None else self.certificate.law

    @property
    def trusted_size(self) -> int | None:
        """The number of nodes up to which to trust the chosen model; None if it could not be found out."""
        return None if self.certificate is None else self.certificate.trusted_size

    @property
    def rounding(self) -> float:
        """The loss that rounding to float32 leaves; smaller losses count as 0."""
        return rounding_of(self.constant)

    def __str__(self) -> str:
        lines = [] if self.certificate is None else [str(self.certificate)]
        lines.append(f"{'loss':>10}   poolings")
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
