"""Properties that must hold for every input; hypothesis searches for counterexamples."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from gnpool import norm_pool
from gnpool.ops import invariance

pytestmark = pytest.mark.usefixtures("backend")
anywhere = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

EXPONENTS = st.one_of(
    st.floats(0.05, 60.0), st.floats(-60.0, -0.05), st.sampled_from([1.0, -1.0, 2.0, math.inf, -math.inf])
)
ROUNDING = 1e-12  # float64


@st.composite
def pooled(draw, low=1e-3, high=1e3):
    """x (N, 2), index, number of segments, p, q."""
    rows, segments = draw(st.integers(0, 40)), draw(st.integers(1, 6))
    generator = torch.Generator(torch.get_default_device()).manual_seed(draw(st.integers(0, 2**31)))
    spread = torch.rand(rows, 2, dtype=torch.float64, generator=generator)
    x = low * (high / low) ** spread
    x = x * torch.where(torch.rand(rows, 2, generator=generator) < draw(st.sampled_from([0.0, 0.3])), 0.0, 1.0)
    x = x * torch.where(torch.rand(rows, 2, generator=generator) < 0.5, -1.0, 1.0)
    index = torch.randint(0, segments, (rows,), generator=generator)
    return x, index, segments, draw(EXPONENTS), draw(st.floats(-2.0, 2.0))


def pool_of(p, q, eps=1e-6):
    return lambda x, index, dim_size: norm_pool(x, index, p=p, q=q, dim_size=dim_size, eps=eps)


@anywhere
@given(pooled())
def test_order_of_rows_and_segments(case):
    x, index, size, p, q = case
    assert invariance.permuted_rows(pool_of(p, q), x, index, size) < ROUNDING * max(1, 1 / abs(p))
    assert invariance.permuted_segments(pool_of(p, q), x, index, size) == 0


@anywhere
@given(pooled(), st.floats(1e-3, 1e3))
def test_homogeneous_without_eps(case, factor):
    x, index, size, p, q = case
    assert invariance.scaled(pool_of(p, q, eps=0.0), x, index, size, factor) < ROUNDING * max(1, 1 / abs(p))


@anywhere
@given(pooled())
def test_index_and_ptr_agree(case):
    x, index, size, p, q = case
    index, order = index.sort(stable=True)
    ptr = torch.searchsorted(index, torch.arange(size + 1))
    by_index = norm_pool(x[order], index, p=p, q=q, dim_size=size)
    assert invariance.relative_error(norm_pool(x[order], ptr=ptr, p=p, q=q), by_index) < ROUNDING


@anywhere
@given(pooled())
def test_padding_and_batching(case):
    x, index, size, p, q = case
    assert invariance.padded(pool_of(p, q), x, index, size) == 0
    assert invariance.repeated(pool_of(p, q), x, index, size) < ROUNDING * max(1, 1 / abs(p))


@anywhere
@given(pooled(), st.floats(1.0, 3.0))
def test_monotone_in_p(case, factor):
    """At q = 0 a larger exponent gives less, on each side of 0: sum >= norm >= max, min >= harmonic sum."""
    x, index, size, p, _ = case
    if math.isinf(p):
        return
    more = p * factor if p > 0 else p / factor
    lower, upper = (norm_pool(x, index, p=e, dim_size=size) for e in (more, p))
    assert (lower <= upper * (1 + ROUNDING * max(1, 1 / abs(p)))).all()
    limit = norm_pool(x, index, p=math.copysign(math.inf, p), dim_size=size)
    bound = limit <= upper * (1 + ROUNDING) if p > 0 else limit >= upper * (1 - ROUNDING)
    assert bound.all()


@anywhere
@given(pooled(), st.integers(1, 4))
def test_vmap_is_the_loop(case, count):
    x, index, size, p, q = case
    xs = torch.stack([x * (k + 1) for k in range(count)])
    together = torch.vmap(lambda x: norm_pool(x, index, p=p, q=q, dim_size=size))(xs)
    for k in range(count):
        assert torch.equal(together[k], norm_pool(xs[k], index, p=p, q=q, dim_size=size))


@anywhere
@given(pooled(low=1e-4, high=1e6))
def test_float32_is_near_float64(case):
    x, index, size, p, q = case
    narrow = x.float()
    expected = norm_pool(narrow.double(), index, p=p, q=q, dim_size=size)
    actual = norm_pool(narrow, index, p=p, q=q, dim_size=size).double()
    representable = (expected < 3e38) & ((expected > 2e-38) | (expected == 0))
    assert invariance.relative_error(actual[representable], expected[representable]) < 2e-6 * max(1, 1 / abs(p))


@anywhere
@given(pooled())
def test_sum_and_mean_are_those_of_torch(case):
    x, index, size, _, _ = case
    total = torch.zeros(size, 2, dtype=torch.float64).index_add(0, index, x.abs())
    count = torch.bincount(index, minlength=size).clamp(min=1)[:, None]
    assert invariance.relative_error(norm_pool(x, index, p=1, dim_size=size, eps=0.0), total) < ROUNDING
    assert invariance.relative_error(norm_pool(x, index, p=1, q=1, dim_size=size, eps=0.0), total / count) < ROUNDING
