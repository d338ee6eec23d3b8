"""Parts of a data set, and two of them together, give the same batches as the lists of graphs."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from gnpool import Batches

GENERATOR = torch.Generator().manual_seed(0)


def graph(nodes, edges):
    index = torch.randint(nodes, (2, edges), generator=GENERATOR)
    weight = torch.rand(edges, generator=GENERATOR)
    return Data(
        x=torch.rand(nodes, 2, generator=GENERATOR),
        edge_index=index,
        edge_weight=weight,
        y=torch.rand(1, 1, generator=GENERATOR),
    )


GRAPHS = [graph(2 + k % 4, 3 + k) for k in range(9)]


def assert_same(one, other):
    assert one.count == other.count
    for a, b in zip(one, other, strict=True):
        fields = {name: value for name, value in b.fields.items() if isinstance(value, torch.Tensor)}
        assert all(torch.equal(getattr(a, name), value) for name, value in fields.items())


@pytest.mark.parametrize("sorted_edges", [False, True])
def test_parts_and_both_together(sorted_edges):
    whole = Batches(GRAPHS, 4, sorted_edges=sorted_edges)
    chosen = torch.tensor([7, 0, 3, 3, 8])
    part = whole.select(chosen)
    assert_same(part, Batches([GRAPHS[k] for k in chosen.tolist()], 4, sorted_edges=sorted_edges))
    rest = whole.select(torch.tensor([1, 2]))
    expected = [GRAPHS[k] for k in (*chosen.tolist(), 1, 2)]
    assert_same(part.joined(rest), Batches(expected, 4, sorted_edges=sorted_edges))
    assert_same(whole, Batches(GRAPHS, 4, sorted_edges=sorted_edges))  # it is left as it was
    assert part.describe() != whole.describe()


def test_other_tensors_do_not_join():
    plain = Batches([Data(x=torch.ones(3, 2))], 4)
    with pytest.raises(ValueError, match="must have the same tensors"):
        Batches(GRAPHS, 4).joined(plain)
