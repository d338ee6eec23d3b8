"""The graphs that a run trains on, selects with and is tested on: ten folds for each of twenty seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

# The seeds that ASAP's authors list. SAGPool gets the same seeds, because its authors published none.
SEEDS = (
    8971, 85688, 9467, 32830, 28689, 94845, 69840, 50883, 74177, 79585,
    1055, 75631, 6825, 93188, 95426, 54514, 31467, 70597, 71149, 81994,
)  # fmt: skip
FOLDS = 10


class Fold(NamedTuple):
    """One training of a cross-validation."""

    seed: int
    fold: int


class FoldGraphs(NamedTuple):
    """Numbers of the graphs, by purpose."""

    train: Ids
    val: Ids
    test: Ids


def split(graphs: int, run: Fold, folds: int = FOLDS) -> FoldGraphs:
    """The split of a run. The graphs are shuffled by the seed and cut into folds as by
    ``sklearn.model_selection.KFold``: the first folds are larger by one if the graphs do not divide evenly. A run is
    tested on its fold and selects with the fold before it.

    Args:
        graphs (int): Number of graphs of the data set.
        run (Run): Seed and number of the test fold.
        folds (int, optional): Number of folds. (default: ``10``)

    Example:
        >>> from gnpool.models.stacked.folds import Fold, split
        >>> parts = split(25, Fold(8971, 0))
        >>> len(parts.train), len(parts.val), len(parts.test)
        (20, 2, 3)
    """
    if graphs < folds:
        raise ValueError(f"{folds} folds need at least {folds} graphs, got {graphs}")
    if not 0 <= run.fold < folds:
        raise ValueError(f"'fold' must lie in [0, {folds}), got {run.fold}")
    order = np.arange(graphs)
    np.random.RandomState(run.seed).shuffle(order)
    parts = np.array_split(order, folds)
    test, val = parts[run.fold], parts[run.fold - 1]
    rest = np.setdiff1d(order, np.concatenate([test, val]))
    return FoldGraphs(rest, np.sort(val), np.sort(test))


def shuffled(ids: Ids, run: Fold, epoch: int) -> Ids:
    """The order of the training graphs in an epoch; it depends only on the run itself."""
    return np.random.default_rng([run.seed, run.fold, epoch]).permutation(ids)
