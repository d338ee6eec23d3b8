"""Accuracies of cross-validations, and their differences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from gnpool.lab.classification.methods import Amount
from gnpool.lab.results import spread
from gnpool.models.stacked.folds import FOLDS, Fold

Accuracies = Mapping[Fold, float | None]  # by run; None if the run failed
CONFIDENCE = 0.95
TEST_SHARE = 1 / (FOLDS - 2)  # test graphs for each training graph; one more fold is used for selection


def summary(accuracies: Accuracies) -> dict[str, Any]:
    """Mean and standard deviation (divided by n, as ASAP does) over seeds of the mean over folds.

    ``runs`` holds these means, with None for a seed without a finished run; ``failed`` counts failed runs.
    """
    means = []
    for seed in dict.fromkeys(run.seed for run in accuracies):
        values = [value for run, value in accuracies.items() if run.seed == seed and value is not None]
        means.append(statistics.fmean(values) if values else None)
    good = [mean for mean in means if mean is not None]
    failed = sum(value is None for value in accuracies.values())
    return {**spread(means, failed), "std": statistics.pstdev(good) if len(good) > 1 else None}


def part(accuracies: Accuracies, amount: Amount) -> str | None:
    """Which part of the amount the numbers cover, in words; None if they cover all of it."""
    if len(accuracies) == len(amount.runs):
        return None
    seeds, folds = {run.seed for run in accuracies}, {run.fold for run in accuracies}
    whole = "" if len(accuracies) == len(seeds) * len(folds) else f", {len(accuracies)} runs"
    return f"{len(seeds)} of {amount.seeds} seeds, {len(folds)} of {amount.folds} folds{whole}"


def paired(first: Accuracies, second: Accuracies) -> dict[str, Any]:
    r"""The mean difference, second minus first, over the runs that both have, and its interval.

    Training sets of different folds overlap, so the differences are not independent. The interval is that of the
    corrected resampled t-test of Nadeau and Bengio (2003), whose variance is
    :math:`(1 / n + n_{test} / n_{train}) \, s^2`.
    """
    differences = [
        b - a
        for run in first
        if run in second
        for a, b in [(first[run], second[run])]
        if a is not None and b is not None
    ]
    count = len(differences)
    if count == 0:
        return {"difference": None, "interval": None, "pairs": 0}
    mean = statistics.fmean(differences)
    if count == 1:
        return {"difference": mean, "interval": None, "pairs": 1}
    half = t_quantile(count - 1) * statistics.stdev(differences) * math.sqrt(1 / count + TEST_SHARE)
    return {"difference": mean, "interval": [mean - half, mean + half], "pairs": count}


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t distribution, by Hill's series; exact for 1 and 2 degrees of freedom."""
    p = (1 + confidence) / 2
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    z = statistics.NormalDist().inv_cdf(p)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**k for k, term in enumerate(terms))
