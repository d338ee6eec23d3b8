"""How to fit, and everything that comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gnpool.data import GraphTable
from gnpool.data.table import Floats
from gnpool.fit.preprocess import Preprocessing
from gnpool.fit.problem import Problem
from gnpool.fit.split import Split
from gnpool.insight import Crystal, Finding

if TYPE_CHECKING:
    from gnpool.fit.networks import Frame

LAW = "law"


@dataclass(frozen=True)
class Options:
    """How to fit; None: chosen from the data.

    Args:
        task (str, optional): ``"regression"`` or ``"classification"``.
        split (str): ``"size"`` or ``"random"``.
        epochs (int, optional): Of each training.
        seeds (int, optional): Networks of each kind.
        seed (int): Of the split, and the first of the networks.
        device (str): Where to train.
        weight_decay (float): L2 penalty of the weights.
    """

    task: str | None = None
    split: str = "size"
    epochs: int | None = None
    seeds: int | None = None
    seed: int = 0
    device: str = "cpu"
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "seeds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name!r} must be at least 1, got {value}")


@dataclass
class Entry:
    """One competitor: a kind of pooling, its best network by validation, and the errors of that one, item by item."""

    label: str
    poolings: tuple[str, ...] | None  # None: learned
    model: torch.nn.Module
    spec: dict[str, Any]
    validation: Floats  # losses
    errors: dict[str, Floats]  # of "inside" and "larger"
    runs: list[dict[str, Any]]
    curves: dict[str, Any] | None = None  # of the training, see `training_curves`
    finished: bool = True  # False: dropped after a first look

    @property
    def loss(self) -> float:
        """Mean validation loss."""
        return float(self.validation.mean())


@dataclass
class Study:
    """Everything that came out."""

    table: GraphTable
    split: Split
    problem: Problem
    preprocessing: Preprocessing
    frame: Frame
    frames: list[dict[str, Any]]
    entries: list[Entry]
    crystal: Crystal | None
    finding: Finding | None
    baseline: dict[str, Floats]  # losses on "validation", errors on "inside" and "larger" of the best constant
    targets: dict[str, Floats]  # of each part, in their own units
    notes: list[str]
    options: Options
    epochs: int
    seconds: float

    def per_graph(self, values: Floats, part: str) -> Floats:
        """The mean over the nodes of each graph of a part, where values belong to nodes."""
        if self.problem.level == "graph":
            return values
        sizes = self.table.sizes[getattr(self.split, part)]
        means: Floats = np.add.reduceat(values, np.cumsum(sizes) - sizes) / sizes
        return means
