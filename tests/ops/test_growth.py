"""The growth form, n^growth M_p: values and derivatives through p = 0, its edges, and what must hold everywhere."""

import itertools
import math
import re

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from gnpool import norm_pool, norm_pool_neighbors
from gnpool.ops.invariance import relative_error
from tests.ops.oracle import growth_pool_oracle

pytestmark = pytest.mark.usefixtures("backend")

INTERPRETED = torch.get_default_device().type == "cpu"
inf, nan = math.inf, math.nan
ROOT2 = math.sqrt(2)
TINY = 2.0**-140  # denormal in float32

HALF = (1e-6, 0.01, 0.2, 0.3, 0.99, 1.0, 2.0, 7.0, 50.0, inf)
P = (0.0, *HALF, *(-p for p in HALF))
GROWTH = (-1.0, 0.0, 0.4, 1.0, 2.0)
SIZES = (0, 1, 2, 31, 10_000)
GRID = list(itertools.product(P, GROWTH))
MAGNITUDES = {"tiny": (-4, -4), "one": (0, 0), "large": (6, 6), "all": (-4, 6)}


def rows(magnitude, dtype, zeros):
    """Sign times 10^U(low, high) times U(1/2, 1), one channel for each (p, growth); a tenth is 0, or small if kept."""
    low, high = MAGNITUDES[magnitude]
    shape = (sum(SIZES), len(GRID))
    x = 10 ** torch.empty(shape, dtype=torch.float64).uniform_(low, high) * (torch.rand(shape).double() / 2 + 0.5)
    x = x * torch.where(torch.rand(shape) < 0.5, -1.0, 1.0)
    x = x * torch.where(torch.rand(shape) < 0.1, 0.0 if zeros == "remove" else 1e-3, 1.0)
    index = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    order = torch.randperm(index.numel())
    return x[order].to(dtype), index[order]


@pytest.mark.parametrize("zeros", ["keep", "remove"])
@pytest.mark.parametrize("magnitude", MAGNITUDES)
@pytest.mark.parametrize(
    ("dtype", "value_bound", "gradient_bound"), [(torch.float32, 2e-6, 1e-5), (torch.float64, 1e-12, 1e-11)]
)
def test_grid(backend, magnitude, dtype, value_bound, gradient_bound, zeros):
    if backend == "triton" and INTERPRETED and magnitude != "all":
        pytest.skip("the interpreter is slow: one magnitude there, all of them on a GPU")
    x, index = rows(magnitude, dtype, zeros)
    p, growth = (torch.tensor(column, dtype=torch.float64) for column in zip(*GRID, strict=True))
    expected, *expected_grads = growth_pool_oracle(x, index, p.tolist(), growth.tolist(), len(SIZES), zeros=zeros)

    inputs = x.requires_grad_(), p.requires_grad_(), growth.requires_grad_()
    y = norm_pool(x, index, p=p, growth=growth, dim_size=len(SIZES), zeros=zeros)
    assert y.dtype == dtype
    assert relative_error(y.detach().double(), expected) <= value_bound

    grads = torch.autograd.grad(y.sum(), inputs)
    for name, grad, reference in zip(("x", "p", "growth"), grads, expected_grads, strict=True):
        # n^growth spans twelve decades: the largest gradient is that of the channel, for p that of equal growth
        scale = reference.reshape(-1, len(GRID)).abs().amax(0)
        if name == "p":
            scale = scale.view(len(P), len(GROWTH)).amax(0).repeat(len(P))
        error = (grad.double() - reference).abs().reshape(-1, len(GRID)).amax(0)
        worst = (error / scale).max()
        assert worst <= gradient_bound, f"gradient in {name}: {worst:.1e} of the largest"


KEEP, REMOVE = {"zeros": "keep", "eps": 0}, {"zeros": "remove", "eps": 0}
FAR_DOWN = {"zeros": "remove", "eps": 0.25, "growth": 0}

# id: rows of one channel, arguments, expected y by segment, expected gradient of y.sum() by row (None: not looked at)
VALUES = {
    "sum": ([1, 2, 4], {"p": 1, "growth": 1, "eps": 0}, [7], [1, 1, 1]),
    "mean": ([1, 2, 4], {"p": 1, "growth": 0, "eps": 0}, [7 / 3], [1 / 3] * 3),
    "max": ([1, 4, 2], {"p": inf, "growth": 0, "eps": 0}, [4], [0, 1, 0]),
    "min": ([2, 1, 4], {"p": -inf, "growth": 0, "eps": 0}, [1], [0, 1, 0]),
    "harmonic mean": ([1, 2, 4], {"p": -1, "growth": 0, "eps": 0}, [12 / 7], [48 / 49, 12 / 49, 3 / 49]),
    "harmonic sum": ([1, 2, 4], {"p": -1, "growth": -1, "eps": 0}, [4 / 7], [16 / 49, 4 / 49, 1 / 49]),
    "Euclidean norm": ([3, 4], {"p": 2, "growth": 0.5, "eps": 0}, [5], [0.6, 0.8]),
    "geometric mean": ([1, 2, 4], {"p": 0, "growth": 0, "eps": 0}, [2], [2 / 3, 1 / 3, 1 / 6]),
    "geometric mean, 0.0": ([1, 2, 4], {"p": 0.0, "growth": 0, "eps": 0}, [2], [2 / 3, 1 / 3, 1 / 6]),
    "geometric mean that grows": ([1, 2, 4], {"p": 0, "growth": 1, "eps": 0}, [6], [2, 1, 0.5]),
    "geometric mean takes eps": ([1, 7], {"p": 0, "growth": 0, "eps": 1}, [4], [1, 0.25]),
    "next to 0": ([1, 2, 4], {"p": 1e-300, "growth": 0, "eps": 0}, [2], [2 / 3, 1 / 3, 1 / 6]),
    "next to 0, below": ([1, 2, 4], {"p": -1e-20, "growth": 0, "eps": 0}, [2], [2 / 3, 1 / 3, 1 / 6]),
    "p = 0 in a tensor": ([1, 2, 4], {"p": torch.tensor([0.0]), "growth": 0, "eps": 0}, [2], [2 / 3, 1 / 3, 1 / 6]),
    "growth in a tensor": ([1, 4], {"p": 0, "growth": torch.tensor(1.0), "eps": 0}, [4], [2, 0.5]),
    "square root": ([1, 4], {"p": 0.5, "growth": 0, "eps": 0}, [2.25], [0.75, 0.375]),
    "a fifth": ([1, 32], {"p": 0.2, "growth": 0, "eps": 0}, [1.5**5], [1.5**4 / 2, 1.5**4 / 32]),
    "minus a fifth": ([1, 32], {"p": -0.2, "growth": 0, "eps": 0}, [0.75**-5], [0.75**-6 / 2, 0.75**-6 / 128]),
    "ties of max share": ([4, -4, 2], {"p": inf, "growth": 0, "eps": 0}, [4], [0.5, -0.5, 0]),
    "ties of min share": ([1, 1, 2], {"p": -inf, "growth": 1, "eps": 0}, [3], [1.5, 1.5, 0]),
    "zeros kept, mean": ([0, 2, 4], {"p": 1, "growth": 0, **KEEP}, [2], [0, 1 / 3, 1 / 3]),
    "zeros kept, harmonic mean": ([0, 0.75], {"p": -1, "growth": 0, "eps": 0.25}, [0.4], [0, 0.08]),
    "zeros kept, geometric mean": ([0, 3.75], {"p": 0, "growth": 0, "eps": 0.25}, [1], [0, 0.125]),
    "zeros kept, min": ([0, 2], {"p": -inf, "growth": 0, "eps": 0.25}, [0.25], [0, 0]),
    "zeros kept, min, no eps": ([0, 2], {"p": -inf, "growth": 0, **KEEP}, [0], [0, 0]),
    "zeros kept, p < 0, no eps": ([0, 2], {"p": -1, "growth": 0, **KEEP}, [0], [0, 0]),
    "zeros kept, p << 0, no eps": ([0, 1e-6], {"p": -50, "growth": 0, **KEEP}, [0], [0, 0]),
    "zeros kept, p = 0, no eps": ([0, 2], {"p": 0, "growth": 0, **KEEP}, [0], [0, 0]),
    "zeros kept, small p, no eps": ([0, 2], {"p": 0.2, "growth": 0, **KEEP}, [1 / 16], [0, 1 / 32]),
    "zeros only, kept": ([0, 0], {"p": 0, "growth": 0, "eps": 0.25}, [0.25], [0, 0]),
    "zeros only, kept, no eps": ([0, 0], {"p": 0, "growth": 0, **KEEP}, [0], [0, 0]),
    "zeros only, kept, no eps, p > 0": ([0, 0], {"p": 2, "growth": 0, **KEEP}, [0], [0, 0]),
    "at eps is kept": ([0.25, 1], {"p": 1, "growth": 0, "eps": 0.25}, [0.875], [0.5, 0.5]),
    "zeros removed, mean": ([0, 2, 4], {"p": 1, "growth": 0, **REMOVE}, [3], [0, 0.5, 0.5]),
    "zeros removed, harmonic mean": ([0, 2, 4], {"p": -1, "growth": 0, **REMOVE}, [8 / 3], [0, 8 / 9, 2 / 9]),
    "zeros removed, geometric mean": ([0, 2, 8], {"p": 0, "growth": 0, **REMOVE}, [4], [0, 1, 0.25]),
    "zeros removed, min": ([0, 2, 4], {"p": -inf, "growth": 0, **REMOVE}, [2], [0, 1, 0]),
    "zeros removed, max": ([0, 2, 4], {"p": inf, "growth": 0, **REMOVE}, [4], [0, 0, 1]),
    "n counts removed rows": ([0, 2, 4], {"p": 1, "growth": 1, **REMOVE}, [9], [0, 1.5, 1.5]),
    "n counts removed rows, p = 0": ([0, 2, 8], {"p": 0, "growth": 1, **REMOVE}, [12], [0, 3, 0.75]),
    "at eps is removed": ([0.25, 1], {"p": 1, **FAR_DOWN}, [1.25], [0, 1]),
    "all removed": ([0.1, 0.25], {"p": 1, **FAR_DOWN}, [0], [0, 0]),
    "all removed, p < 0": ([0.1, 0.25], {"p": -1, **FAR_DOWN}, [0], [0, 0]),
    "all removed, p = 0": ([0.1, 0.25], {"p": 0, **FAR_DOWN}, [0], [0, 0]),
    "all removed, max": ([0.1, 0.25], {"p": inf, **FAR_DOWN}, [0], [0, 0]),
    "negatives count by size": ([-1, 4], {"p": 0, "growth": 0, "eps": 0}, [2], [-1, 0.25]),
    "denormals": ([TINY, TINY], {"p": 0, "growth": 0, "eps": 0}, [TINY], [0.5, 0.5]),
    "a denormal beside 1": ([TINY, 1], {"p": 0, "growth": 0, "eps": 0}, [2.0**-70], [2.0**69, 2.0**-71]),
    "nan": ([nan, 1], {"p": 1, "growth": 0}, [nan], [nan, nan]),
    "nan, p = 0": ([nan, 1], {"p": 0, "growth": 0}, [nan], [nan, nan]),
    "nan, p < 0": ([1, nan], {"p": -1, "growth": 0}, [nan], [nan, nan]),
    "nan, min": ([1, nan], {"p": -inf, "growth": 0}, [nan], [nan, nan]),
    "nan, removed zeros": ([0, nan, 1], {"p": 0, "growth": 0, "zeros": "remove"}, [nan], [0, nan, nan]),
    "nan stays in its segment": (
        [nan, 1, 4], {"p": 0, "growth": 0, "eps": 0, "index": [0, 1, 1]}, [nan, 2], [nan, 1, 0.25],
    ),
    "p = nan in a tensor": ([1, 2], {"p": torch.tensor(nan), "growth": 0, "dim_size": 1}, [nan], [nan, nan]),
    "inf, p > 0": ([1, inf], {"p": 2, "growth": 0, "eps": 0}, [inf], [0, 1 / ROOT2]),
    "inf, mean": ([1, inf], {"p": 1, "growth": 0, "eps": 0}, [inf], [0.5, 0.5]),
    "inf, p < 0": ([2, inf], {"p": -1, "growth": 0, "eps": 0}, [4], [2, 0]),
    "inf, p just below 0": ([1, inf], {"p": -0.1, "growth": 0, "eps": 0}, [1024], [1024, 0]),
    "inf, p just above 0": ([1, inf], {"p": 0.1, "growth": 0, "eps": 0}, [inf], [inf, 2**-10]),
    "inf, p = 0": ([1, inf], {"p": 0, "growth": 0, "eps": 0}, [inf], None),
    "inf alone, p = 0": ([inf, inf], {"p": 0, "growth": 0}, [inf], [0.5, 0.5]),
    "inf alone, p < 0": ([inf, inf], {"p": -1, "growth": 0}, [inf], [0.5, 0.5]),
    "inf, min": ([inf, 1], {"p": -inf, "growth": 0, "eps": 0}, [1], [0, 1]),
    "inf and a removed row, p = 0": ([0, inf], {"p": 0, "growth": 0, "zeros": "remove"}, [inf], [0, 1]),
    "one element": ([-3], {"p": 7.5, "growth": 2, "eps": 0}, [3], [-1]),
    "one element, p = 0": ([-3], {"p": 0, "growth": 2, "eps": 0}, [3], [-1]),
    "empty segments": (
        [1, 4], {"p": 0, "growth": 0, "eps": 0, "index": [1, 1], "dim_size": 3}, [0, 2, 0], [1, 0.25],
    ),
    "empty segments, growth < 0": ([2], {"p": 1, "growth": -1, "eps": 0, "index": [1]}, [0, 2], [1]),
    "no rows": ([], {"p": 0, "growth": 0}, [0], []),
    "unsorted": ([1, 2, 4, 8], {"p": 0, "growth": 0, "eps": 0, "index": [1, 0, 1, 0]}, [4, 2], [1, 1, 0.25, 0.25]),
}  # fmt: skip


def arguments(options):
    given = {**options, "index": torch.tensor(options["index"])} if "index" in options else dict(options)
    if given.get("dim_size") == 1:
        del given["dim_size"]
    return given


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("row", VALUES)
def test_value_and_gradient(row, dtype):
    values, options, expected, expected_grad = VALUES[row]
    x = torch.tensor(values, dtype=dtype)[:, None].requires_grad_()
    y = norm_pool(x, **arguments(options))
    (grad,) = torch.autograd.grad(y.sum(), x)
    exact = {"rel": 2e-6 if dtype == torch.float32 else 1e-12, "abs": 0.0, "nan_ok": True}
    assert y.squeeze(1).tolist() == pytest.approx(expected, **exact)
    if expected_grad is not None:
        assert grad.squeeze(1).tolist() == pytest.approx(expected_grad, **exact)
    assert torch.equal(norm_pool(x.detach(), **arguments(options)).nan_to_num(), y.detach().nan_to_num()), "no gradient"


def test_gradients_of_p_and_growth_at_the_edges():
    def grads(values, p, growth=0.0, **options):
        p, growth = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (p, growth))
        x = torch.tensor(values, dtype=torch.float64)[:, None]
        y = norm_pool(x, p=p, growth=growth, **{"eps": 0.0, **options})
        return [g.item() for g in torch.autograd.grad(y.sum(), (p, growth))]

    log2 = math.log(2)
    spread = log2**2 / 8  # half the variance of the logarithms of 1 and 2
    assert grads([1, 2], 0.0) == pytest.approx([ROOT2 * spread, ROOT2 * log2], rel=1e-12)
    assert grads([1, 2], 1e-9) == pytest.approx([ROOT2 * spread, ROOT2 * log2], rel=1e-8)
    assert grads([0, 1, 2], 0.0, 1.0, zeros="remove") == pytest.approx(
        [3 * ROOT2 * spread, 3 * ROOT2 * math.log(3)], rel=1e-12
    )
    assert grads([1, 2], inf) == [0, pytest.approx(2 * log2)]
    assert grads([1, 2], -inf) == [0, pytest.approx(log2)]
    # at p = 1 the derivative of log M_p is sum w log(w / (1/k)) with the shares w
    third = math.log(2 / 3) / 3 + 2 * math.log(4 / 3) / 3
    assert grads([1, 2], 1.0)[0] == pytest.approx(1.5 * third, rel=1e-12)
    for p in (0.0, 0.1, -0.1, 3.0, -3.0):
        assert grads([5], p) == [0, 0]
        assert grads([], p) == [0, 0]
        assert grads([0, 0], p) == [0, 0]
        assert grads([0, 0], p, zeros="remove", eps=1e-6) == [0, 0]
        assert grads([7, 7, -7], p) == [0, pytest.approx(7 * math.log(3))]


@pytest.mark.parametrize("edge", [0.25, -0.25, 0.5, -0.5, 0.1, -0.1, 1e-9])
def test_no_step_in_p(edge):
    """Kernels may treat small and large exponents differently, but both give the same where they meet."""
    x, index = torch.randn(700, 1, dtype=torch.float64) ** 5, torch.arange(700) % 2
    terms = []
    for p in (edge * (1 - 1e-13), edge, edge * (1 + 1e-13)):
        p = torch.tensor(p, dtype=torch.float64, requires_grad=True)
        y = norm_pool(x, index, p=p, growth=0.5)
        terms.append((y.detach(), *torch.autograd.grad(y.sum(), p)))
    for other in (terms[0], terms[2]):
        assert relative_error(other[0], terms[1][0]) < 1e-11
        assert relative_error(other[1], terms[1][1]) < 1e-10


@pytest.mark.parametrize("zeros", ["keep", "remove"])
@pytest.mark.parametrize("p", [0.0, 1e-6, -1e-6, 0.3, -0.3, 2.0, -1.0])
def test_gradcheck(backend, p, zeros):
    if backend == "triton" and INTERPRETED and abs(p) not in (0.0, 0.3):
        pytest.skip("the interpreter is slow")
    x = (torch.rand(7, 2, dtype=torch.float64) + 0.5) * torch.tensor([1.0, -1.0])
    x[3, 0] = 1e-9  # kept as eps, or removed
    x[3, 1] = 2.0
    fixed, x = x[3:4].clone(), torch.cat([x[:3], x[4:]]).requires_grad_()
    index = torch.tensor([0, 0, 2, 2, 2, 0, 2])
    p = torch.tensor([p, p + 0.01], dtype=torch.float64, requires_grad=True)
    growth = torch.tensor([0.4, -1.0], dtype=torch.float64, requires_grad=True)

    def pool(x, p, growth):
        return norm_pool(torch.cat([x, fixed]), index, p=p, growth=growth, eps=1e-3, zeros=zeros)

    assert torch.autograd.gradcheck(pool, (x, p, growth))
    assert torch.autograd.gradgradcheck(pool, (x, p, growth))


@pytest.mark.parametrize("zeros", ["keep", "remove"])
@pytest.mark.parametrize("weighted", [False, True])
def test_neighbors_equal_the_gathered_form(weighted, zeros):
    N, M, E = 30, 20, 200
    x = torch.randn(N, 8, dtype=torch.float64)
    x[::4] = 0.0
    x.requires_grad_()
    edge_index = torch.stack([torch.randint(0, N, (E,)), torch.randint(0, M, (E,))])
    weight = torch.randn(E, dtype=torch.float64, requires_grad=True)
    p = torch.tensor([0.0, 0.1, -0.1, 1.0, 2.3, -1.0, inf, -inf], dtype=torch.float64, requires_grad=True)
    growth = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    messages = weight[:, None] * x[edge_index[0]] if weighted else x[edge_index[0]]
    inputs = (x, p, growth, weight) if weighted else (x, p, growth)
    options = {"p": p, "growth": growth, "dim_size": M, "eps": 1e-3, "zeros": zeros}
    expected = norm_pool(messages, edge_index[1], **options)
    actual = norm_pool_neighbors(x, edge_index, edge_weight=weight if weighted else None, **options)
    assert relative_error(actual.detach(), expected.detach()) < 1e-12
    coefficient = torch.randn(M, 8, dtype=torch.float64)
    grads = (torch.autograd.grad((y * coefficient).sum(), inputs) for y in (actual, expected))
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("zeros", ["keep", "remove"])
def test_equals_the_q_form_where_no_value_is_0(zeros):
    x = (torch.rand(60, 8, dtype=torch.float64) + 0.1) * 10 ** torch.linspace(-3, 3, 60, dtype=torch.float64)[:, None]
    index = torch.randint(0, 7, (60,))
    p = torch.tensor([0.3, -0.3, 0.9, 1.0, -1.0, 2.5, -20.0, inf], dtype=torch.float64)
    growth = torch.linspace(-1, 2, 8, dtype=torch.float64)
    by_growth, by_q = (t.clone().requires_grad_() for t in (x, x))
    expected = norm_pool(by_q, index, p=p, q=1 / p - growth)
    actual = norm_pool(by_growth, index, p=p, growth=growth, zeros=zeros)
    assert relative_error(actual.detach(), expected.detach()) < 1e-12
    expected.sum().backward()
    actual.sum().backward()
    assert relative_error(by_growth.grad, by_q.grad) < 1e-11


def test_nan_in_one_channel_leaves_the_others_alone():
    x = torch.rand(3, 3) + 0.5
    p, growth = torch.tensor([0.0, 0.1, -1.0]), torch.tensor(0.5)
    results = []
    for value in (1.0, nan):
        leaf, exponent = x.clone().index_fill_(1, torch.tensor([1]), value).requires_grad_(), p.clone().requires_grad_()
        y = norm_pool(leaf, p=exponent, growth=growth)
        results.append((y.detach(), *torch.autograd.grad(y.sum(), (leaf, exponent))))
    for clean, hurt in zip(*results, strict=True):
        assert hurt[..., 1].isnan().all()
        assert torch.equal(hurt[..., ::2], clean[..., ::2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_the_rounded_float32_result(dtype):
    x, index = (torch.rand(500, 4) * 3 + 0.1).to(dtype), torch.randint(0, 7, (500,))
    p = torch.tensor([0.0, 2.5, -0.1, -20.0])
    actual = norm_pool(x, index, p=p, growth=0.5)
    assert actual.dtype == dtype
    assert torch.equal(actual, norm_pool(x.float(), index, p=p, growth=0.5).to(dtype))


def test_the_same_bits_for_any_number_of_threads(backend):
    if backend == "triton" and INTERPRETED:
        pytest.skip("the interpreter is slow and has one thread")
    x, index = torch.randn(30_000, 8), torch.randint(0, 40, (30_000,)) ** 2 // 40
    p = torch.tensor([1.0, 0.0, 0.1, 50.0, -1.0, -0.2, -50.0, inf], requires_grad=True)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 8):
            torch.set_num_threads(threads)
            leaf = x.detach().requires_grad_()
            y = norm_pool(leaf, index, p=p, growth=0.3)
            results.append((y, *torch.autograd.grad(y.square().sum(), (leaf, p))))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for name, a, b in zip(("y", "x", "p"), results[0], other, strict=True):
            assert torch.equal(a, b), name


X = torch.ones(4, 3)
ERRORS = {
    "q and growth": (
        lambda: norm_pool(X, p=1, q=0.0, growth=0.0),
        "norm_pool: pass either 'q' or 'growth', not both; growth = 1/p - q",
    ),
    "q and growth of edges": (
        lambda: norm_pool_neighbors(X, torch.zeros(2, 1).long(), p=1, q=1.0, growth=0.0),
        "norm_pool_neighbors: pass either 'q' or 'growth', not both; growth = 1/p - q",
    ),
    "another word for zeros": (
        lambda: norm_pool(X, p=1, growth=0.0, zeros="drop"),
        "norm_pool: 'zeros' must be one of ('keep', 'remove'), got 'drop'",
    ),
    "growth of another size": (
        lambda: norm_pool(X, p=1, growth=torch.ones(4)),
        ("norm_pool: 'growth' must be a number, a 0-d tensor or a tensor of shape (3,), one value per channel; "
         "got shape (4,)"),
    ),
    "growth = nan": (lambda: norm_pool(X, p=1, growth=nan), "norm_pool: 'growth' must be a number, got nan"),
}  # fmt: skip


@pytest.mark.parametrize("row", ERRORS)
def test_error(row):
    call, text = ERRORS[row]
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        call()


anywhere = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
EXPONENTS = st.one_of(st.floats(-60.0, 60.0), st.floats(-0.5, 0.5), st.sampled_from([0.0, 1.0, -1.0, inf, -inf]))
ROUNDING = 1e-12  # float64


@st.composite
def pooled(draw):
    """x (N, 2) without a 0, index, number of segments, growth."""
    rows, segments = draw(st.integers(0, 40)), draw(st.integers(1, 6))
    generator = torch.Generator(torch.get_default_device()).manual_seed(draw(st.integers(0, 2**31)))
    x = 10 ** (6 * torch.rand(rows, 2, dtype=torch.float64, generator=generator) - 3)
    index = torch.randint(0, segments, (rows,), generator=generator)
    return x, index, segments, draw(st.floats(-2.0, 2.0))


@anywhere
@given(pooled(), EXPONENTS, EXPONENTS, st.sampled_from(["keep", "remove"]))
def test_monotone_in_p(case, one, other, zeros):
    """The inequality of power means, on the whole line and through 0."""
    x, index, size, growth = case
    low, high = (norm_pool(x, index, p=p, growth=growth, dim_size=size, zeros=zeros) for p in sorted((one, other)))
    assert (low <= high * (1 + ROUNDING)).all()


@anywhere
@given(pooled(), EXPONENTS, st.floats(1e-3, 1e3))
def test_homogeneous_without_eps(case, p, factor):
    x, index, size, growth = case
    y, scaled = (norm_pool(z, index, p=p, growth=growth, dim_size=size, eps=0.0) for z in (x, factor * x))
    assert relative_error(scaled, factor * y) < ROUNDING


@anywhere
@given(st.floats(1e-3, 1e3), st.integers(1, 60), EXPONENTS, st.floats(-2.0, 2.0))
def test_equal_values_have_that_mean(value, n, p, growth):
    y = norm_pool(torch.full((n, 1), value, dtype=torch.float64), p=p, growth=growth, eps=0.0)
    assert y.item() == pytest.approx(value * n**growth, rel=ROUNDING)
