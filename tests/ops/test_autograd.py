"""Tests derivatives to second order, and torch.func in all compositions."""

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from gnpool import norm_pool, norm_pool_neighbors
from gnpool.ops.functional import pool_neighbors

pytestmark = pytest.mark.usefixtures("backend")

INDEX = torch.tensor([0, 2, 0, 2, 2, 0, 4])
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0], [1, 0, 1, 1, 3, 3, 3, 2]])


def leaf(*shape, low=None):
    t = torch.randn(shape, dtype=torch.float64) if low is None else torch.rand(shape, dtype=torch.float64) + low
    return t.requires_grad_()


def exponents():
    p = torch.tensor([1.3, -2.0, 4.0], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    return p, q


@pytest.mark.parametrize("wanted", ["x", "p", "q", "xp", "xq", "pq", "xpq"])
def test_gradcheck_of_every_combination(wanted):
    given = dict(zip("xpq", (leaf(7, 3), *exponents()), strict=True))
    arguments = [t if name in wanted else t.detach() for name, t in given.items()]

    def pool(x, p, q):
        return norm_pool(x, INDEX, p=p, q=q, dim_size=5)

    assert gradcheck(pool, arguments, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(pool, arguments, check_fwd_over_rev=True)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.3])
def test_gradcheck_with_scalars_and_any_eps(eps):
    x, p, q = leaf(6, 2), torch.tensor(2.5, dtype=torch.float64, requires_grad=True), leaf()
    for sign in (1, -1):
        assert gradcheck(lambda x, p, q, sign=sign: norm_pool(x, p=sign * p, q=q, eps=eps), (x, p, q))
        assert gradgradcheck(lambda x, p, q, sign=sign: norm_pool(x, p=sign * p, q=q, eps=eps), (x, p, q))


@pytest.mark.parametrize("p", [math.inf, -math.inf])
def test_gradcheck_at_infinite_p(p):
    x, q = leaf(7, 3), leaf()
    assert gradcheck(lambda x, q: norm_pool(x, INDEX, p=p, q=q), (x, q))
    assert gradgradcheck(lambda x, q: norm_pool(x, INDEX, p=p, q=q), (x, q))


def test_gradcheck_of_neighbors_with_weights():
    x, weight, (p, q) = leaf(7, 3), leaf(8, low=0.2), exponents()

    def pool(x, p, q, weight):
        return norm_pool_neighbors(x, EDGES, p=p, q=q, edge_weight=weight)

    assert gradcheck(pool, (x, p, q, weight), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(pool, (x, p, q, weight), check_fwd_over_rev=True)
    assert gradcheck(lambda w: pool(x.detach(), p.detach(), q.detach(), w), (weight,))


def test_gradcheck_of_the_relu_form():
    x, weight = leaf(7, 3), leaf(8)
    p, q = exponents()

    def pool(x, p, q, weight):
        return pool_neighbors(x, EDGES, p=p, q=q, edge_weight=weight, dim_size=None, eps=1e-6, relu=True)

    assert gradcheck(pool, (x, p, q, weight))
    assert gradgradcheck(pool, (x, p, q, weight))


def test_second_derivative_of_removed_and_zero_rows_is_finite():
    x = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    for p in (0.5, 1.0, 1.5, -1.5, math.inf):
        (first,) = torch.autograd.grad(norm_pool(x, p=p, eps=0.0).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        assert second[0].item() == 0.0, p
        assert second.isfinite().all(), p


def loss(x, p):
    return norm_pool(x, INDEX, p=p, q=0.3, dim_size=5).square().sum()


def replicas(count=4):
    return torch.randn(count, 7, 3, dtype=torch.float64), torch.rand(count, 3, dtype=torch.float64) + 1


def stacked(function, *columns):
    results = [function(*row) for row in zip(*columns, strict=True)]
    if isinstance(results[0], torch.Tensor):
        return torch.stack(results)
    return tuple(torch.stack(column) for column in zip(*results, strict=True))


def assert_same(actual, expected):
    for a, b in zip(*((t,) if isinstance(t, torch.Tensor) else t for t in (actual, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_vmap_is_the_loop():
    x, p = replicas()
    assert_same(vmap(loss)(x, p), stacked(loss, x, p))
    assert_same(vmap(loss, (0, None))(x, p[0]), stacked(lambda x: loss(x, p[0]), x))
    assert_same(vmap(loss, (None, 0))(x[0], p), stacked(lambda p: loss(x[0], p), p))
    assert_same(vmap(loss, (2, 1))(x.movedim(0, 2), p.t()), stacked(loss, x, p))


def test_vmap_of_grad_and_grad_of_vmap():
    x, p = replicas()
    expected = stacked(grad(loss, (0, 1)), x, p)
    assert_same(vmap(grad(loss, (0, 1)))(x, p), expected)
    assert_same(grad(lambda x, p: vmap(loss)(x, p).sum(), (0, 1))(x, p), expected)


def test_autograd_through_one_vmap():
    x, p = (t.requires_grad_() for t in replicas())
    weight = torch.rand(8, dtype=torch.float64, requires_grad=True)  # shared: its gradient is a sum over replicas

    def one(x, p):
        return norm_pool_neighbors(x, EDGES, p=p, q=0.3, edge_weight=weight).square().sum()

    def derivatives(total):
        first = torch.autograd.grad(total, (x, p, weight), create_graph=True)
        return *first, *torch.autograd.grad(sum(g.square().sum() for g in first), (x, p, weight))

    assert_same(derivatives(vmap(one)(x, p).sum()), derivatives(stacked(one, x, p).sum()))


def test_nested_vmap():
    x = torch.randn(2, 3, 7, 3, dtype=torch.float64)
    p = torch.rand(2, 3, dtype=torch.float64) + 1
    inner = vmap(grad(loss), (0, None))
    expected = torch.stack([stacked(lambda x, k=k: grad(loss)(x, p[k]), x[k]) for k in range(2)])
    assert_same(vmap(inner)(x, p), expected)


def test_vmap_over_index_ptr_and_weights():
    x, p = replicas()
    index = torch.randint(0, 5, (4, 7))
    assert_same(
        vmap(lambda x, i, p: norm_pool(x, i, p=p, dim_size=5))(x, index, p),
        stacked(lambda x, i, p: norm_pool(x, i, p=p, dim_size=5), x, index, p),
    )
    ptr = torch.tensor([[0, 3, 7], [0, 0, 7], [0, 7, 7], [0, 6, 7]])
    assert_same(
        vmap(lambda x, ptr: norm_pool(x, ptr=ptr, p=-2.0))(x, ptr),
        stacked(lambda x, ptr: norm_pool(x, ptr=ptr, p=-2.0), x, ptr),
    )
    weight = torch.rand(4, 8, dtype=torch.float64)

    def weighted(x, p, w):
        return norm_pool_neighbors(x, EDGES, p=p, edge_weight=w).square().sum()

    expected = stacked(grad(weighted, (0, 1, 2)), x, p, weight)
    assert_same(vmap(grad(weighted, (0, 1, 2)))(x, p, weight), expected)
    shared = stacked(lambda x, p: grad(weighted, (0, 1, 2))(x, p, weight[0]), x, p)
    assert_same(vmap(grad(weighted, (0, 1, 2)), (0, 0, None))(x, p, weight[0]), shared)


def test_jvp_is_the_directional_derivative():
    x, p = (t[0] for t in replicas())
    directions = torch.randn_like(x), torch.randn_like(p)
    value, tangent = jvp(loss, (x, p), directions)
    by_x, by_p = grad(loss, (0, 1))(x, p)
    assert value.item() == pytest.approx(loss(x, p).item(), rel=1e-13)
    assert tangent.item() == pytest.approx(
        ((by_x * directions[0]).sum() + (by_p * directions[1]).sum()).item(), rel=1e-12
    )


def test_second_order_by_every_mode():
    x, p = (t[0] for t in replicas())
    expected = torch.autograd.functional.hessian(lambda x: loss(x, p), x)
    for second in (hessian, lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f))):
        torch.testing.assert_close(second(loss)(x, p), expected, rtol=1e-11, atol=1e-12)


def test_grad_of_grad_is_the_second_derivative():
    x = torch.rand(6, 1, dtype=torch.float64) + 0.1
    p, q = torch.tensor(2.0, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)
    functions = {
        "p": (lambda p: norm_pool(x, p=p, q=0.5).squeeze(), p),
        "q": (lambda q: norm_pool(x, p=2.0, q=q).squeeze(), q),
    }
    for name, (function, at) in functions.items():
        leaf = at.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(leaf), leaf, create_graph=True)
        (expected,) = torch.autograd.grad(first, leaf)
        found = torch.func.grad(torch.func.grad(function))(at)
        torch.testing.assert_close(found, expected, msg=name)
        torch.testing.assert_close(torch.vmap(torch.func.grad(torch.func.grad(function)))(at[None]), expected[None])


def test_a_frozen_weight_and_a_learned_one_share_the_layout():
    x, weight = leaf(7, 3), torch.rand(8, dtype=torch.float64)
    y = norm_pool_neighbors(x, EDGES, p=2.0, edge_weight=weight)
    (gx,) = torch.autograd.grad(y.sum(), x)
    weight.requires_grad_()
    y = norm_pool_neighbors(x, EDGES, p=2.0, edge_weight=weight)
    assert torch.equal(torch.autograd.grad(y.sum(), (x, weight))[0], gx)
