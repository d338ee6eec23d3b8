from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import add_remaining_self_loops

from gnpool.data import from_list
from gnpool.fit.batches import FlatBatches
from gnpool.training import Batches


def draw(edges: bool, level: str, loops: bool) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for n in (3, 1, 5, 4, 2):
        x = torch.rand(n, 2, generator=generator)
        y = torch.rand(1 if level == "graph" else n, generator=generator)
        graph = Data(x=x, y=y)
        if edges:
            found = torch.randint(0, n, (2, 2 * n), generator=generator).unique(dim=1)
            graph.edge_index = add_remaining_self_loops(found)[0] if loops else found
        graphs.append(graph)
    return graphs


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize(("edges", "loops"), [(True, False), (True, True), (False, False)])
def test_the_same_batches_as_from_a_list(edges: bool, loops: bool, level: str) -> None:
    table = from_list(draw(edges, level, False), level)
    x = torch.stack([torch.from_numpy(column.values) for column in table.features], dim=1).float()
    assert table.y is not None
    flat = FlatBatches(table, x, torch.from_numpy(table.y.values), batch_size=2, seed=3, loops=loops)
    whole = Batches(draw(edges, level, loops), 2, seed=3, sorted_edges=True)
    assert len(flat) == len(whole) == 3
    for ours, theirs in zip(flat.epoch(1), whole.epoch(1), strict=True):
        assert ours.fields.keys() == theirs.fields.keys()
        assert torch.equal(ours.x, theirs.x)
        torch.testing.assert_close(ours.y, theirs.y.double())
        assert torch.equal(ours.ptr, theirs.ptr)
        assert torch.equal(ours.batch, theirs.batch)
        assert (ours.batch_size, ours.max_nodes) == (theirs.batch_size, theirs.max_nodes)
        if edges:
            assert torch.equal(ours.edge_index.as_tensor(), theirs.edge_index.as_tensor())
            assert torch.equal(ours.edge_index._T_perm, theirs.edge_index._T_perm)
