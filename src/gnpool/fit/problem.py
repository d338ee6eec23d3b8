"""The task, recognised from the targets, with its loss and its errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gnpool.data import Column, DataError, GraphTable
from gnpool.data.table import Floats
from gnpool.fit.measures import Measures, of_classes, of_errors, of_numbers, of_several

TASKS = ("regression", "classification")
LEVELS = ("graph", "node")
MOST_CLASSES = 20  # whole numbers with more different values are not taken for classes
ITEMS_PER_CLASS = 5
TIE = 1e-6  # of two classes with equal weight, the more frequent one is likelier by this much
FAR = 1e100  # a target this many times those in training is a mistake, and its square would overflow


@dataclass(frozen=True)
class Problem:
    """A task and its targets.

    Args:
        task (str): ``"regression"`` or ``"classification"``.
        level (str): Whether targets belong to ``"graph"`` or ``"node"``.
        edges (bool): Whether the data has edges.
        classes (tuple[str, ...]): The classes of a classification.
        scale (float): Targets of a regression are divided by it; it is the root mean square of those in training. They
            are not shifted, so that a network without biases can be proportional to what it pools.
        column (str): The column of the target.
        reason (str): Why it is this task, in words.
        more (tuple[tuple[str, float], ...]): Further targets of a regression, each with its scale.
        weights (tuple[float, ...]): Weights of the classes in the loss; if empty, all classes count alike.

    Example:
        >>> import torch
        >>> from gnpool.fit import Problem
        >>> problem = Problem("classification", "graph", edges=True, classes=("inactive", "active"))
        >>> scores = torch.tensor([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
        >>> problem.measures(scores, torch.tensor([0, 1, 1]))["accuracy"]
        0.666667
    """

    task: str
    level: str
    edges: bool
    classes: tuple[str, ...] = ()
    scale: float = 1.0
    column: str = "y"
    reason: str = ""
    more: tuple[tuple[str, float], ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def outputs(self) -> int:
        """How many numbers a network gives for an item."""
        return len(self.classes) if self.task == "classification" else 1 + len(self.more)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the targets."""
        return (self.column, *(name for name, _ in self.more))

    @property
    def scales(self) -> Floats:
        """The scales by which the targets of a regression are divided, (targets,)."""
        return np.array([self.scale, *(scale for _, scale in self.more)])

    def targets(self, table: GraphTable) -> Tensor:
        """The targets for the loss: (items,) or (items, targets) in float64, or the numbers of classes."""
        assert table.y is not None
        if self.task == "regression":
            columns = [_numbers(y) / scale for y, scale in zip(table.targets, self.scales.tolist(), strict=True)]
            return torch.from_numpy(columns[0] if len(columns) == 1 else np.stack(columns, axis=1))
        words = table.y.categories or tuple(_word(value) for value in np.unique(table.y.values).tolist())
        codes = table.y.values if table.y.categories else np.unique(table.y.values, return_inverse=True)[1]
        places = {name: k for k, name in enumerate(self.classes)}
        unknown = [word for word in words if word not in places]
        if unknown:
            raise DataError(f"the class {unknown[0]!r} did not occur in training", column=table.y.name)
        return torch.from_numpy(np.array([places[word] for word in words])[codes])

    def loss(self, prediction: Tensor, batch: Any) -> Tensor:
        """The loss that is minimised, one value per item; with several targets, their mean."""
        if self.task == "regression":
            squares = (prediction.view_as(batch.y) - batch.y).square()
            return squares.mean(-1) if self.more else squares
        weight = prediction.new_tensor(self.weights) if self.weights else None
        return F.cross_entropy(prediction, batch.y, weight=weight, reduction="none")

    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        """The error, one value per item: the absolute error in units of the target, or 1 for a wrong class.

        With several targets it is the mean of their errors, each in units of its scale.
        """
        if self.task == "regression":
            errors = (prediction.view_as(batch.y) - batch.y).abs()
            return errors.mean(-1) if self.more else errors * self.scale
        return (prediction.argmax(-1) != batch.y).double()

    def constant(self, y: Tensor) -> Tensor:
        """The best constant output: the mean of these targets, or the share of each class."""
        if self.task == "regression":
            return y.mean(0).reshape(-1)
        counts = torch.bincount(y, minlength=len(self.classes)).clamp(min=0.5).double()
        weighted = counts * torch.tensor(self.weights or [1.0], dtype=torch.float64)
        return (weighted / weighted.sum() * (1 + TIE * counts / counts.sum())).log()

    def sizes(self, truth: Tensor) -> Floats:
        """The denominators of relative errors, one value per item; 1 for classes."""
        if self.task == "classification":
            return np.ones(len(truth))
        size = truth.abs().mean(-1) if self.more else truth.abs() * self.scale
        found: Floats = size.double().numpy()
        return found

    def measures(self, prediction: Tensor, truth: Tensor) -> Measures:
        """All measures of the outputs of a network, in float64, against targets as :meth:`targets` gives them."""
        if self.task == "classification":
            return of_classes(prediction.double(), truth)
        predicted, true = (
            value.double().reshape(len(truth), -1).numpy() * self.scales for value in (prediction, truth)
        )
        if self.more:
            return of_several(predicted, true, self.columns)
        return of_numbers(predicted[:, 0], true[:, 0])

    def summary(self, errors: Floats, targets: Floats) -> Measures:
        """The measures of several items from their errors, see :func:`gnpool.fit.measures.of_errors`; for a
        classification, the share of wrong items.
        """
        if self.task == "classification":
            return {"error": float(errors.mean())}
        return of_errors(errors, targets)

    def true_values(self, table: GraphTable) -> Floats:
        """The targets in their own units, (items,) or (items, targets), or the positions of the classes, as numbers."""
        found: Floats = self.targets(table).double().numpy()
        return found * (self.scales if self.more else self.scale) if self.task == "regression" else found

    def to_dict(self) -> dict[str, Any]:
        """The problem in a form that JSON can hold."""
        more = [list(one) for one in self.more]
        return {**asdict(self), "classes": list(self.classes), "more": more, "weights": list(self.weights)}

    @classmethod
    def from_dict(cls, found: Any) -> Problem:
        """The problem that :meth:`to_dict` gave."""
        if not isinstance(found, Mapping):
            raise ValueError("'problem' is missing")
        try:
            lists = {name: tuple(found.get(name, ())) for name in ("classes", "weights")}
            more = tuple((name, scale) for name, scale in found.get("more", ()))
            problem = cls(**{**found, **lists, "more": more})
        except (TypeError, ValueError) as error:
            raise ValueError(f"'problem' is not valid ({error})") from error
        words = (problem.task, problem.level, *problem.columns, problem.reason, *problem.classes)
        if not all(isinstance(word, str) for word in words) or not isinstance(problem.edges, bool):
            raise ValueError("'problem' has a value that should be a text and is not")
        for scale in (problem.scale, *(scale for _, scale in problem.more), *problem.weights):
            if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < math.inf:
                raise ValueError(f"'problem' must have numbers above 0 as scales and weights, got {scale!r:.40}")
        if problem.task == "classification" and problem.more:
            raise ValueError("'problem' must have one target if it is a classification")
        if problem.weights and len(problem.weights) != len(problem.classes):
            raise ValueError("'problem' must have a weight for each class")
        if problem.task == "classification" and len(problem.classes) < 2:
            raise ValueError("'problem' must have two classes or more")
        if problem.task not in TASKS:
            raise ValueError(f"'problem' must have a task among {TASKS}, got {problem.task!r}")
        if problem.level not in LEVELS:
            raise ValueError(f"'problem' must have a level among {LEVELS}, got {problem.level!r}")
        return problem


def recognise(
    table: GraphTable, train: Sequence[Column], task: str | None = None, weights: str | None = None
) -> Problem:
    """The problem that the targets pose, or the one that the user chose.

    Args:
        table (GraphTable): All graphs.
        train (Sequence[Column]): The targets of the training items.
        task (str, optional): ``"regression"`` or ``"classification"``.
        weights (str, optional): ``"balanced"`` makes all classes count alike in the loss, however many items they have.
    """
    if task is not None and task not in TASKS:
        raise ValueError(f"'task' must be one of {TASKS}, got {task!r}")
    if weights not in (None, "balanced"):
        raise ValueError(f"'class_weights' must be None or 'balanced', got {weights!r}")
    column = table.y
    assert column is not None
    edges = table.edge_index is not None
    if table.more:
        return _of_several(table, train, task, weights)
    if column.categories is not None and task != "regression":
        classes, reason = column.categories, "the target holds names of classes"
    else:
        kept, counts = np.unique(_numbers(column), return_counts=True)
        guess, reason = _guess(kept, counts)
        if (task or guess) == "regression":
            _need_classes(weights)
            scale = _scale(column, train[0])
            return Problem(
                "regression", table.level, edges, scale=scale, column=column.name, reason="as told" if task else reason
            )
        classes = tuple(_word(value) for value in kept.tolist())
    if len(classes) < 2:
        raise DataError(f"there is only one class, {classes[0]!r}", column=column.name)
    if len(classes) > len(column.values) // 2:
        raise DataError(f"there are {len(classes)} classes for {len(column.values)} {table.level}s", column=column.name)
    reason = "as told" if task else reason
    problem = Problem("classification", table.level, edges, tuple(classes), column=column.name, reason=reason)
    if weights is None:
        return problem
    places = problem.targets(replace(table, y=train[0]))
    counts = np.maximum(np.bincount(places.numpy(), minlength=len(classes)), 1)
    return replace(problem, weights=tuple((len(places) / (len(classes) * counts)).tolist()))


def _of_several(table: GraphTable, train: Sequence[Column], task: str | None, weights: str | None) -> Problem:
    """A regression with several targets."""
    if task == "classification":
        raise DataError(
            f"a classification has a single target, got {len(table.targets)}; several targets must be numbers"
        )
    _need_classes(weights)
    scales = [_scale(column, part) for column, part in zip(table.targets, train, strict=True)]
    (name, *names) = (column.name for column in table.targets)
    return Problem(
        "regression",
        table.level,
        table.edge_index is not None,
        scale=scales[0],
        column=name,
        reason=f"there are {len(scales)} targets",
        more=tuple(zip(names, scales[1:], strict=True)),
    )


def _need_classes(weights: str | None) -> None:
    if weights is not None:
        raise ValueError("'class_weights' is for a classification, but this is a regression; leave it out")


def _scale(column: Column, train: Column) -> float:
    """The scale by which a target is divided: the root mean square of the training targets."""
    every, values = _numbers(column), _numbers(train)
    largest = float(np.abs(values).max()) or 1.0  # squares of huge numbers would overflow
    scale = largest * (math.sqrt(float(np.mean(np.square(values / largest)))) or 1.0)
    low, high = float(every.min()), float(every.max())
    if low == high:
        raise DataError(f"all targets are {low:g}: there is nothing to learn", column=column.name)
    if max(-low, high) > FAR * scale:
        far = max(low, high, key=abs)
        raise DataError(f"a target is {far:g}, but those in training are about {scale:g}", column=column.name)
    return scale


def _guess(kept: Floats, counts: Any) -> tuple[str, str]:
    whole = bool((kept == np.floor(kept)).all())
    numbered = whole and len(kept) > 1 and (kept[0] in (0, 1) and kept[-1] - kept[0] == len(kept) - 1)
    signs = kept.tolist() == [-1.0, 1.0]
    each = counts.sum() / 2 if len(kept) == 2 else counts.min()  # counts of something have rare large values
    if (numbered or signs) and len(kept) <= MOST_CLASSES and each >= ITEMS_PER_CLASS:
        return "classification", f"the target numbers {len(kept)} classes"
    return "regression", f"the target has {len(kept)} different numbers"


def _word(value: float) -> str:
    return f"{value:.15g}"


def _numbers(column: Column) -> Floats:
    if column.categories is None:
        return column.values.astype(np.float64)
    try:
        words = np.array([float(word) for word in column.categories])
    except ValueError:
        raise DataError(
            f"the target must be numbers, got words such as {column.categories[0]!r}", column=column.name
        ) from None
    return words[column.values]
