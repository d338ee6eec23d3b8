"""The options of a fit, and everything that it found."""

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
    """The options of a fit; the data decide on options that are None.

    Args:
        task (str, optional): ``"regression"`` or ``"classification"``.
        split (str): ``"size"`` or ``"random"``.
        epochs (int, optional): Epochs of each training.
        seeds (int, optional): Networks of each kind.
        seed (int): Seed of the split, and the first seed of the networks.
        device (str): Where to train.
        metric (str): The measure that is reported first, one of :data:`gnpool.fit.measures.METRICS`.
        class_weights (str, optional): ``"balanced"`` makes all classes count alike in the loss.
        train_up_to (int, optional): Nodes of the largest training graph.
        test_from (int, optional): Nodes of the smallest graph in the test on larger graphs.
        dropout (float): Dropout of the deeper networks.
        weight_decay (float): L2 penalty of the weights.

    Example:
        >>> from gnpool.fit import Options
        >>> options = Options(split="random", epochs=50, metric="mae")
        >>> options.epochs, options.seeds  # None: chosen from the data
        (50, None)
        >>> Options(dropout=1.0)
        Traceback (most recent call last):
        ValueError: 'dropout' must lie in [0, 1), got 1.0
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
    """One competitor: a kind of pooling, its best network by validation, and the errors of this network on each item.

    Example:
        >>> import numpy as np
        >>> from gnpool.fit import Entry
        >>> from gnpool.models import SetNet
        >>> losses = np.array([0.1, 0.3])
        >>> entry = Entry("sum", ("sum",), SetNet(1, "sum"), {}, losses, {"inside": losses, "larger": losses}, [])
        >>> round(entry.loss, 3)  # the mean validation loss decides
        0.2
    """

    label: str
    poolings: tuple[str, ...] | None  # None: learned
    model: torch.nn.Module
    spec: dict[str, Any]
    validation: Floats  # losses on the validation items
    errors: dict[str, Floats]  # on "inside" and "larger"
    runs: list[dict[str, Any]]
    measures: dict[str, Measures] = field(default_factory=dict)  # on the same parts
    curves: dict[str, Any] | None = None  # curves of the training, see `training_curves`
    finished: bool = True  # False if it was dropped after a first look

    @property
    def loss(self) -> float:
        """Mean validation loss."""
        return float(self.validation.mean())


@dataclass
class Study:
    """The result of :func:`run_study`: all competitors with their errors, and the laws that were found.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> from gnpool.fit import Options, run_study
        >>> sets = [Data(x=torch.ones(n, 1), y=float(n)) for n in range(2, 12) for _ in range(5)]
        >>> study = run_study(from_list(sets), Options(epochs=1, seeds=1))
        >>> int(study.sizes("train").max()), int(study.sizes("larger").min())
        (9, 10)
        >>> study.finding.found, "law" in [entry.label for entry in study.entries]
        (True, True)
    """

    prepared: Prepared
    frame: Frame
    frames: list[dict[str, Any]]
    entries: list[Entry]
    crystal: Crystal | None
    findings: list[Finding]  # one for each target; empty if the data do not allow a search
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
        """The mean over the nodes of each graph of a part, if values belong to nodes of many graphs."""
        if self.problem.level == "graph" or self.split.unit == "node":
            return values
        sizes = self.sizes(part)
        means: Floats = np.add.reduceat(values, np.cumsum(sizes) - sizes) / sizes
        return means
