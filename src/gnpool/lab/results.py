"""Compares a number with the paper's, and summarises several runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

SCHEMA = 1
DATA_SEED = 0  # seed of tables whose data is not generated
FAILS = 20.0  # percent of error above which a model counts as not extrapolating, in comparisons with the paper
DIGITS = {"MAPE": 0.1, "INFLUENCE": 0.1}  # the last digit that the paper prints; 0.001 elsewhere


def verdict(
    ours: dict[str, Any] | None,
    paper: dict[str, Any] | None,
    *,
    metric: str = "MAPE",
    gnp: bool = True,
    higher: bool = False,
) -> str:
    """The verdict of comparing a cell with the paper's, in a word or two; no other code decides this.

    Args:
        ours (dict, optional): Our mean and deviation, or None.
        paper (dict, optional): The paper's mean and deviation, or None.
        metric (str, optional): The metric; with MAPE, errors above 20 % are failures. (default: ``"MAPE"``)
        gnp (bool, optional): Whether the model is GNP. A baseline that works while the paper's fails, or the reverse,
            is another outcome, neither better nor worse. (default: ``True``)
        higher (bool, optional): Whether more is better. (default: ``False``)

    Example:
        >>> from gnpool.lab import verdict
        >>> paper = {"mean": 1.1, "std": 0.8}
        >>> verdict({"mean": 1.3, "std": 0.2}, paper), verdict({"mean": 9.0, "std": 0.2}, paper), verdict(None, paper)
        ('matched', 'worse', 'not run')
    """
    if ours is None:
        return "not run"
    if paper is None or paper["mean"] is None:
        return "failed" if ours["mean"] is None else ""
    theirs = paper["mean"]
    mine = ours["mean"] if ours["mean"] is not None else -math.inf if higher else math.inf  # no run finished
    fails = [not math.isfinite(value) or (metric == "MAPE" and value > FAILS) for value in (mine, theirs)]
    if all(fails):
        return "both fail"
    if within(ours, paper, metric, deviations=0 if any(fails) else 2):  # else success and failure could count as equal
        return "matched"
    if any(fails) and not gnp:
        return "different outcome"
    return "better" if (mine > theirs) == higher else "worse"


def within(ours: dict[str, Any], paper: dict[str, Any], metric: str, deviations: float = 2) -> bool:
    """Whether two means differ by at most that many of the larger deviation, plus half a printed digit."""
    if ours["mean"] is None:
        return False
    margin = 0.5 * DIGITS.get(metric, 0.001) + 1e-9  # for the paper's rounding, and for that of floats
    margin += deviations * max(ours["std"] or 0.0, paper["std"] or 0.0)
    return bool(abs(ours["mean"] - paper["mean"]) <= margin)


def spread(values: Sequence[float | None], failed: int | None = None) -> dict[str, Any]:
    """Mean and sample deviation of the finished runs, with all runs listed."""
    good = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(good) if good else None,
        "std": statistics.stdev(good) if len(good) > 1 else None,
        "runs": list(values),
        "median": statistics.median(good) if good else None,
        "failed": len(values) - len(good) if failed is None else failed,
    }


def meta_of(
    first: Mapping[str, Any] | None, seconds: float, hidden: Collection[str] = (), **told: Any
) -> dict[str, Any]:
    """Meta data of a table: those of its first unit, without ``hidden`` ones, what its kind tells, and all seconds."""
    shown = {name: value for name, value in (first or {}).items() if name not in {*hidden, "seconds"}}
    return {**shown, **told, "seconds": round(seconds, 1)}
