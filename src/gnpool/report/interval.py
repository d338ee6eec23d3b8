"""Interval estimates of a mean over few runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95
SEED = 0
LEAST = 3  # values that an interval needs


def bootstrap(
    values: Sequence[float | None], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float] | None:
    """The percentile bootstrap interval of the mean. It is the same on every machine; None for fewer than three values.

    Resampling only two values tells little more than the values themselves.

    Args:
        values (Sequence): One value for each run; None, for a failed run, is left out.
        level (float, optional): Share of the resampled means inside. (default: ``0.95``)
        resamples (int, optional): Number of bootstrap samples. (default: ``10_000``)
        seed (int, optional): Seed of the samples. (default: ``0``)

    Example:
        >>> from gnpool.report import bootstrap
        >>> low, high = bootstrap([1.0, 1.2, 1.4, 1.1, 2.0])
        >>> round(low, 2), round(high, 2)
        (1.08, 1.68)
    """
    good = np.array([value for value in values if value is not None], dtype=float)
    if len(good) < LEAST:
        return None
    drawn = np.random.default_rng(seed).integers(0, len(good), size=(resamples, len(good)))
    means = good[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
