"""Ten folds for each of twenty seeds, as ASAP's authors cut them."""

from __future__ import annotations

import numpy as np
import pytest

from gnpool.models.stacked.folds import FOLDS, SEEDS, Fold, shuffled, split


def test_seeds_are_twenty_and_different() -> None:
    assert len(SEEDS) == len(set(SEEDS)) == 20
    assert (SEEDS[0], SEEDS[-1]) == (8971, 81994)


@pytest.mark.parametrize("graphs", [10, 1113, 1178, 4110])
def test_folds_are_a_partition(graphs: int) -> None:
    parts = [split(graphs, Fold(SEEDS[3], fold)) for fold in range(FOLDS)]
    assert sorted(np.concatenate([part.test for part in parts])) == list(range(graphs))
    for fold, part in enumerate(parts):
        assert sorted(np.concatenate(part)) == list(range(graphs))
        assert part.val.tolist() == parts[fold - 1].test.tolist()  # the fold before, the last one for the first
    assert {len(part.test) for part in parts} <= {graphs // FOLDS, graphs // FOLDS + 1}


def test_folds_are_those_of_scikit_learn() -> None:
    """The first numbers of KFold(10, shuffle=True, random_state=8971) on 25 graphs: numpy's legacy shuffle, cut."""
    order = np.random.RandomState(8971).permutation(25)
    sizes = [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]
    starts = np.cumsum([0, *sizes])
    for fold in range(FOLDS):
        expected = sorted(order[starts[fold] : starts[fold + 1]])
        assert split(25, Fold(8971, fold)).test.tolist() == expected
    sklearn = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is not installed")
    theirs = sklearn.KFold(10, shuffle=True, random_state=8971).split(np.zeros(25))
    assert [test.tolist() for _, test in theirs] == [split(25, Fold(8971, fold)).test.tolist() for fold in range(FOLDS)]


def test_other_seeds_are_other_folds() -> None:
    assert split(100, Fold(1, 0)).test.tolist() != split(100, Fold(2, 0)).test.tolist()
    assert split(100, Fold(1, 0)).test.tolist() == split(100, Fold(1, 0)).test.tolist()


def test_the_order_of_batches_is_that_of_run_and_epoch() -> None:
    ids = np.arange(50)
    first = shuffled(ids, Fold(8971, 2), 0)
    assert sorted(first) == list(range(50))
    assert first.tolist() == shuffled(ids, Fold(8971, 2), 0).tolist()
    others = [shuffled(ids, run, epoch) for run, epoch in ((Fold(8971, 2), 1), (Fold(8971, 3), 0), (Fold(85688, 2), 0))]
    assert all(first.tolist() != other.tolist() for other in others)


@pytest.mark.parametrize(
    ("graphs", "fold", "message"),
    [(9, 0, "10 folds need at least 10 graphs"), (20, 10, "'fold' must lie in"), (20, -1, "'fold'")],
)
def test_errors(graphs: int, fold: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split(graphs, Fold(1, fold))
