"""A PyG EdgeIndex in every state gives what the plain tensor gives, and keeps its lists."""

import pytest
import torch
from torch_geometric import EdgeIndex

from gnpool import norm_pool_neighbors

pytestmark = pytest.mark.usefixtures("backend")

N = 9


def edges(undirected=False):
    pairs = torch.randint(0, N - 1, (2, 40))  # the last node has no edge
    return torch.cat([pairs, pairs.flip(0)], dim=1) if undirected else pairs


def make(order, size, undirected=False):
    plain = edges(undirected)
    index = EdgeIndex(plain, sparse_size=size, is_undirected=undirected)
    return index if order is None else index.sort_by(order).values


@pytest.mark.parametrize("size", [(N, N), (None, None), (N + 4, N + 4)], ids=["exact", "unknown", "larger"])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("order", [None, "row", "col"])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_as_the_plain_tensor(order, size, undirected, weighted):
    index = make(order, size, undirected)
    plain = index.as_tensor().clone()
    x = torch.randn(N, 4, dtype=torch.float64, requires_grad=True)
    p = torch.tensor([1.5, -1.5, 3.0, -3.0], dtype=torch.float64, requires_grad=True)
    w = torch.rand(plain.size(1), dtype=torch.float64, requires_grad=True)
    results = []
    for edge_index in (plain, index, index):
        y = norm_pool_neighbors(x, edge_index, p=p, q=0.5, edge_weight=w if weighted else None)
        results.append((y, *torch.autograd.grad(y.square().sum(), (x, p, w) if weighted else (x, p))))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-13)


def test_lists_are_built_once_and_kept_with_the_index():
    index = make("col", (N, N))
    x = torch.randn(N, 2, requires_grad=True)
    norm_pool_neighbors(x, index, p=2.0)
    kept = index._indptr, index._T_indptr, index._T_perm
    assert all(t is not None for t in kept)
    norm_pool_neighbors(x, index, p=2.0)
    assert all(a is b for a, b in zip(kept, (index._indptr, index._T_indptr, index._T_perm), strict=True))


def test_int32_edges():
    plain = edges()
    x = torch.randn(N, 2)
    expected = norm_pool_neighbors(x, plain, p=2.0)
    assert torch.equal(norm_pool_neighbors(x, plain.int(), p=2.0), expected)
    index = EdgeIndex(plain.int(), sparse_size=(N, N)).sort_by("col").values
    torch.testing.assert_close(norm_pool_neighbors(x, index, p=2.0), expected)


@pytest.mark.parametrize("order", ["row", "col"])
def test_nodes_out_of_range(order):
    index = make(order, (N, N))
    with pytest.raises(IndexError, match=r"'edge_index\[0\]' must lie in \[0, 4\)"):
        norm_pool_neighbors(torch.rand(4, 2), index, p=2.0, dim_size=N)
    with pytest.raises(IndexError, match=r"'edge_index\[1\]' must lie in \[0, 4\), but the EdgeIndex has edges beyond"):
        norm_pool_neighbors(torch.rand(N, 2), index, p=2.0, dim_size=4)
