"""The Numba kernels against a float64 oracle, at the edges of the floating-point range, on any number of threads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("numba")
if torch.get_default_device().type != "cpu":
    pytest.skip("kernels for the CPU", allow_module_level=True)

from gnpool.ops import norm_pool, norm_pool_neighbors, reference
from gnpool.ops.cpu import backend as cpu
from gnpool.ops.cpu import threads as pool_threads
from gnpool.ops.form import KEEP, NORM, REMOVE
from tests.ops.conftest import poison_new_memory

INF = math.inf
NAN = math.nan
EXPONENTS = [1.0, 1.3, 2.0, 7.0, 50.0, -1.0, -1.3, -7.0, -50.0, INF, -INF, 1.0025, 0.5, -0.3, 0.01]
LENGTHS = [0, 1, 2, 31, 10_000, 0, 513, 3]
TOLERANCE = {torch.float32: (2e-6, 1e-5), torch.float64: (1e-13, 1e-12)}


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def offsets(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int64)


def column(values: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype)[:, None]


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def forward(x, ptr, p, q, *, weight=None, col=None, eid=None, eps=1e-6, relu=False, stats=True):
    return cpu.pool_fwd(x, weight, ptr, col, eid, p, q, eps, relu, NORM, stats)


def backward(g, x, ptr, p, q, saved, *, weight=None, col=None, eid=None, t=(None, None, None), eps=1e-6, relu=False):
    need_weight = weight is not None
    terms, nodes = saved[:4], saved[4:]
    return cpu.pool_bwd(g, x, weight, ptr, col, eid, *t, p, q, *terms, eps, relu, NORM, True, need_weight, *nodes)


def oracle(g, x, ptr, p, q, *, weight=None, col=None, eid=None, eps=1e-6, relu=False):
    """y, dx, dw, dp, dq in float64 from the definition, for finite positive u and finite or infinite p."""
    eps = torch.tensor(eps, dtype=x.dtype)
    S, D = g.shape
    y, dx, dp, dq = np.zeros((S, D)), np.zeros(x.shape), np.zeros(D), np.zeros(D)
    dw = np.zeros(0 if weight is None else weight.numel())
    g, p, q = g.double().numpy(), p.numpy(), q.numpy()
    for s in range(S):
        entry = torch.arange(int(ptr[s]), int(ptr[s + 1]))
        n = len(entry)
        if n == 0:
            continue
        row = entry if col is None else col[entry]
        edge = entry if eid is None else eid[entry]
        w = torch.ones(n, dtype=x.dtype) if weight is None else weight[edge]
        z = w[:, None] * x[row]
        v = z.relu() if relu else z.abs()
        kept = ((torch.from_numpy(p) > 0) | (v > eps)).numpy()
        u = (v + eps).double().numpy()
        sign = ((z > 0).double() if relu else z.double().sign()).numpy()
        side = np.sign(p)
        M = np.where(p > 0, u.max(0), np.where(kept, u, INF).min(0))
        alive = kept.any(0)
        M[~alive] = 1.0
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            near = np.abs(u - M) < 0.5 * M
            log_r = side * np.where(near, np.log1p(np.where(near, u - M, 0.0) / M), np.log(u) - np.log(M))
            finite = np.where(np.isinf(p), 1.0, np.abs(p))
            e = np.where(np.isinf(p), u == M, np.exp(finite * log_r)) * kept
            A = np.where(alive, np.ascontiguousarray(e.T).sum(1), 1.0)  # pairwise, unlike a sum over rows
            L = np.where(e > 0, e * np.where(e > 0, log_r, 0.0), 0.0).sum(0) / A
            scale = n**-q
            y[s] = np.where(alive, M * A ** (1 / p) * scale, 0.0)
            dydp = np.where(np.isinf(p), 0.0, y[s] / p * (side * L - np.log(A) / p))
            power = np.exp(np.where(log_r == 0, 0.0, log_r) * np.where(np.isinf(p), 1e30, np.abs(p) - side))
            power = np.where(sign == 0, 0.0, power)
            dz = g[s] * scale * A ** (1 / p - 1) * sign * power * kept
        dp += g[s] * dydp
        dq -= g[s] * y[s] * math.log(n)
        np.add.at(dx, row.numpy(), w.double().numpy()[:, None] * dz)
        if weight is not None:
            dw[edge.numpy()] = (dz * x[row].double().numpy()).sum(1)
    return y, dx, dw, dp, dq


def assert_near(name: str, got: Tensor, want: np.ndarray, rtol: float, per: str) -> None:
    """Relative to each value (``each``) or to the largest of its channel (``channel``) or of all (``all``)."""
    error = np.abs(got.double().numpy() - want)
    size = np.abs(want)
    if per == "channel":
        size = np.broadcast_to(size.max(0, keepdims=True), error.shape)
    elif per == "all":
        size = np.full_like(error, size.max(initial=0.0))
    bad = error > rtol * size
    worst = np.nanmax(error / np.maximum(size, 1e-300), initial=0.0)
    assert not bad.any(), f"{name}: worst {worst:.2e} at {np.argwhere(bad)[:4].tolist()}"


@pytest.mark.parametrize("q", [-1.0, 0.0, 0.4, 1.0, 2.0])
@pytest.mark.parametrize(("relu", "eps"), [(False, 1e-6), (True, 1e-6), (False, 0.0), (True, 0.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_segments_match_the_definition(dtype: torch.dtype, relu: bool, eps: float, q: float) -> None:
    rng = np.random.default_rng(1)
    p = vector(*EXPONENTS)
    D, N = len(EXPONENTS), sum(LENGTHS)
    x = torch.from_numpy(10 ** rng.uniform(-4, 6, (N, D)) * rng.choice([-1, 1], (N, D))).to(dtype)
    x[::7] = x[::7].abs().clamp(0.5, 2)
    x[::5] = 0.0 if relu else 1.5
    g = torch.from_numpy(rng.normal(size=(len(LENGTHS), D))).to(dtype)
    ptr, qs = offsets(LENGTHS), torch.full((D,), q, dtype=torch.float64)
    qs[-1] += 100.0  # n^(1/p) alone would overflow float32 at p = 0.01
    saved = forward(x, ptr, p, qs, eps=eps, relu=relu)
    dx, _, dp, dq = backward(g, x, ptr, p, qs, saved, eps=eps, relu=relu)
    y, want_dx, _, want_dp, want_dq = oracle(g, x, ptr, p, qs, eps=eps, relu=relu)
    value, slope = TOLERANCE[dtype]
    large = p.abs() >= 0.25
    assert_near("y", saved[0][:, large], y[:, large], value, "each")
    assert_near("y", saved[0], y, max(value, 1e-12), "each")  # A^(1/p) multiplies the error of A by 1/p
    assert_near("dx", dx, want_dx, slope, "channel")
    assert_near("dp", dp, want_dp, slope, "all")
    assert_near("dq", dq, want_dq, slope, "all")
    assert torch.equal(forward(x, ptr, p, qs, eps=eps, relu=relu, stats=False)[0], saved[0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("channels", [1, 5, 48, 150])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbours_match_the_definition(dtype: torch.dtype, channels: int, weighted: bool) -> None:
    rng = np.random.default_rng(2)
    N, S, E = 60, 40, 3000
    src = torch.from_numpy(rng.integers(0, N - 3, E))
    dst = torch.from_numpy(rng.integers(0, S - 2, E))
    src[: E // 3], dst[E // 4 : E // 2] = 4, 9  # a hub on each side, longer than a piece
    x = torch.from_numpy(rng.normal(size=(N, channels))).to(dtype)
    g = torch.from_numpy(rng.normal(size=(S, channels))).to(dtype)
    w = torch.from_numpy(rng.normal(size=E)).to(dtype) if weighted else None
    p = torch.from_numpy(rng.choice([1.0, 1.7, -2.0, 5.0, -1.0], channels))
    q = torch.from_numpy(rng.uniform(0, 1, channels))
    ptr, eid = cpu.build_csr(dst, S)
    t_ptr, t_eid = cpu.build_csr(src, N)
    layout = {"weight": w, "col": src[eid], "eid": eid}
    saved = forward(x, ptr, p, q, **layout)
    dx, dw, dp, dq = backward(g, x, ptr, p, q, saved, **layout, t=(t_ptr, dst[t_eid], t_eid))
    y, want_dx, want_dw, want_dp, want_dq = oracle(g, x, ptr, p, q, **layout)
    value, slope = TOLERANCE[dtype]
    assert_near("y", saved[0], y, value, "each")
    for name, got, want in (("dx", dx, want_dx), ("dw", dw, want_dw), ("dp", dp, want_dp), ("dq", dq, want_dq)):
        assert_near(name, got, want, slope, "all")


@pytest.mark.parametrize("form", [KEEP, REMOVE])
@pytest.mark.parametrize(("relu", "eps"), [(False, 1e-3), (True, 1e-3), (True, 0.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_growth_form_matches_the_reference(dtype: torch.dtype, relu: bool, eps: float, form: int) -> None:
    rng = np.random.default_rng(1)
    exponents = [*EXPONENTS, 0.0, 1e-9, -1e-9, 0.1, -0.1, 0.24, -0.24, 0.25, -0.25]
    if eps == 0.0:
        exponents = [p for p in exponents if abs(p) >= 0.01]  # the reference has no gradient for a kept 0 there
    p, D, N = vector(*exponents), len(exponents), sum(LENGTHS)
    x = torch.from_numpy(10 ** rng.uniform(-4, 6, (N, D)) * rng.choice([-1, 1], (N, D))).to(dtype)
    x[::5] = 0.0
    g = torch.from_numpy(rng.normal(size=(len(LENGTHS), D))).to(dtype)
    ptr, q = offsets(LENGTHS), torch.linspace(-2, 1, D, dtype=torch.float64)
    found = []
    for backend in (cpu, reference):
        saved = backend.pool_fwd(x, None, ptr, None, None, p, q, eps, relu, form, True)
        lists = (ptr, None, None, None, None, None)
        dx, _, dp, dq = backend.pool_bwd(g, x, None, *lists, p, q, *saved[:4], eps, relu, form, True, False)
        found.append((saved[0], dx, dp, dq))
        assert torch.equal(backend.pool_fwd(x, None, ptr, None, None, p, q, eps, relu, form, False)[0], saved[0])
    value, slope = TOLERANCE[dtype]
    (y, *grads), (want, *want_grads) = found
    assert_near("y", y, want.double().numpy(), max(value, 1e-12), "each")
    for name, got, expected in zip(("dx", "dp", "dq"), grads, want_grads, strict=True):
        assert_near(name, got, expected.double().numpy(), slope, "channel" if name == "dx" else "all")


def test_permuted_rows_and_rows_outside() -> None:
    x = torch.randn(50, 6)
    g = torch.randn(3, 6)
    p, q = vector(1.5, -1.5, 2, -3, 1, INF), torch.zeros(6, dtype=torch.float64)
    perm = torch.randperm(50)[:40]
    ptr = offsets([10, 0, 30])
    saved = forward(x, ptr, p, q, col=perm)
    dx = backward(g, x, ptr, p, q, saved, col=perm)[0]
    y, want, *_ = oracle(g, x, ptr, p, q, col=perm)
    assert_near("y", saved[0], y, 2e-6, "each")
    assert_near("dx", dx, want, 1e-5, "all")
    ptr = torch.tensor([5, 20, 20, 45])
    saved = forward(x, ptr, p, q)
    dx = backward(g, x, ptr, p, q, saved)[0]
    assert_near("dx", dx, oracle(g, x, ptr, p, q)[1], 1e-5, "all")
    assert not dx[:5].any()
    assert not dx[45:].any()


def test_non_contiguous_input() -> None:
    x, g = torch.randn(6, 40).t(), torch.randn(6, 2).t()
    p, q, ptr = vector(1.5, -1.5, 2, -3, 1, INF), torch.zeros(6, dtype=torch.float64), offsets([25, 15])
    for got, want in zip(forward(x, ptr, p, q), forward(x.contiguous(), ptr, p, q), strict=True):
        assert torch.equal(got, want)
    saved = forward(x, ptr, p, q)
    want = backward(g.contiguous(), x.contiguous(), ptr, p, q, saved)[0]
    assert torch.equal(backward(g, x, ptr, p, q, saved)[0], want)


# One channel, one segment: values, p, q, eps, y, dx for an incoming gradient of 1.
EDGES = {
    "zeros": ([0.0, 0.0], 2.0, 0.0, 0.0, 0.0, [0.0, 0.0]),
    "zeros_with_eps": ([0.0, 0.0], 1.0, 0.0, 0.5, 1.0, [0.0, 0.0]),
    "zero_beside_one": ([0.0, -1.0], 1.5, 0.0, 0.0, 1.0, [0.0, -1.0]),
    "zero_small_p": ([0.0, 1.0], 0.01, 0.0, 0.0, 1.0, [0.0, 1.0]),
    "at_eps_removed": ([0.5, 1.5], -1.0, 0.0, 0.5, 2.0, [0.0, 1.0]),
    "all_removed": ([0.5, -0.25], -2.0, 0.0, 0.5, 0.0, [0.0, 0.0]),
    "ties_max": ([3.0, -3.0, 1.0], INF, 0.0, 0.0, 3.0, [0.5, -0.5, 0.0]),
    "ties_min": ([3.0, -3.0, 5.0], -INF, 0.0, 0.0, 3.0, [0.5, -0.5, 0.0]),
    "equal_mean": ([3.0] * 7, 1.0, 1.0, 0.0, 3.0, [1 / 7] * 7),
    "large_mean": ([3e38] * 5, 1.0, 1.0, 0.0, 3e38, [0.2] * 5),
    "large_harmonic": ([3e38, 3e38], -1.0, 0.0, 0.0, 1.5e38, [0.25, 0.25]),
    "denormal_sum": ([1e-40, 2e-40], 1.0, 0.0, 0.0, 3e-40, [1.0, 1.0]),
    "denormal_beside_one": ([1e-40, 1.0], 1.1, 0.0, 0.0, 1.0, [(1e-40) ** 0.1, 1.0]),
    "denormal_harmonic": ([1e-40, 1e-40], -1.0, 0.0, 0.0, 5e-41, [0.25, 0.25]),
    "whole_range_small_p": ([1e-45, 3e38], 0.01, 100.0, 0.0, None, None),
    "inf_sum": ([INF, 1.0], 1.0, 0.0, 0.0, INF, [1.0, 1.0]),
    "inf_power": ([-INF, 1.0], 1.5, 0.0, 0.0, INF, [-1.0, 0.0]),
    "inf_max": ([INF, INF, 1.0], INF, 0.0, 0.0, INF, [0.5, 0.5, 0.0]),
    "inf_harmonic": ([INF, 2.0], -1.0, 0.0, 0.0, 2.0, [0.0, 1.0]),
    "inf_min": ([INF, 2.0], -INF, 0.0, 1e-6, 2.0, [0.0, 1.0]),
    "all_inf_harmonic": ([INF, -INF], -1.0, 0.0, 1e-6, INF, [0.25, -0.25]),
    "inf_beside_large": ([INF, 3e38], -1.0, 0.0, 0.0, 3e38, [0.0, 1.0]),
    "huge_p": ([2.0, 2.0, 1.0], 1e12, 0.0, 0.0, 2.0, [0.5, 0.5, 0.0]),
}


@pytest.mark.parametrize("case", EDGES)
@pytest.mark.parametrize("wide", [False, True], ids=["alone", "among_others"])
def test_edges(case: str, wide: bool) -> None:
    values, p, q, eps, want, want_dx = EDGES[case]
    x = column(values)
    ps, qs = vector(p), vector(q)
    if wide:  # 20 ordinary channels around it: the vector part of the loop, with and without the careful path
        x = torch.cat([torch.rand(len(values), 10) + 1, x, torch.rand(len(values), 10) + 1], 1)
        ps, qs = vector(*[1.5] * 10, p, *[-1.5] * 10), vector(*[0.5] * 10, q, *[0.5] * 10)
    at = 10 if wide else 0
    ptr = offsets([len(values)])
    saved = forward(x, ptr, ps, qs, eps=eps)
    dx = backward(torch.ones_like(saved[0]), x, ptr, ps, qs, saved, eps=eps)[0]
    if want is None:
        large, small = math.log(x[:, at].max()), math.log(x[:, at].min())
        want = math.exp(large + math.log1p(math.exp(p * (small - large))) / p - q * math.log(2))
        want_dx = None
    assert saved[0][0, at].item() == pytest.approx(want, rel=2e-6, abs=2e-45)
    if want_dx is not None:
        assert dx[:, at].tolist() == pytest.approx(want_dx, rel=1e-5, abs=1e-12)
    assert not saved[3].isnan().any()
    if wide:
        others = torch.arange(21) != 10
        y = oracle(torch.ones(1, 20), x[:, others], ptr, ps[others], qs[others], eps=eps)[0]
        assert_near("other channels", saved[0][:, others], y, 2e-6, "each")


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("rows", [5, 1500])
def test_nan_stays_in_its_segment_and_channel(rows: int, eps: float, relu: bool) -> None:
    p = vector(1.0, -1.0, 2.5, -2.5, INF, -INF, 0.5, -0.5)
    q = torch.full((8,), 0.5, dtype=torch.float64)
    clean = torch.rand(3 * rows, 8) + 0.5
    ptr = offsets([rows] * 3)
    for channel in range(8):
        for nan in (NAN, -NAN):
            x = clean.clone()
            x[rows + rows // 2, channel] = torch.tensor(nan)
            saved = forward(x, ptr, p, q, eps=eps, relu=relu)
            for got, want in zip(saved[::2], forward(clean, ptr, p, q, eps=eps, relu=relu)[::2], strict=True):
                hit = torch.zeros(3, 8, dtype=torch.bool)
                hit[1, channel] = True
                assert torch.equal(got.isnan(), hit)
                assert torch.equal(got[~hit], want[~hit])
            assert saved[3][1, channel].isnan()
            dx = backward(torch.ones(3, 8), x, ptr, p, q, saved, eps=eps, relu=relu)[0]
            assert dx[rows : 2 * rows, channel].isnan().all()
            assert dx.isnan().sum() == rows


@pytest.mark.parametrize("bad", [0.0, NAN])
def test_an_exponent_without_a_meaning_gives_nan(bad: float) -> None:
    x = torch.rand(6, 3)
    x[:4, 1] = 0.0
    saved = forward(x, offsets([4, 0, 2]), vector(2.0, bad, -1.0), torch.zeros(3, dtype=torch.float64), eps=0.0)
    for name, value in zip("yMCd", saved, strict=True):
        if name != "M":
            assert value.isnan().tolist() == [[False, True, False], [False] * 3, [False, True, False]], name


@pytest.mark.parametrize(("n", "s", "d"), [(0, 0, 3), (0, 2, 3), (4, 1, 0), (3, 0, 2), (0, 0, 0)])
def test_empty_shapes(n: int, s: int, d: int) -> None:
    x, p = torch.randn(n, d), torch.full((d,), 2.0, dtype=torch.float64)
    ptr = torch.zeros(s + 1, dtype=torch.int64)
    ptr[-1] = n if s else 0
    saved = forward(x, ptr, p, p)
    assert all(value.shape == (s, d) and not value.any() for value in saved)
    dx, _, dp, dq = backward(torch.ones(s, d), x, ptr, p, p, saved)
    assert dx.shape == (n, d)
    assert not dx.any()
    assert dp.tolist() == dq.tolist() == [0.0] * d
    none = torch.zeros(0, dtype=torch.int64)
    t = (torch.zeros(n + 1, dtype=torch.int64), none, none)
    flat = torch.zeros(s + 1, dtype=torch.int64)
    saved = forward(x, flat, p, p, weight=torch.zeros(0), col=none, eid=none)
    assert all(value.shape == (s, d) and not value.any() for value in saved)
    dx = backward(torch.ones(s, d), x, flat, p, p, saved, weight=torch.zeros(0), col=none, eid=none, t=t)[0]
    assert dx.shape == (n, d)
    assert not dx.any()


@pytest.mark.parametrize("size", [1, 7, 5000])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_build_csr(size: int, dtype: torch.dtype) -> None:
    for index in (torch.randint(0, size, (40_000,)), torch.randint(0, size, (40_000,)).sort().values, torch.zeros(0)):
        ptr, perm = cpu.build_csr(index.to(dtype), size)
        want = torch.argsort(index, stable=True)
        assert torch.equal(torch.arange(len(index)) if perm is None else perm, want)
        assert (perm is None) == bool((index.diff() >= 0).all())
        assert torch.equal(ptr, offsets(torch.bincount(index.long(), minlength=size).tolist()))
    with pytest.raises(IndexError, match=rf"^got {size} at position 1$"):
        cpu.build_csr(torch.tensor([0, size, -1], dtype=dtype), size)
    with pytest.raises(IndexError, match=r"^got -3 at position 2$"):
        cpu.build_csr(torch.tensor([0, 0, -3], dtype=dtype), size)


def everything(seed: int = 3) -> list[Tensor]:
    """Segments with a long one, and neighbours with hubs: large enough to go to the threads."""
    rng = torch.Generator().manual_seed(seed)
    n = torch.randint(0, 64, (400,), generator=rng).tolist()
    n[7] = 9000
    ptr, N, D = offsets(n), sum(n), 40
    x, g = torch.randn(N, D, generator=rng), torch.randn(400, D, generator=rng)
    p = torch.linspace(-4, 4, D, dtype=torch.float64)
    q = torch.linspace(-1, 1, D, dtype=torch.float64)
    saved = forward(x, ptr, p, q)
    out = [*saved, *backward(g, x, ptr, p, q, saved)]
    src, dst = torch.randint(0, 400, (30_000,), generator=rng), torch.randint(0, 400, (30_000,), generator=rng)
    src[::3], dst[1::3] = 5, 6
    w = torch.randn(30_000, generator=rng)
    ptr, eid = cpu.build_csr(dst, 400)
    t_ptr, t_eid = cpu.build_csr(src, 400)
    layout = {"weight": w, "col": src[eid], "eid": eid}
    saved = forward(x[:400], ptr, p, q, **layout)
    return [*out, *saved, *backward(g, x[:400], ptr, p, q, saved, **layout, t=(t_ptr, dst[t_eid], t_eid))]


def assert_same_bits(got: list[Tensor], want: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.usefixtures("threads")
def test_equal_bits_for_any_number_of_threads() -> None:
    torch.set_num_threads(1)
    want = everything()
    for count in (2, 8, 3):
        torch.set_num_threads(count)
        assert_same_bits(everything(), want)


@pytest.mark.usefixtures("threads")
def test_four_python_threads_at_once() -> None:
    torch.set_num_threads(2)
    want = everything()
    got: list[list[Tensor]] = []
    callers = [threading.Thread(target=lambda: got.extend(everything() for _ in range(3))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(got) == 12
    for result in got:
        assert_same_bits(result, want)


@pytest.mark.usefixtures("threads")
def test_a_call_from_inside_the_pool_does_not_deadlock() -> None:
    torch.set_num_threads(2)
    want = everything()
    got: list[list[Tensor]] = []
    outer = threading.Thread(target=lambda: pool_threads.run_on_threads(lambda: got.append(everything()), 2))
    outer.start()
    outer.join(60)
    assert not outer.is_alive()
    for result in got:
        assert_same_bits(result, want)


class _Pooled(torch.utils.data.Dataset[Tensor]):
    def __getitem__(self, item: int) -> Tensor:
        values = [value.double().flatten() for value in everything()]
        torch.get_num_threads = lambda: 4  # asking torch itself for threads in a forked child would hang OpenMP
        return torch.cat([*values, vector(pool_threads.thread_count())])

    def __len__(self) -> int:
        return 4


def test_the_default_device_of_the_user_changes_nothing() -> None:
    x, index = torch.rand(20_000, 3, requires_grad=True), torch.randint(0, 7, (20_000,))  # long segments: in pieces
    edges, p = torch.randint(0, 20_000, (2, 100_000)), torch.tensor(1.7, requires_grad=True)

    def step() -> tuple[torch.Tensor, ...]:
        pooled = (norm_pool(x, index, p=p, dim_size=7), norm_pool_neighbors(x, edges, p=p, q=0.5))
        return (*pooled, *torch.autograd.grad(pooled[0].sum() + pooled[1].sum(), (x, p)))

    expected = step()
    with torch.device("meta"):
        found = step()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("threads")
def test_workers_forked_after_a_call() -> None:
    torch.set_num_threads(2)
    want = torch.cat([value.double().flatten() for value in everything()])
    options = {"num_workers": 2, "timeout": 60, "multiprocessing_context": "fork"}
    loader = torch.utils.data.DataLoader(_Pooled(), batch_size=None, **options)
    for got in loader:
        assert torch.equal(got[:-1], want)
        assert got[-1] == 1  # one thread inside a worker, whatever torch says


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("threads")
def test_the_pool_is_made_anew_after_a_fork() -> None:
    torch.set_num_threads(2)
    everything()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert pool_threads._pool is None
            x, ptr = torch.rand(4000, 40), offsets([2000, 2000])
            p = torch.full((40,), 2.0, dtype=torch.float64)
            forward(x, ptr, p, p)  # in the child's own threads
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_poisoned_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    want = everything()
    poison_new_memory(monkeypatch)
    assert_same_bits(everything(), want)


_SCRIPT = """
import sys, torch
import gnpool.ops.cpu.backend as cpu
if {full}:
    from numba.core import caching
    def full(*args): raise OSError(28, "No space left on device")
    caching.IndexDataCacheFile.save = full
x = torch.rand(5, 3)
p = torch.full((3,), 1.0, dtype=torch.float64)
y = cpu.pool_fwd(x, None, torch.tensor([0, 5]), None, None, p, p * 0, 0.0, False, 0, False)[0]
assert torch.allclose(y, x.sum(0, keepdim=True))
"""


@pytest.mark.parametrize("problem", ["no directory", "full disk"])
def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, problem: str) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    cache = tmp_path / "cache" if problem == "full disk" else blocked / "below"
    source = str(Path(cpu.__file__).parents[3])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": source}
    script = _SCRIPT.format(full=problem == "full disk")
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_does_not_import_numba() -> None:
    script = "import sys, gnpool; assert 'numba' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("mode", "threads"), [(1, 1), (0, 3)], ids=["worker", "driver"])
def test_one_thread_in_a_ray_worker(mode, threads, monkeypatch):
    """Ray itself is no dependency: a module with the same attributes stands in for it."""
    worker = SimpleNamespace(global_worker=SimpleNamespace(mode=mode))
    ray = SimpleNamespace(WORKER_MODE=1, _private=SimpleNamespace(worker=worker))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert pool_threads.thread_count() == threads
