"""Disturbed copies of graphs."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from gnpool.tasks.arena import disturbed


def ring(nodes: int) -> Data:
    around = torch.arange(nodes)
    there = torch.stack((around, around.roll(-1)))
    return Data(x=around[:, None].float(), edge_index=torch.cat((there, there.flip(0)), dim=1), y=torch.tensor([nodes]))


def test_nodes_that_are_gone() -> None:
    graphs = [ring(n) for n in range(20, 60)]
    found = disturbed(graphs, 0.5, seed=3)
    shares = [1 - one.x.size(0) / graph.x.size(0) for one, graph in zip(found, graphs, strict=True)]
    assert 0.0 <= min(shares) < 0.1
    assert 0.4 < max(shares) <= 0.52
    for one, graph in zip(found, graphs, strict=True):
        kept = set(one.x.flatten().long().tolist())
        names = one.x.flatten().long()[one.edge_index]
        wanted = {pair for pair in map(tuple, graph.edge_index.T.tolist()) if set(pair) <= kept}
        assert set(map(tuple, names.T.tolist())) == wanted
        assert one.y.tolist() == graph.y.tolist()


def test_edges_that_are_new() -> None:
    (graph,) = disturbed([ring(100)], 0.0, 0.5, seed=1)
    (same,) = disturbed([ring(100)], 0.0, 0.5, seed=1)
    assert torch.equal(graph.edge_index, same.edge_index)
    assert graph.x.size(0) == 100
    assert 200 < graph.edge_index.size(1) <= 300
    assert is_undirected(graph.edge_index)
    assert not (graph.edge_index[0] == graph.edge_index[1]).any()
    place = graph.edge_index[1] * 100 + graph.edge_index[0]
    assert bool((place.diff() > 0).all())  # sorted, each once
    assert set(map(tuple, ring(100).edge_index.T.tolist())) <= set(map(tuple, graph.edge_index.T.tolist()))


def test_edges_that_are_cut() -> None:
    found = disturbed([ring(100)] * 40, 0.0, cut=0.5, seed=1)
    whole = set(map(tuple, ring(100).edge_index.T.tolist()))
    gone = [(200 - one.edge_index.size(1)) // 2 for one in found]
    assert 0 <= min(gone) < 5
    assert 40 < max(gone) <= 50
    for one in found:
        assert one.x.size(0) == 100
        assert is_undirected(one.edge_index, num_nodes=100)
        assert set(map(tuple, one.edge_index.T.tolist())) <= whole
    (none,) = disturbed([Data(x=torch.ones(3, 1), edge_index=torch.empty(2, 0, dtype=torch.long))], 0.0, cut=1.0)
    assert none.edge_index.shape == (2, 0)


def test_nothing_to_disturb() -> None:
    (one,) = disturbed([ring(9)], 0.0)
    assert torch.equal(one.edge_index, ring(9).edge_index)
    (alone,) = disturbed([ring(3)], 0.99, seed=2)
    assert alone.x.size(0) >= 1
    with pytest.raises(ValueError, match=r"'nodes' must lie in \[0, 1\), got 1"):
        disturbed([], 1.0)
    with pytest.raises(ValueError, match=r"'cut' must lie in \[0, 1\], got 1.5"):
        disturbed([], cut=1.5)
    with pytest.raises(ValueError, match="'edges' must not be below 0, got -1"):
        disturbed([], edges=-1.0)
