"""Runs every path of the Triton kernels, with cuts that no heuristic would choose here."""

import pytest
import torch

pytest.importorskip("triton")

from gnpool.ops import reference
from gnpool.ops.cuda import arithmetic
from gnpool.ops.cuda import backend as cuda
from gnpool.ops.form import KEEP, NORM, REMOVE

# One row, a few or many a tile; chunks shorter and longer than segments. The interpreter is slow: all is small.
CUTS = [cuda.Blocks(64, 1, 8, 3), cuda.Blocks(16, 2, 4, 2), cuda.Blocks(128, 8, 8, 1)]
S, D, E = 10, 5, 48
# Exponents of one block that go every way there is, and those that go the way of the mean.
MIXED, SMALL = (0.3, -2.0, 0.0, 30.0, -1e-6), (-0.3, 0.99, 0.0, 0.01, -0.99)


def plain():
    return torch.rand(E, D) + 0.1


def late_giant():
    """The first rows of the segments are far below the others: the unit of the first round does not serve."""
    x = torch.rand(E, D) * 1e-9
    x[3::4] = 1.0 + torch.rand(len(x[3::4]), D)
    return x


def late_kept():
    """For p < 0 nothing of the first rows is kept."""
    x = torch.zeros(E, D)
    x[3::4] = torch.rand(len(x[3::4]), D) + 0.5
    return x


def spread():
    """Segments of very different size: no unit serves all of them."""
    return torch.rand(E, D) * 10.0 ** torch.linspace(-12, 12, E)[:, None]


def with_infinity():
    x = plain()
    x[::13, 0], x[5, 1] = torch.inf, torch.nan
    return x


INPUTS = [plain, late_giant, late_kept, spread, with_infinity]


def lists(x, gathered):
    """ptr, col and the transposed lists; neighbours are drawn, segments lie in order and some are empty."""
    owner = torch.randint(0, S - 2, (E,)).sort().values
    ptr = torch.searchsorted(owner, torch.arange(S + 1))
    if not gathered:
        return ptr, None, (None, None, None)
    col = torch.randint(0, E, (E,))
    order = col.argsort(stable=True)
    return ptr, col, (torch.searchsorted(col[order], torch.arange(E + 1)), owner[order], None)


def both_passes(module, x, given, exponents, grad, relu, form=NORM):
    ptr, col, transposed = given
    p, q = (torch.as_tensor(value, dtype=torch.float64).expand(D) for value in exponents)
    kept = module.pool_fwd(x, None, ptr, col, None, p, q, 1e-6, relu, form, True)
    grads = module.pool_bwd(
        grad.to(x.dtype), x, None, ptr, col, None, *transposed, p, q, *kept, 1e-6, relu, form, True, False
    )
    return kept[0], grads[0], grads[2], grads[3]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("gathered", [False, True], ids=["segments", "neighbors"])
@pytest.mark.parametrize("p", [1.7, -3.0, 7.5])
@pytest.mark.parametrize("size", [1e-3, 1.0, 3e2])
def test_half_precision_needs_no_unit_or_goes_the_other_way(size, p, gathered, dtype, monkeypatch):
    x, grad = (plain() * size).to(dtype), torch.rand(S, D)
    given = lists(x, gathered)
    expected = both_passes(reference, x.double(), given, (p, 0.3), grad.to(dtype), False)
    cut = CUTS[dtype == torch.float16]  # one row at a time, or two
    monkeypatch.setattr(cuda, "forward_blocks", lambda *_: cut)
    monkeypatch.setattr(cuda, "backward_blocks", lambda *_: cut)
    actual = both_passes(cuda, x, given, (p, 0.3), grad, False)
    for mine, theirs, bound in zip(actual, expected, (1e-4, 1e-2, 1e-3, 1e-3), strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=bound, atol=bound * float(theirs.abs().max()))


@pytest.mark.parametrize("shared_from", [0, 1 << 60], ids=["shared", "edges"])
@pytest.mark.parametrize("gathered", [False, True], ids=["segments", "neighbors"])
@pytest.mark.parametrize(
    ("p", "cut", "form"),
    [
        (1.7, 0, NORM), (-3.0, 1, NORM), (30.0, 2, NORM), (1.7, 1, REMOVE), (-3.0, 0, KEEP), (MIXED, 1, KEEP),
        (SMALL, 0, REMOVE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", INPUTS)
def test_every_way_gives_the_reference(make, p, cut, form, gathered, shared_from, monkeypatch):
    if shared_from and not gathered:
        pytest.skip("segments have one way back")
    x, grad = make(), torch.rand(S, D)
    given = lists(x, gathered)
    expected = both_passes(reference, x.double(), given, (p, 0.3), grad, True, form)
    scale = [t.abs().nan_to_num(0, 0, 0).amax(0) for t in expected[:2]]
    monkeypatch.setattr(cuda, "forward_blocks", lambda *_: CUTS[cut])
    monkeypatch.setattr(cuda, "backward_blocks", lambda *_: CUTS[cut])
    monkeypatch.setattr(cuda, "SHARED_FROM", shared_from)
    y, dx, dp, dq = both_passes(cuda, x, given, (p, 0.3), grad, True, form)
    torch.testing.assert_close(y.double(), expected[0], rtol=3e-6, atol=0, equal_nan=True)
    assert torch.equal(dx.isnan(), expected[1].isnan())
    off = (dx.double() - expected[1]).abs().nan_to_num(0)
    assert bool((off <= 1e-5 * expected[1].abs().nan_to_num(0) + 1e-7 * scale[1]).all())
    if make is not with_infinity:
        torch.testing.assert_close(dp, expected[2], rtol=2e-4, atol=2e-6 * float(scale[0].max()))
        torch.testing.assert_close(dq, expected[3], rtol=1e-5, atol=0)


def test_the_unit_of_all_segments_serves_only_a_narrow_range():
    narrow, wide = torch.rand(S, D) + 0.5, torch.rand(S, D) * 10.0 ** torch.linspace(-12, 12, S)[:, None]
    wide[0] = narrow[0] = 0.0  # a segment in which nothing takes part
    for p, extreme, serves in [(1.7, narrow, 1), (30.0, narrow, 0), (1.7, wide, 0), (1.0, wide, 1)]:
        units, flags = cuda._shared_unit(extreme, torch.full((D,), p, dtype=torch.float64), 8)
        assert flags.tolist() == [serves]
        low, high = extreme[1:].amin(0), extreme[1:].amax(0)
        torch.testing.assert_close(units, (low.double() * high.double()).sqrt().float())


@pytest.mark.parametrize(
    ("D", "steps", "gathered", "half", "expected"),
    [
        (64, 4_300_000, False, False, cuda.Blocks(256, 1, 64, 6)),
        (64, 4_300_000, False, True, cuda.Blocks(256, 2, 64, 6)),
        (128, 4_300_000, False, True, cuda.Blocks(256, 1, 128, 6)),
        (4, 4_300_000, False, True, cuda.Blocks(256, 8, 4, 6)),
        (64, 33_000_000, True, True, cuda.Blocks(1024, 1, 64, 5)),
        (3_840, 21_600, True, False, cuda.Blocks(256, 1, 128, 4, 96)),
        (3_840, 2_000, True, False, cuda.Blocks(128, 1, 128, 4, 96)),
        (1, 1, False, False, cuda.Blocks(64, 32, 1, 6)),
    ],
)
def test_the_cut_of_the_backward_pass(D, steps, gathered, half, expected, monkeypatch):
    monkeypatch.setattr(arithmetic, "INTERPRETED", False)
    assert cuda.backward_blocks(D, steps, gathered, half) == expected


def test_totals_are_sums_in_double_precision():
    for rows in (3, 1_000):
        sums = torch.rand(rows, 2, D, dtype=torch.float64)
        torch.testing.assert_close(cuda._total(sums), sums.sum(0), rtol=1e-14, atol=0)
