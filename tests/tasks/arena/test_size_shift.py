"""Splits by size, on the sets of the field and on data that cannot be split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnpool.data import Column, from_list, read_graphs
from gnpool.tasks.arena import class_shares, size_shift
from tests.real_data import use_real_data

# Cuts, graphs of each part, mean nodes, and the share of class 1 among the small and the large graphs.
SETS = {
    "NCI1": (27, 46, (1942, 215, 412), (21, 61), (0.38, 0.81)),
    "PROTEINS": (26, 80.8, (511, 56, 112), (15, 139), (0.58, 0.10)),
    "DD": (241, 500.9, (533, 59, 118), (144, 746), (0.65, 0.20)),
}


@pytest.mark.parametrize("name", ["NCI1", "PROTEINS", pytest.param("DD", marks=pytest.mark.slow)])
def test_sets_of_the_field(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large, counts, nodes, shares = SETS[name]
    table = read_graphs(use_real_data(monkeypatch) / "tudataset" / f"{name}.zip")
    split = size_shift(table)
    assert (split.smallest_half, split.largest_tenth) == pytest.approx((small, large))
    assert tuple(len(part.sizes) for part in (split.train, split.val, split.test)) == counts
    inside = np.concatenate([split.train.sizes, split.val.sizes])
    assert (round(inside.mean()), round(split.test.sizes.mean())) == nodes
    of_class = [part.y.values for part in (split.train, split.val) if part.y is not None]
    assert (round(np.concatenate(of_class).mean(), 2), round(class_shares(split.test)[1], 2)) == shares
    assert not set(split.train.names) & set(split.val.names)
    assert split.val.sizes.max() <= small < large <= split.test.sizes.min()


def some(sizes: list[int]) -> list[Data]:
    return [Data(x=torch.ones(n, 1), y=torch.tensor([n % 3])) for n in sizes]


def test_another_seed_holds_out_other_graphs() -> None:
    table = from_list(some(list(range(1, 201))))
    first, again, other = (size_shift(table, seed) for seed in (0, 0, 1))
    assert first.val.names.tolist() == again.val.names.tolist()
    assert set(first.val.names) != set(other.val.names)
    assert first.test.names.tolist() == other.test.names.tolist()


def test_what_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="half of the graphs have at most 5 nodes and a tenth at least 5"):
        size_shift(from_list(some([5] * 20)))
    numbers = [Data(x=torch.ones(n, 1), y=torch.tensor([n / 7])) for n in range(1, 20)]
    with pytest.raises(ValueError, match="must be classes"):
        class_shares(from_list(numbers))


def test_class_shares() -> None:
    classes = Column("y", np.array([1, 2, 1, 1]), ("a", "b", "c"))
    assert class_shares(replace(from_list(some([1, 2, 3, 4])), y=classes)) == (0.0, 0.75, 0.25)
