"""What is to be predicted: recognised from the targets, with the loss and the errors that belong to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gnpool.data import Column, DataError, GraphTable
from gnpool.data.table import Floats

TASKS = ("regression", "classification")
MOST_CLASSES = 20  # that whole numbers are taken for
ITEMS_PER_CLASS = 5
FAR = 1e100  # a target this many times those in training is a mistake, and its square not a number any more


@dataclass(frozen=True)
class Problem:
    """A task and its targets.

    Args:
        task (str): ``"regression"`` or ``"classification"``.
        level (str): Whether targets belong to ``"graph"`` or ``"node"``.
        edges (bool): Whether the data has edges.
        classes (tuple[str, ...]): Of a classification.
        scale (float): What targets of a regression are divided by: the root mean square of those in training. They
            are not shifted, so that a network without biases can be proportional to what it pools.
        column (str): Where the target stood.
        reason (str): Why this task.
    """

    task: str
    level: str
    edges: bool
    classes: tuple[str, ...] = ()
    scale: float = 1.0
    column: str = "y"
    reason: str = ""

    @property
    def outputs(self) -> int:
        """Numbers that a network gives for an item."""
        return len(self.classes) if self.task == "classification" else 1

    def targets(self, table: GraphTable) -> Tensor:
        """What the loss compares with: (items,), float64 or positions of classes."""
        assert table.y is not None
        if self.task == "regression":
            return torch.from_numpy(_numbers(table.y) / self.scale)
        words = table.y.categories or tuple(_word(value) for value in np.unique(table.y.values).tolist())
        codes = table.y.values if table.y.categories else np.unique(table.y.values, return_inverse=True)[1]
        places = {name: k for k, name in enumerate(self.classes)}
        unknown = [word for word in words if word not in places]
        if unknown:
            raise DataError(f"the class {unknown[0]!r} was not there in training", column=table.y.name)
        return torch.from_numpy(np.array([places[word] for word in words])[codes])

    def loss(self, prediction: Tensor, batch: Any) -> Tensor:
        """What is minimised, one value per item."""
        if self.task == "regression":
            return (prediction.view_as(batch.y) - batch.y).square()
        return F.cross_entropy(prediction, batch.y, reduction="none")

    def error(self, prediction: Tensor, batch: Any) -> Tensor:
        """What is reported, one value per item: the absolute error in units of the target, or 1 for a wrong class."""
        if self.task == "regression":
            return (prediction.view_as(batch.y) - batch.y).abs() * self.scale
        return (prediction.argmax(-1) != batch.y).double()

    def summary(self, errors: Floats, targets: Floats) -> dict[str, float | None]:
        """Errors of several items: of a regression relative to the targets (sum of errors over sum of absolute
        targets), mean absolute and R^2; of a classification the share of wrong ones. What is not defined, such as an
        error relative to targets that are all 0, is None.
        """
        if self.task == "classification":
            return {"error": float(errors.mean())}
        if not np.isfinite(errors).all():
            return {"error": None, "absolute": None, "r2": None}
        largest = max(float(errors.max()), float(np.abs(targets).max())) or 1.0  # squares of huge numbers overflow
        errors, targets = errors / largest, targets / largest
        mean, total = float(errors.mean()), float(np.abs(targets).mean())
        spread = float(np.square(targets - targets.mean()).mean())
        return {
            "error": mean / total if total > 0 else None,
            "absolute": mean * largest,
            "r2": 1 - float(np.square(errors).mean()) / spread if spread > 0 else None,
        }

    def true_values(self, table: GraphTable) -> Floats:
        """The targets in their own units, or the positions of the classes, as numbers."""
        return self.targets(table).double().numpy() * (self.scale if self.task == "regression" else 1.0)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, found: Any) -> Problem:
        """From what :meth:`to_dict` gave."""
        if not isinstance(found, Mapping):
            raise ValueError("'problem' is missing")
        try:
            problem = cls(**{**found, "classes": tuple(found.get("classes", ()))})
        except TypeError as error:
            raise ValueError(f"'problem' is not one ({error})") from error
        words = (problem.task, problem.level, problem.column, problem.reason, *problem.classes)
        if not all(isinstance(word, str) for word in words) or not isinstance(problem.edges, bool):
            raise ValueError("'problem' has a value that is no text")
        if (
            isinstance(problem.scale, bool)
            or not isinstance(problem.scale, (int, float))
            or not problem.scale < math.inf
        ):
            raise ValueError(f"'problem' must have a number as 'scale', got {problem.scale!r:.40}")
        if problem.task == "classification" and len(problem.classes) < 2:
            raise ValueError("'problem' must have two classes or more")
        if problem.task not in TASKS or problem.level not in ("graph", "node") or not problem.scale > 0:
            raise ValueError(f"'problem' must be one of {TASKS}, got {problem.task!r}")
        return problem


def recognise(table: GraphTable, train: GraphTable, task: str | None = None) -> Problem:
    """The problem that the targets pose, or the one that the user says it is."""
    if task is not None and task not in TASKS:
        raise ValueError(f"'task' must be one of {TASKS}, got {task!r}")
    column = table.y
    assert column is not None
    edges = table.edge_index is not None
    if column.categories is not None and task != "regression":
        classes, reason = column.categories, "the target holds names of classes"
    else:
        kept, counts = np.unique(_numbers(column), return_counts=True)
        guess, reason = _guess(kept, counts)
        if (task or guess) == "regression":
            assert train.y is not None
            values = _numbers(train.y)
            largest = float(np.abs(values).max()) or 1.0  # squares of huge numbers would overflow
            scale = largest * (math.sqrt(float(np.mean(np.square(values / largest)))) or 1.0)
            if len(kept) == 1:
                raise DataError(f"all targets are {kept[0]:g}: there is nothing to learn", column=column.name)
            if max(-kept[0], kept[-1]) > FAR * scale:
                far = max(kept[0], kept[-1], key=abs)
                raise DataError(f"a target is {far:g}, where those in training are about {scale:g}", column=column.name)
            return Problem(
                "regression", table.level, edges, scale=scale, column=column.name, reason="as told" if task else reason
            )
        classes = tuple(_word(value) for value in kept.tolist())
    if len(classes) < 2:
        raise DataError(f"there is only one class, {classes[0]!r}", column=column.name)
    if len(classes) > len(column.values) // 2:
        raise DataError(f"there are {len(classes)} classes for {len(column.values)} {table.level}s", column=column.name)
    return Problem(
        "classification", table.level, edges, tuple(classes), column=column.name, reason="as told" if task else reason
    )


def _guess(kept: Floats, counts: Any) -> tuple[str, str]:
    whole = bool((kept == np.floor(kept)).all())
    numbered = whole and len(kept) > 1 and (kept[0] in (0, 1) and kept[-1] - kept[0] == len(kept) - 1)
    signs = kept.tolist() == [-1.0, 1.0]
    if (numbered or signs) and len(kept) <= MOST_CLASSES and counts.sum() >= ITEMS_PER_CLASS * len(kept):
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
