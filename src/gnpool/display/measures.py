"""The names of measures, and how their values are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """One measure.

    Args:
        key (str): Where ``fit.json`` has it.
        task (str, optional): The only task that has it.
        words (str): Its name in a sentence.
        percent (bool): Whether it is a part of 1 that is shown in percent.
        better (int): 1 if more is better, -1 if less is.
    """

    key: str
    task: str | None
    words: str
    percent: bool = False
    better: int = 1


METRICS = {
    "error": Metric("error", None, "error", percent=True, better=-1),
    "mae": Metric("absolute", "regression", "mean absolute error", better=-1),
    "r2": Metric("r2", "regression", "R2"),
    "accuracy": Metric("accuracy", "classification", "accuracy", percent=True),
    "balanced-accuracy": Metric("balanced_accuracy", "classification", "balanced accuracy", percent=True),
    "mcc": Metric("mcc", "classification", "MCC"),
    "roc-auc": Metric("roc_auc", "classification", "ROC-AUC"),
}


def shown(measures: Mapping[str, Any], metric: Metric) -> str:
    """A measure as text."""
    value = measures.get(metric.key)
    if value is None:
        return "undefined"
    return percent(value) if metric.percent else f"{value:.3g}"


def percent(error: Any) -> str:
    """A part of 1 as percent; None is one that is not defined."""
    if error is None:
        return "undefined"
    value = 100 * float(error)
    return f"{value:.2g} %" if value < 0.1 else f"{value:,.1f} %"
