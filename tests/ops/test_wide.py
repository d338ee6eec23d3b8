"""Small exponents over the whole range of a float: ratios, powers and slopes that no float can say, and results it can.

Each channel is one case, drawn with a seed: rows whose sizes lie anywhere in the range of the type, its own p and q.
"""

import numpy as np
import pytest
import torch

from gnpool import norm_pool, norm_pool_neighbors

pytestmark = pytest.mark.usefixtures("backend")

WIDE = np.longdouble  # 10^-4932 to 10^4932
ROWS = 8
P = {"small": (0.03, 1.0), "above one": (1.0, 1.5), "negative": (-1.0, -0.03)}
EPS = {torch.float64: (0.0, 1e-300, 1e-6), torch.float32: (0.0, 1e-30, 1e-6)}
SPAN = {torch.float64: 300.0, torch.float32: 36.0}
LIMITS = {torch.float64: (1e-290, 1e307), torch.float32: (1e-36, 1e38)}


def draw(dtype, sign, cases, seed):
    """x (ROWS, cases), p (cases,) and q (cases,)."""
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.uniform(-SPAN[dtype], SPAN[dtype], (2, cases)), axis=0)
    x = 10.0 ** rng.uniform(low, high, (ROWS, cases)) * rng.choice([-1.0, 1.0, 1.0], (ROWS, cases))
    x[rng.integers(ROWS, size=cases // 5), np.arange(cases // 5)] = 0.0
    p, q = rng.uniform(*P[sign], cases), rng.uniform(-1.0, 2.0, cases)
    return torch.tensor(x).to(dtype), torch.tensor(p), torch.tensor(q)


def exact(z, p, q, eps):
    """y (cases,) and dy/dz (ROWS, cases) in extended precision."""
    z, p, q, eps = (np.asarray(a).astype(WIDE) for a in (z, p, q, eps))
    kept = (p > 0) | (np.abs(z) > eps)
    u = np.abs(z) + eps
    unit = np.where(p > 0, u.max(0), np.where(kept, u, np.inf).min(0))
    unit = np.where(np.isfinite(unit) & (unit > 0), unit, WIDE(1))
    ratio = np.where(kept & (u > 0), u / unit, WIDE(1))
    power = np.where(kept & (u > 0), ratio**p, WIDE(0))
    total = power.sum(0)
    none = total == 0
    total = np.where(none, WIDE(1), total)
    size = WIDE(ROWS) ** -q
    y = np.where(none, WIDE(0), unit * total ** (1 / p) * size)
    slope = np.where(kept & ~none, np.sign(z) * size * total ** (1 / p - 1) * ratio ** (p - 1), WIDE(0))
    return y, slope


def worst(actual, expected, dtype):
    """The largest relative error, over the results that the type can hold."""
    least, most = LIMITS[dtype]
    shown = (expected == 0) | ((np.abs(expected) >= least) & (np.abs(expected) <= most))
    error = np.abs(np.asarray(actual.detach().cpu()).astype(WIDE) - expected)[shown]
    assert shown.mean() > 0.5
    return float((error / np.where(expected == 0, WIDE(1), np.abs(expected))[shown]).max())


def bound(backend, dtype):
    """In float32 Triton keeps logarithms of 250 digits as one float, and p = 0.03 multiplies its rounding."""
    return 1e-11 if dtype == torch.float64 else 1e-4 if backend == "triton" else 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sign", P)
@pytest.mark.parametrize("form", ["segments", "neighbors"])
def test_over_the_whole_range(backend, form, sign, dtype):
    ends = torch.stack([torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.long)])
    for seed, eps in enumerate(EPS[dtype]):
        x, p, q = draw(dtype, sign, 64 if backend == "triton" else 500, seed)
        y, slope = exact(x, p, q, eps)
        x.requires_grad_()
        if form == "segments":
            actual = norm_pool(x, p=p, q=q, eps=eps)
        else:
            actual = norm_pool_neighbors(x, ends, p=p, q=q, eps=eps, dim_size=1)
        (grad,) = torch.autograd.grad(actual.sum(), x)
        assert worst(actual[0], y, dtype) <= bound(backend, dtype)
        assert worst(grad, slope, dtype) <= bound(backend, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sign", P)
def test_gradients_beside_a_slope_that_overflows(backend, sign, dtype):
    """dz may be infinite where dx = w dz and dw = x dz are not."""
    x, p, q = draw(dtype, sign, 24, seed=7)
    least, most = LIMITS[dtype]
    for case in range(24):
        scale = 10.0 ** (-SPAN[dtype] * case / 36)
        weight = torch.full((ROWS,), scale, dtype=dtype, requires_grad=True)
        rows = x[:, case : case + 1].clone().requires_grad_()
        z = (weight[:, None] * rows).detach()
        if bool(((z.abs() < least) & (z != 0)).any()):
            continue
        _, slope = exact(z, p[case : case + 1], q[case : case + 1], 0.0)
        ends = torch.stack([torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.long)])
        actual = norm_pool_neighbors(
            rows, ends, p=p[case].item(), q=q[case].item(), eps=0.0, edge_weight=weight, dim_size=1
        )
        by_rows, by_weight = torch.autograd.grad(actual.sum(), (rows, weight))
        for mine, factor in ((by_rows, weight[:, None]), (by_weight[:, None], rows)):
            theirs = slope * np.asarray(factor.detach()).astype(WIDE)
            held = (np.abs(theirs) > least) & (np.abs(theirs) < most) & (np.abs(slope) > least) | (theirs == 0)
            error = np.abs(np.asarray(mine).astype(WIDE) - theirs)[held]
            assert (error <= bound(backend, dtype) * np.abs(theirs)[held]).all()


def test_rows_of_forty_six_decades():
    """One row of 1e33 beside a hundred rows of 1e-13."""
    x = torch.tensor([1e33, *[1e-13] * 100])[:, None].requires_grad_()
    y = norm_pool(x, p=0.05, eps=0.0)
    assert y.item() == pytest.approx(3.378292e36, rel=1e-5)
    (grad,) = torch.autograd.grad(norm_pool(x, p=0.99, eps=0.0).sum(), x)
    assert grad[0].item() == pytest.approx(1.0, rel=1e-6)
    assert grad[-1].item() == pytest.approx(2.88403153, rel=1e-5)


def test_a_weight_learns_where_its_slope_is_below_the_range():
    """A zero that counts as eps beside 3e29: dz is too small for a float, and dw = x dz is not."""
    x = torch.tensor([[0.0], [3e29]])
    weight = torch.ones(2, requires_grad=True)
    p, eps = -0.16, 1e-6
    y = norm_pool_neighbors(x, torch.tensor([[0, 1], [0, 0]]), p=p, growth=0.0, edge_weight=weight, dim_size=1, eps=eps)
    power = (3e29 / eps) ** p
    expected = eps * ((1 + power) / 2) ** (1 / p)
    assert y.item() == pytest.approx(expected, rel=1e-5)
    (grad,) = torch.autograd.grad(y.sum(), weight)
    assert grad.tolist() == pytest.approx([0.0, expected * power / (1 + power)], rel=1e-4)
