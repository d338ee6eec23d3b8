"""What the tests of benchmarks share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def z_score(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """How far two means are apart, in standard errors of their difference; inf for constants that differ."""
    error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    apart = abs(ours.mean() - theirs.mean())
    return float(apart / error) if error > 0 else float(np.inf if apart > 0 else 0.0)


def chi_square(counts: NDArray[np.int64], shares: NDArray[np.float64]) -> float:
    """Pearson's statistic of counts against expected shares, less its mean, in its standard deviations."""
    expected = counts.sum() * shares / shares.sum()
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))
