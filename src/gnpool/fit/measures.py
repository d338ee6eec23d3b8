"""What is measured of predictions; the names of the measures stand in :mod:`gnpool.display.measures`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnpool.data.table import Floats
from gnpool.display.measures import METRICS, Metric
from gnpool.tasks import accuracy, balanced_accuracy, mcc, roc_auc
from gnpool.training import Batch

# by name: a number, or None if it is not defined; "targets" has the measures of each of several targets
Measures = dict[str, Any]


def check_metric(name: str, task: str) -> Metric:
    """The metric called ``name``, or a ValueError if the task does not have it."""
    if name not in METRICS:
        raise ValueError(f"'metric' must be one of {', '.join(METRICS)}, got {name!r}")
    found = METRICS[name]
    if found.task not in (None, task):
        raise ValueError(f"'metric' {name!r} is for a {found.task}, but this is a {task}")
    return found


def of_numbers(predicted: Floats, truth: Floats) -> Measures:
    """Relative error (sum of errors over sum of absolute targets), mean absolute error and R^2 of one target.

    A measure that is not defined is None, for example an error relative to targets that are all 0.
    """
    return of_errors(np.abs(predicted - truth), truth)


def of_errors(errors: Floats, truth: Floats) -> Measures:
    """As :func:`of_numbers`, from absolute errors."""
    if not np.isfinite(errors).all():
        return {"error": None, "absolute": None, "r2": None}
    largest = max(float(errors.max()), float(np.abs(truth).max())) or 1.0  # squares of huge numbers overflow
    errors, truth = errors / largest, truth / largest
    mean, total = float(errors.mean()), float(np.abs(truth).mean())
    spread = float(np.square(truth - truth.mean()).mean())
    return {
        "error": mean / total if total > 0 else None,
        "absolute": mean * largest,
        "r2": 1 - float(np.square(errors).mean()) / spread if spread > 0 else None,
    }


def of_several(predicted: Floats, truth: Floats, names: tuple[str, ...]) -> Measures:
    """The measures of each target, and the means of those without a unit, relative error and R^2."""
    each = {name: of_numbers(predicted[:, k], truth[:, k]) for k, name in enumerate(names)}

    def mean(key: str) -> float | None:
        values = [found[key] for found in each.values()]
        return None if None in values else float(np.mean(values))

    return {"error": mean("error"), "absolute": None, "r2": mean("r2"), "targets": each}


def of_classes(scores: Tensor, classes: Tensor) -> Measures:
    """The error rate, accuracy, balanced accuracy, Matthews' coefficient, and the area under the ROC curve.

    With more than two classes the area is the mean over the classes that occur, each against the others.
    """
    batch: Any = Batch(y=classes)
    right = float(accuracy(scores, batch).mean())
    found = {
        "error": 1 - right,
        "accuracy": right,
        "balanced_accuracy": float(balanced_accuracy(scores, batch)[0]),
        "mcc": float(mcc(scores, batch)[0]),
    }
    chances = scores.softmax(-1)
    first = 1 if scores.size(-1) == 2 else 0
    areas = [float(roc_auc(chances[:, k], Batch(y=(classes == k).long()))[0]) for k in range(first, scores.size(-1))]
    areas = [area for area in areas if np.isfinite(area)]
    return {**found, "roc_auc": float(np.mean(areas)) if areas else None}


def shares(codes: Tensor, classes: tuple[str, ...]) -> dict[str, float]:
    """The share of each class."""
    counts = torch.bincount(codes.long(), minlength=len(classes)).double()
    return dict(zip(classes, (counts / counts.sum()).tolist(), strict=True))
