"""Edges as samplers give them: grouped by destination, as pointers, in batches of changing shapes."""

import re
import sys

import pytest
import torch
from torch_geometric import EdgeIndex

from gnpool import GNPAggregation, norm_pool, norm_pool_neighbors
from gnpool.ops import functional, library
from gnpool.ops.registry import kernels

pytestmark = pytest.mark.usefixtures("backend")

N, M, E = 9, 6, 40


def edges(grouped, seed=0):
    generator = torch.Generator().manual_seed(seed)
    source, destination = (torch.randint(0, size, (E,), generator=generator) for size in (N, M))
    return torch.stack([source, destination.sort().values if grouped else destination])


def compressed(edge_index):
    """The same edges as (ptr, source); they are grouped by destination."""
    counts = torch.bincount(edge_index[1], minlength=M)
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), edge_index[0]


def derivatives(edge_index, x, weight, dim_size=M, **options):
    p = torch.tensor([1.5, -2.0, 0.7], dtype=torch.float64, requires_grad=True)
    leaves = [t.detach().requires_grad_() for t in (x, weight)]
    y = norm_pool_neighbors(leaves[0], edge_index, p=p, q=0.4, edge_weight=leaves[1], dim_size=dim_size, **options)
    return y, *torch.autograd.grad(y.square().sum(), (*leaves, p))


def inputs():
    return torch.randn(N, 3, dtype=torch.float64), torch.rand(E, dtype=torch.float64) + 0.1


@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_pointers_are_the_edges(kind):
    x, weight = inputs()
    plain = edges(grouped=True)
    pair = tuple(part.to(kind) for part in compressed(plain))
    sizes = torch.arange(1, M + 1) * 10
    for options in ({}, {"sizes": sizes}):
        expected = derivatives(plain, x, weight, **options)
        for dim_size in (None, M):
            for mine, theirs in zip(derivatives(pair, x, weight, dim_size, **options), expected, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-13, atol=1e-14)
    with torch.no_grad():
        assert torch.equal(norm_pool_neighbors(x, pair, p=2.0), norm_pool_neighbors(x, plain, p=2.0, dim_size=M))


def test_the_aggregation_takes_pointers():
    x, _ = inputs()
    plain = edges(grouped=True)
    aggr = GNPAggregation(3).double()
    torch.testing.assert_close(aggr.pool_neighbors(x, compressed(plain)), aggr(x[plain[0]], plain[1], dim_size=M))


def test_any_order_gives_the_same():
    x, weight = inputs()
    plain = edges(grouped=False)
    order = plain[1].argsort(stable=True)
    expected = derivatives(plain, x, weight)
    found = derivatives(plain[:, order], x, weight[order])
    for mine, theirs in zip(found, expected, strict=True):
        theirs = theirs[order] if theirs.shape == (E,) else theirs
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("order", ["col", "row"])
def test_an_edge_index_of_unknown_size(order):
    x, weight = inputs()
    index = EdgeIndex(edges(grouped=False)).sort_by(order).values
    plain = index.as_tensor().clone()
    for mine, theirs in zip(derivatives(index, x, weight), derivatives(plain, x, weight), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_what_is_in_order_is_not_gathered(backend):
    """On the CPU, counting the edges also shows their order, at no extra cost."""
    ptr, perm = library.build_csr(torch.tensor([0, 0, 2, 5]), 6, "index")
    assert ptr.tolist() == [0, 2, 2, 3, 3, 3, 4]
    assert (perm is None) == (backend == "numba")
    assert torch.ops.gnpool.build_csr.default(torch.tensor([0, 0, 2, 5]), 6, "index")[1].tolist() == [0, 1, 2, 3]
    ptr, source = compressed(edges(grouped=True))
    layout = functional._compressed_edges((ptr, source), N, True, True, "name")
    assert layout.col is source
    assert layout.eid is None
    assert layout.t_row.tolist() == edges(grouped=True)[1][layout.t_eid].tolist()


def test_the_order_is_stable():
    ptr, perm = kernels(torch.get_default_device().type).build_csr(torch.tensor([3, 1, 3, 0, 1]), 5)
    assert ptr.tolist() == [0, 1, 3, 3, 5, 5]
    assert perm.tolist() == [3, 1, 4, 0, 2]


@pytest.mark.parametrize("ordered", [False, True])
def test_the_transposed_lists(backend, ordered):
    """Destination and number of each edge by source, in a stable order, whether edges or pointers are given."""
    source, destination = edges(grouped=True)
    source = source.sort().values if ordered else source
    ptr = compressed((source, destination))[0]
    call = kernels(torch.get_default_device().type).transpose
    order = source.argsort(stable=True)
    for weighted in (False, True):
        for given in (destination, None):
            t_ptr, t_row, t_eid = call(source, given, ptr, N + 1, weighted)
            assert t_ptr.diff().tolist() == torch.bincount(source, minlength=N + 1).tolist()
            assert t_row.tolist() == destination[order].tolist()
            assert weighted or t_eid is None or backend == "reference"
            assert not weighted or t_eid.tolist() == order.tolist()
    with pytest.raises(IndexError, match="got 8 at position"):
        call(torch.tensor([0, 8]), torch.tensor([0, 1]), ptr, 8, False)


@pytest.mark.parametrize("size", [200, 300, 40_000])
def test_short_keys_hold_the_numbers(size):
    """The GPU's keys are as short as the number of segments allows."""
    index = torch.randint(0, size, (500,))
    index[:2] = torch.tensor([size - 1, 0])
    ptr, perm = kernels(torch.get_default_device().type).build_csr(index, size)
    assert torch.equal(perm, index.argsort(stable=True))
    assert torch.equal(ptr.diff(), torch.bincount(index, minlength=size))


@pytest.mark.parametrize("order", ["col", "row"])
def test_a_sort_order_is_believed_where_nothing_is_looked_at(order, monkeypatch):
    """As on a GPU, the edges of a sorted EdgeIndex are not sorted by that end again."""
    x, weight = inputs()
    index = EdgeIndex(edges(grouped=False)).sort_by(order).values
    expected = derivatives(index.as_tensor().clone(), x, weight)
    monkeypatch.setattr(functional, "checking", lambda _: False)
    sorts = []
    build = library.build_csr
    monkeypatch.setattr(library, "build_csr", lambda *args: sorts.append(args[2]) or build(*args))
    for mine, theirs in zip(derivatives(index, x, weight), expected, strict=True):
        torch.testing.assert_close(mine, theirs)
    assert sorts == ([] if order == "col" else ["norm_pool_neighbors: 'edge_index[1]'"])


@pytest.mark.parametrize("order", ["col", "row"])
def test_an_edge_index_is_given_the_lists_that_pyg_makes(order):
    plain = edges(grouped=False).clamp(max=M - 1)
    mine, theirs = (EdgeIndex(plain, sparse_size=(M, M)).sort_by(order, stable=True).values for _ in range(2))
    x = torch.rand(M, 2, requires_grad=True)
    norm_pool_neighbors(x, mine, p=2.0)
    theirs.get_csr(), theirs.get_csc()
    assert torch.equal(mine._T_indptr, theirs._T_indptr)
    for own, other in zip(mine._T_index, theirs._T_index, strict=True):
        assert torch.equal(own.sort().values, other.sort().values)
    by = 0 if order == "col" else 1
    assert torch.equal(mine._T_index[by], theirs._T_index[by])
    for end, taken in zip(mine.as_tensor(), mine._T_index, strict=True):
        assert torch.equal(end[mine._T_perm], taken)


@pytest.mark.parametrize("weighted", [False, True])
def test_exponents_alone_need_no_lists_by_source(weighted, monkeypatch):
    """Given features have no gradient; p and q then learn without the transposed lists, to the same values."""
    x, weight = (t.float() for t in inputs())
    plain = edges(grouped=False)
    found = []
    for needed in (True, False):
        p = torch.tensor([1.5, -2.0, 0.7], dtype=torch.float64, requires_grad=True)
        q = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
        if not needed:
            monkeypatch.setattr(library, "transpose", None)  # would fail
        w = weight if weighted else None
        y = norm_pool_neighbors(x.clone().requires_grad_(needed), plain, p=p, q=q, edge_weight=w, dim_size=M)
        first = torch.autograd.grad(y.square().sum(), (p, q), create_graph=True)
        second = torch.autograd.grad(first[0].sum() + first[1], (p, q))
        found.append([*first, *second])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(theirs, mine, rtol=2e-6, atol=2e-6)


def test_changing_shapes_compile_nothing(backend):
    """After the first batch, nothing more is compiled."""
    if backend != "numba":
        pytest.skip("the interpreter compiles nothing; test_cuda_launch holds the keys of Triton's kernels")
    modules = [module for name, module in sys.modules.items() if name.startswith("gnpool.ops.") and module]
    dispatchers = {id(v): v for m in modules for v in vars(m).values() if hasattr(v, "nopython_signatures")}

    def signatures():
        return sum(len(one.nopython_signatures) for one in dispatchers.values())

    def batch(rows, channels, count):
        index = torch.randint(0, rows, (2, count))
        x = torch.rand(rows, channels, requires_grad=True)
        norm_pool_neighbors(x, index, p=2.0).sum().backward()
        norm_pool(x, index[0, :1].expand(rows), p=2.0).sum().backward()

    batch(4, 3, 5)
    batch(4, 3, 4_000)  # long lists have kernels of their own
    before = signatures()
    assert before > 0
    for sizes in ((5, 3, 6), (50, 7, 900), (1, 1, 1), (300, 130, 5_000)):
        batch(*sizes)
    assert signatures() == before


@pytest.mark.parametrize(
    ("edge_index", "options", "error", "message"),
    [
        ((torch.tensor([0, 2]),), {}, ValueError, "must be a pair (ptr, source), got 1 parts"),
        ((torch.tensor([0.0, 2.0]), torch.tensor([0, 1])), {}, TypeError, "'edge_index[0]' must be an int64 or int32"),
        ((torch.tensor([0, 2]), torch.tensor([[0, 1]])), {}, ValueError, "'edge_index[1]' must have one dimension"),
        ((torch.tensor([0, 3]), torch.tensor([0, 1])), {}, ValueError, "must start at 0, never decrease and end at 2"),
        ((torch.tensor([0, 2]), torch.tensor([0, 9])), {}, IndexError, "'edge_index[1]' must lie in [0, 9), got 9"),
        ((torch.tensor([0, 2]), torch.tensor([0, 1])), {"dim_size": 2}, ValueError, "has 1 nodes but 'dim_size' is 2"),
        ((torch.tensor([0, 2]), torch.tensor([0, 1])), {"dim_size": 0}, ValueError, "has 1 nodes but 'dim_size' is 0"),
        ((torch.tensor([], dtype=torch.int64), torch.tensor([0])), {}, ValueError, "must have at least one value"),
    ],
    ids=str,
)
@pytest.mark.parametrize("gradient", [False, True])
def test_errors(edge_index, options, error, message, gradient):
    x = torch.rand(N, 2, requires_grad=gradient)
    with pytest.raises(error, match=re.escape(message)):
        norm_pool_neighbors(x, edge_index, p=1.0, **options)
