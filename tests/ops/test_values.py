"""Values and first derivatives against an independent evaluation, over the whole plane of exponents."""

import itertools
import math

import pytest
import torch

from gnpool import norm_pool, norm_pool_neighbors
from gnpool.ops.invariance import relative_error
from tests.ops.oracle import norm_pool_oracle

pytestmark = pytest.mark.usefixtures("backend")

INTERPRETED = torch.get_default_device().type == "cpu"

P = (1.0, 1.3, 2.0, 7.0, 50.0, -1.0, -1.3, -7.0, -50.0, math.inf, -math.inf)
Q = (-1.0, 0.0, 0.4, 1.0, 2.0)
SIZES = (0, 1, 2, 31, 10_000)
GRID = list(itertools.product(P, Q))
MAGNITUDES = {"tiny": (-4, -4), "one": (0, 0), "large": (6, 6), "all": (-4, 6)}


def rows(magnitude, dtype=torch.float32):
    """Sign times 10^U(low, high) times U(1/2, 1), one channel for each (p, q)."""
    low, high = MAGNITUDES[magnitude]
    shape = (sum(SIZES), len(GRID))
    x = 10 ** torch.empty(shape, dtype=torch.float64).uniform_(low, high) * (torch.rand(shape).double() / 2 + 0.5)
    x = x * torch.where(torch.rand(shape) < 0.5, -1.0, 1.0)
    index = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    order = torch.randperm(index.numel())
    return x[order].to(dtype), index[order]


@pytest.mark.parametrize("magnitude", MAGNITUDES)
@pytest.mark.parametrize(
    ("dtype", "value_bound", "gradient_bound"), [(torch.float32, 2e-6, 1e-5), (torch.float64, 1e-12, 1e-11)]
)
def test_grid(backend, magnitude, dtype, value_bound, gradient_bound):
    if backend == "triton" and INTERPRETED and magnitude != "all":
        pytest.skip("the interpreter is slow: one magnitude there, all of them on a GPU")
    x, index = rows(magnitude, dtype)
    p, q = (torch.tensor(column, dtype=torch.float64) for column in zip(*GRID, strict=True))
    expected, *expected_grads = norm_pool_oracle(x, index, p.tolist(), q.tolist(), len(SIZES))

    inputs = x.requires_grad_(), p.requires_grad_(), q.requires_grad_()
    y = norm_pool(x, index, p=p, q=q, dim_size=len(SIZES))
    assert y.dtype == dtype
    assert relative_error(y.detach().double(), expected) <= value_bound

    for name, grad, reference in zip("xpq", torch.autograd.grad(y.sum(), inputs), expected_grads, strict=True):
        # n^-q spans eight decades: the largest gradient is that of the channel, for p that of the channels of equal q
        scale = reference.reshape(-1, len(GRID)).abs().amax(0)
        if name == "p":
            scale = scale.view(len(P), len(Q)).amax(0).repeat(len(P))
        error = (grad.double() - reference).abs().reshape(-1, len(GRID)).amax(0)
        worst = (error / scale).max()
        assert worst <= gradient_bound, f"gradient in {name}: {worst:.1e} of the largest"


def test_named_points_of_the_protocol():
    x = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    cases = {
        (1, 0): 7,
        (1, 1): 7 / 3,
        (50, 0): 4.0,
        (-1, 0): 4 / 7,
        (math.inf, 0): 4,
        (-math.inf, 0): 1,
        (-1, -1): 12 / 7,
    }
    for (p, q), expected in cases.items():
        assert norm_pool(x, p=p, q=q, eps=0.0).item() == pytest.approx(expected, rel=1e-12), (p, q)
    assert norm_pool(torch.full((3, 1), 4.0), p=50).item() == pytest.approx(4 * 3 ** (1 / 50), rel=1e-6)
    assert norm_pool(torch.tensor([[0.0], [2.0], [4.0]]), p=-1).item() == pytest.approx(4 / 3, rel=1e-5)
    assert norm_pool(torch.zeros(3, 1), p=-1).item() == 0.0


def test_power_mean_that_is_not_clamped():
    x = torch.tensor([[20.0], [30.0], [40.0]], requires_grad=True)
    y = norm_pool(x, p=2, q=0.5)
    y.backward()
    assert y.item() == pytest.approx(math.sqrt(2900 / 3), rel=1e-6)
    assert x.grad.squeeze().tolist() == pytest.approx([v / math.sqrt(2900 * 3) for v in (20, 30, 40)], rel=1e-6)


def test_a_mean_of_values_whose_sum_overflows():
    x = torch.full((4, 1), 3e38)
    assert norm_pool(x, p=1, q=1).item() == pytest.approx(3e38, rel=1e-6)
    assert norm_pool(x, p=2, q=0.5).item() == pytest.approx(3e38, rel=1e-6)
    assert norm_pool(x, p=1).item() == math.inf


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_the_rounded_float32_result(backend, dtype):
    x = (torch.rand(500, 4) * 3 - 1).to(dtype)
    index = torch.randint(0, 7, (500,))
    p = torch.tensor([1.0, 2.5, -1.0, -20.0])
    wide, half = (t.detach().requires_grad_() for t in (x.float(), x))
    expected = norm_pool(wide, index, p=p, q=1.0)
    actual = norm_pool(half, index, p=p, q=1.0)
    assert actual.dtype == dtype
    assert torch.equal(actual, expected.to(dtype))
    (expected_grad,) = torch.autograd.grad(expected.sum(), wide)
    (grad,) = torch.autograd.grad(actual.sum(), half)
    assert grad.dtype == dtype
    if backend == "triton":  # another layout of the block sums in another order, and the interpreter cuts bits off
        unit = torch.finfo(dtype)
        torch.testing.assert_close(grad.float(), expected_grad, rtol=unit.eps, atol=unit.tiny)
    else:
        assert torch.equal(grad, expected_grad.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_autocast_keeps_the_dtype_and_the_bits(dtype):
    x, index = torch.rand(40, 3, dtype=dtype), torch.randint(0, 5, (40,))
    p = torch.tensor(1.7)
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        inside = norm_pool(x, index, p=p)
    assert inside.dtype == dtype
    assert torch.equal(inside, norm_pool(x, index, p=p))


def test_the_same_bits_for_any_number_of_threads(backend):
    if backend == "triton" and INTERPRETED:
        pytest.skip("the interpreter is slow and has one thread")
    x, index = torch.randn(30_000, 8), torch.randint(0, 40, (30_000,)) ** 2 // 40
    p = torch.tensor([1.0, 1.5, 3.0, 50.0, -1.0, -2.5, -50.0, math.inf], requires_grad=True)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 8, 2):
            torch.set_num_threads(threads)
            leaf = x.detach().requires_grad_()
            y = norm_pool(leaf, index, p=p, q=0.3)
            results.append((y, *torch.autograd.grad(y.square().sum(), (leaf, p))))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for name, a, b in zip(("y", "x", "p"), results[0], other, strict=True):
            assert torch.equal(a, b), name


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbors_equal_the_gathered_form(weighted):
    N, M, E = 30, 20, 200
    x = torch.randn(N, 6, dtype=torch.float64, requires_grad=True)
    edge_index = torch.stack([torch.randint(0, N, (E,)), torch.randint(0, M, (E,))])
    weight = torch.randn(E, dtype=torch.float64, requires_grad=True)
    p = torch.tensor([1.0, 2.3, -1.0, -4.0, math.inf, -math.inf], dtype=torch.float64, requires_grad=True)
    q = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    messages = weight[:, None] * x[edge_index[0]] if weighted else x[edge_index[0]]
    inputs = (x, p, q, weight) if weighted else (x, p, q)
    expected = norm_pool(messages, edge_index[1], p=p, q=q, dim_size=M)
    actual = norm_pool_neighbors(x, edge_index, p=p, q=q, edge_weight=weight if weighted else None, dim_size=M)
    assert relative_error(actual.detach(), expected.detach()) < 1e-12
    coefficient = torch.randn(M, 6, dtype=torch.float64)
    grads = (torch.autograd.grad((y * coefficient).sum(), inputs) for y in (actual, expected))
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)


def test_three_dimensional_rows_share_p_by_channel():
    x = torch.rand(12, 4, 3, dtype=torch.float64)
    index = torch.randint(0, 5, (12,))
    p, q = torch.tensor([1.0, 3.0, -2.0]).double(), torch.tensor([0.0, 1.0, 0.5]).double()
    y = norm_pool(x, index, p=p, q=q, dim_size=5)
    assert y.shape == (5, 4, 3)
    for h in range(4):
        assert torch.equal(y[:, h], norm_pool(x[:, h], index, p=p, q=q, dim_size=5))


@pytest.mark.parametrize("channels", [1, 3, 32, 64, 100, 1024, 10_240])
@pytest.mark.parametrize("form", ["segments", "neighbors"])
def test_any_number_of_channels(backend, form, channels):
    if backend == "triton" and INTERPRETED and channels > 1024:
        pytest.skip("the interpreter is slow")
    rows = 12
    x = torch.randn(rows, channels)
    p = torch.linspace(1.0, 9.0, channels, dtype=torch.float64)  # on both sides of what is quick
    index = torch.tensor([0, 0, 1, 1, 1, 3, 3, 3, 3, 3, 3, 4])
    edges = torch.stack([(torch.arange(30) * 7) % rows, (torch.arange(30) * 5) % rows])

    def derivatives(x):
        x = x.detach().requires_grad_()
        if form == "segments":
            y = norm_pool(x, index, p=p, q=0.5, dim_size=6)
        else:
            y = norm_pool_neighbors(x, edges, p=p, q=0.5)
        return y.detach(), *torch.autograd.grad(y.square().sum(), x)

    for mine, exact in zip(derivatives(x), derivatives(x.double()), strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=2e-5, atol=2e-5)
