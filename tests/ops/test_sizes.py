"""The true number of elements where a sample of them is pooled: ``sizes``."""

import math
import re

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, jacfwd, jacrev, vmap

from gnpool import GNPAggregation, GNPConv, norm_pool, norm_pool_neighbors
from gnpool.ops import library
from tests.nn.expected import scatter_exponents

pytestmark = pytest.mark.usefixtures("backend")

inf = math.inf
INDEX = torch.tensor([0, 2, 0, 2, 2, 0, 4])
SIZES = torch.tensor([30, 7, 3, 0, 1_000])  # segments 1 and 3 are empty; 2 has all it ever had
COUNTS = torch.tensor([3, 0, 3, 0, 1])
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0], [1, 0, 1, 1, 3, 3, 3, 2]])
DEGREES = torch.tensor([1, 12, 5, 3, 2, 0, 0])
P = (1.0, 1.5, 0.3, 4.0, -1.0, -0.4, -6.0, inf, -inf)


def by_hand(x, index, sizes, p, q=None, growth=None):
    """One segment at a time, by the published formula or n^growth times the power mean; eps = 0."""
    rows = []
    for s, size in enumerate(sizes.tolist()):
        u = x[index == s].double().abs()
        columns = []
        for d in range(x.size(1)):
            v, e = u[:, d], p[d]
            if not len(v):
                columns.append(0.0)
            elif math.isinf(e):
                end = (v.max() if e > 0 else v.min()).item()
                columns.append(end * size ** (-q if q is not None else growth))
            elif q is not None:
                columns.append((size / len(v) * v.pow(e).sum().item()) ** (1 / e) * size**-q)
            else:
                mean = v.log().mean().exp() if e == 0 else v.pow(e).mean().pow(1 / e)
                columns.append(mean.item() * size**growth)
        rows.append(columns)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.float32])
@pytest.mark.parametrize("form", [{"q": 0.7}, {"growth": 0.4}], ids=str)
def test_value(form, kind, dtype):
    p = P if "q" in form else (*P, 0.0)
    x, exponents = (torch.rand(7, len(p)) + 0.1).to(dtype), torch.tensor(p, dtype=torch.float64)
    bound = {torch.float64: 1e-13, torch.float32: 3e-6, torch.bfloat16: 2**-8}[dtype]
    y = norm_pool(x, INDEX, p=exponents, dim_size=5, eps=0.0, sizes=SIZES.to(kind), **form)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), by_hand(x, INDEX, SIZES, p, **form), rtol=bound, atol=0)
    x = (torch.rand(7, len(p)) + 0.1).to(dtype)
    y = norm_pool_neighbors(x, EDGES, p=exponents, eps=0.0, sizes=DEGREES.to(kind), **form)
    expected = by_hand(x[EDGES[0]], EDGES[1], DEGREES, p, **form)
    torch.testing.assert_close(y.double(), expected, rtol=bound, atol=0)


@pytest.mark.parametrize("form", [{"q": 0.7}, {"growth": 0.4}, {"growth": 1.0, "zeros": "remove"}], ids=str)
def test_where_nothing_was_left_out_nothing_changes(form):
    x = torch.randn(7, 3)
    p = torch.tensor([1.3, -2.0, inf])
    y = norm_pool(x, INDEX, p=p, dim_size=5, **form)
    assert torch.equal(norm_pool(x, INDEX, p=p, dim_size=5, sizes=COUNTS, **form), y)
    assert torch.equal(norm_pool(x, INDEX, p=p, dim_size=5, sizes=COUNTS.float(), **form), y)


def test_every_form_of_the_segments():
    x = torch.rand(7, 2, 3, dtype=torch.float64)
    order = INDEX.argsort(stable=True)
    ptr = torch.cat([torch.tensor([0]), COUNTS.cumsum(0)])
    by_index = norm_pool(x, INDEX, p=2.0, q=0.3, dim_size=5, sizes=SIZES)
    torch.testing.assert_close(norm_pool(x[order], ptr=ptr, p=2.0, q=0.3, sizes=SIZES), by_index)
    one = norm_pool(x, p=2.0, q=0.3, sizes=torch.tensor([70]))
    torch.testing.assert_close(one, norm_pool(x, p=2.0, q=0.3) * 10 ** (0.5 - 0.3))


def test_drawn_with_replacement_a_segment_may_be_smaller_than_its_sample():
    x = torch.tensor([[1.0], [3.0], [3.0], [1.0]], dtype=torch.float64)
    assert norm_pool(x, p=1.0, eps=0.0, sizes=torch.tensor([2])).item() == pytest.approx(4.0, rel=1e-14)


def test_a_sum_of_nothing_stays_nothing():
    x = torch.zeros(3, 1, requires_grad=True)
    y = norm_pool(x, p=0.01, eps=0.0, sizes=torch.tensor([10**6]))  # the factor alone is beyond a float
    assert y.item() == 0.0


def pool(x, p, size, sizes=SIZES, **form):
    name = "growth" if form.get("growth") else "q"
    return norm_pool(x, INDEX, p=p, dim_size=5, sizes=sizes, **{name: size})


@pytest.mark.parametrize("growth", [False, True])
def test_gradients_to_second_order(growth):
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    p = torch.tensor([1.3, -2.0, 4.0], dtype=torch.float64, requires_grad=True)
    size = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)

    def function(x, p, size):
        return pool(x, p, size, growth=growth)

    assert gradcheck(function, (x, p, size), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(function, (x, p, size))
    weight = (torch.rand(8, dtype=torch.float64) + 0.2).requires_grad_()

    def neighbors(x, p, size, weight):
        exponents = {"growth" if growth else "q": size}
        return norm_pool_neighbors(x, EDGES, p=p, edge_weight=weight, sizes=DEGREES, **exponents)

    assert gradcheck(neighbors, (x, p, size, weight))
    assert gradgradcheck(neighbors, (x, p, size, weight))


def test_gradients_at_the_ends_and_in_empty_segments():
    x = (torch.rand(7, 2, dtype=torch.float64) + 0.1).requires_grad_()
    p = torch.tensor([inf, -inf], dtype=torch.float64, requires_grad=True)
    y = norm_pool(x, INDEX, p=p, q=0.5, dim_size=5, eps=0.0, sizes=SIZES)
    by_x, by_p = torch.autograd.grad(y.sum(), (x, p))
    assert by_p.tolist() == [0.0, 0.0]
    shares = torch.zeros(5, 2, dtype=torch.float64).index_add(0, INDEX, by_x)
    expected = torch.where(COUNTS > 0, SIZES.clamp(min=1).double().pow(-0.5), 0.0)
    torch.testing.assert_close(shares, expected[:, None].expand(5, 2))


def test_no_gradient_flows_to_the_sizes():
    sizes = SIZES.double().requires_grad_()
    x = torch.rand(7, 3, dtype=torch.float64, requires_grad=True)
    (by_sizes,) = torch.autograd.grad(pool(x, 2.0, 0.3, sizes).sum(), sizes, allow_unused=True)
    assert by_sizes is None


def test_transforms_agree_with_the_loop():
    x = torch.randn(4, 7, 3, dtype=torch.float64)
    p = torch.rand(4, 3, dtype=torch.float64) + 1
    sizes = torch.stack([SIZES * (k + 1) + 1 for k in range(4)])

    def loss(x, p, sizes):
        return pool(x, p, 0.3, sizes).square().sum()

    for shared in (True, False):
        dims = (0, 0, None if shared else 0)
        given = sizes[0] if shared else sizes
        expected = torch.stack([grad(loss)(x[k], p[k], given if shared else given[k]) for k in range(4)])
        torch.testing.assert_close(vmap(grad(loss), dims)(x, p, given), expected)
    by_p = jacfwd(loss, argnums=1)(x[0], p[0], sizes[0])
    torch.testing.assert_close(by_p, jacrev(loss, argnums=1)(x[0], p[0], sizes[0]))


def test_compiled_without_a_break():
    torch.compiler.reset()
    x = torch.rand(7, 3, requires_grad=True)

    def step(x, sizes):
        return norm_pool(x, INDEX, p=2.0, q=0.3, dim_size=5, sizes=sizes)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    y = compiled(x, SIZES)
    assert torch.equal(y, step(x, SIZES))
    torch.testing.assert_close(*(torch.autograd.grad(z.sum(), x)[0] for z in (y, step(x, SIZES))))
    with pytest.raises(ValueError, match="'sizes' must be above 0 and finite, got 0 at position 0"):
        compiled(x, torch.zeros(5, dtype=torch.int64))


def test_opcheck():
    ptr = torch.tensor([0, 2, 2, 7])
    torch.library.opcheck(torch.ops.gnpool.checked_sizes.default, (torch.tensor([2, 0, 9]), ptr, "sizes"))
    assert library.checked_sizes(torch.tensor([2, 0, 9]), ptr, "sizes").tolist() == [2, 0, 9]


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ([1, 2], TypeError, "'sizes' must be a tensor of integers or floating point numbers, got list"),
        (torch.ones(5, dtype=torch.bool), TypeError, "got torch.bool"),
        (torch.ones(4), ValueError, "'sizes' must have one value for each of the 5 segments, got shape (4,)"),
        (torch.ones(5, 1), ValueError, "got shape (5, 1)"),
        (torch.tensor([3, 1, 3, 1, -1]), ValueError, "'sizes' must be above 0 and finite, got -1 at position 4"),
        (torch.tensor([3.0, 1.0, torch.nan, 1.0, 2.0]), ValueError, "got nan at position 2"),
        (torch.tensor([3.0, 1.0, 3.0, 1.0, inf]), ValueError, "got inf at position 4"),
    ],
    ids=str,
)
def test_errors(sizes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        norm_pool(torch.rand(7, 2), INDEX, p=1.0, dim_size=5, sizes=sizes)
    ends = torch.stack([torch.arange(7), INDEX])
    with pytest.raises(error, match=re.escape(message)):
        norm_pool_neighbors(torch.rand(7, 2), ends, p=1.0, dim_size=5, sizes=sizes)


@pytest.mark.parametrize("coordinates", ["growth", "published"])
def test_layers(coordinates, backend):
    """The fused convolution, its plain path, and the aggregation by itself agree; sizes matter in both."""
    aggr = scatter_exponents(GNPAggregation(3, coordinates=coordinates))
    x = torch.rand(7, 3)
    pooled = aggr(x[EDGES[0]], EDGES[1], dim_size=7, sizes=DEGREES)
    assert not torch.allclose(pooled, aggr(x[EDGES[0]], EDGES[1], dim_size=7))
    conv = GNPConv(torch.nn.Identity(), GNPAggregation(3, coordinates=coordinates))
    conv.aggr_module.load_state_dict(aggr.state_dict())
    torch.testing.assert_close(conv(x, EDGES, sizes=DEGREES), pooled + x)
    conv.register_message_forward_hook(lambda module, inputs, output: None)  # the plain path
    torch.testing.assert_close(conv(x, EDGES, sizes=DEGREES), pooled + x)
    three = aggr(x[None].expand(2, -1, -1)[:, EDGES[0]], EDGES[1], dim_size=7, sizes=DEGREES)
    torch.testing.assert_close(three, pooled.expand(2, -1, -1))
