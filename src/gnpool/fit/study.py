"""How to fit, and everything that comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gnpool.data import GraphTable
from gnpool.data.table import Floats, Ints
from gnpool.fit.measures import Measures
from gnpool.insight import Crystal, Finding

if TYPE_CHECKING:
    from gnpool.fit.networks import Frame
    from gnpool.fit.prepared import Prepared
    from gnpool.fit.preprocess import Preprocessing
    from gnpool.fit.problem import Problem
    from gnpool.fit.split import Split

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
        metric (str): What is reported first, one of :data:`gnpool.fit.measures.METRICS`.
        class_weights (str, optional): ``"balanced"``: all classes count alike in the loss.
        train_up_to (int, optional): Nodes of the largest graph that trains.
        test_from (int, optional): Nodes of the smallest graph of the test of the larger.
        dropout (float): Of the deeper networks.
        weight_decay (float): L2 penalty of the weights.
    """

    task: str | None = None
    split: str = "size"
    epochs: int | None = None
    seeds: int | None = None
    seed: int = 0
    device: str = "cpu"
    metric: str = "error"
    class_weights: str | None = None
    train_up_to: int | None = None
    test_from: int | None = None
    dropout: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "seeds", "train_up_to", "test_from"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name!r} must be at least 1, got {value}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"'dropout' must lie in [0, 1), got {self.dropout}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"'weight_decay' must be at least 0 and finite, got {self.weight_decay}")


@dataclass
class Entry:
    """One competitor: a kind of pooling, its best network by validation, and how that one does, item by item."""

    label: str
    poolings: tuple[str, ...] | None  # None: learned
    model: torch.nn.Module
    spec: dict[str, Any]
    validation: Floats  # losses
    errors: dict[str, Floats]  # of "inside" and "larger"
    runs: list[dict[str, Any]]
    measures: dict[str, Measures] = field(default_factory=dict)  # of the same
    curves: dict[str, Any] | None = None  # of the training, see `training_curves`
    finished: bool = True  # False: dropped after a first look

    @property
    def loss(self) -> float:
        """Mean validation loss."""
        return float(self.validation.mean())


@dataclass
class Study:
    """Everything that came out."""

    prepared: Prepared
    frame: Frame
    frames: list[dict[str, Any]]
    entries: list[Entry]
    crystal: Crystal | None
    findings: list[Finding]  # of each target; none where the data does not allow a search
    baseline: Entry  # the best constant
    seconds: float

    @property
    def table(self) -> GraphTable:
        return self.prepared.table

    @property
    def split(self) -> Split:
        return self.prepared.split

    @property
    def problem(self) -> Problem:
        return self.prepared.problem

    @property
    def preprocessing(self) -> Preprocessing:
        return self.prepared.preprocessing

    @property
    def options(self) -> Options:
        return self.prepared.options

    @property
    def finding(self) -> Finding | None:
        """What the search for the law of the first target found."""
        return self.findings[0] if self.findings else None

    def sizes(self, part: str) -> Ints:
        """The sizes of the graphs, or the neighbours of the nodes, of a part."""
        found: Ints = self.split.sizes[getattr(self.split, part)]
        return found

    def per_graph(self, values: Floats, part: str) -> Floats:
        """The mean over the nodes of each graph of a part, where values belong to nodes of many graphs."""
        if self.problem.level == "graph" or self.split.unit == "node":
            return values
        sizes = self.sizes(part)
        means: Floats = np.add.reduceat(values, np.cumsum(sizes) - sizes) / sizes
        return means
