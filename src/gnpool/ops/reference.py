r"""The definition of norm pooling in plain PyTorch: the oracle of every test, the fallback, the second derivative.

Nothing here is tuned. The formulas are derived in ``ops/README.md``; they work in the dtype they are given, and the
backend functions :func:`build_csr`, :func:`pool_fwd` and :func:`pool_bwd` at the end lift their input to
:func:`wide_dtype` first.

Shapes: N rows of ``x``, E entries (pooled elements), S segments, D channels.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

import torch
from torch import Tensor

from gnpool.ops.form import KEEP, NORM
from gnpool.ops.layout import check_range


class Terms(NamedTuple):
    """The results of one pass over the entries for each segment and channel, all (S, D)."""

    y: Tensor  # the pooled value
    extreme: Tensor  # largest (p > 0) or smallest (p < 0) u of the segment, 0 where nothing is pooled
    scale: Tensor  # the dy/du of the extreme, so that dy/du = scale * ratio^(|p| - sign p) for every entry
    slope: Tensor  # dy/dp


class _Ratios(NamedTuple):
    """Every entry relative to the extreme of its segment, all (E, D)."""

    kept: Tensor  # does the entry take part?
    positive: Tensor  # is the ratio above 0? (true for NaN, so that it passes through)
    far: Tensor  # is it too small for a normal number? Then only its logarithm is used
    value: Tensor  # in (0, 1]; 1 stands in where there is none or it is far, so that powers stay finite
    log: Tensor  # its logarithm; 0 stands in where there is none
    tie: Tensor  # 1 where the entry equals the extreme, NaN for NaN, else 0


def wide_dtype(device: torch.device) -> torch.dtype:
    """The dtype that exponents are held in and the reference computes in: float64 wherever the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def stats_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of per-segment results: float32 for half precision input, else that of the input."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def rounded(eps: float, dtype: torch.dtype) -> float:
    """``eps`` in the dtype that kernels compute in, so that `|x| > eps` means the same in all of them."""
    if stats_dtype(dtype) == torch.float64:
        return eps
    (value,) = struct.unpack("f", struct.pack("f", eps))
    return float(value)


def segment_sum(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Sum ``values`` (E, D) into ``size`` rows in a fixed order: the same bits on every run."""
    out = values.new_zeros(size, values.size(1))
    if values.is_cuda:  # scatter_add is atomic there; an accumulating index_put sorts
        return out.index_put((index,), values, accumulate=True)
    return out.scatter_add(0, index[:, None].expand_as(values), values)


def pool_terms(z: Tensor, index: Tensor, size: int, p: Tensor, q: Tensor, eps: float, relu: bool, form: int) -> Terms:
    r"""Pool the entries ``z`` (E, D) into ``size`` segments; differentiable by autograd in z, p and q."""
    count = segment_sum(z.new_ones(index.numel(), 1), index, size)  # (S, 1)
    extreme, alive = _extremes(z.detach(), index, size, p.detach(), eps, relu, form)
    ratios = _ratios(z, extreme[index], p, eps, relu, form)
    infinite = p.isinf()
    finite_p = torch.where(infinite, 1.0, p)
    inverse = torch.where(infinite, 0.0, 1.0 / finite_p)
    exponent = torch.where(infinite, 1.0, _side(p) * p)  # |p|, with a derivative at 0

    power = torch.where(infinite, ratios.tie, torch.where(ratios.positive, _power(ratios, exponent), 0.0))
    power = torch.where(ratios.kept, power, 0.0)
    total = torch.where(alive, segment_sum(power, index, size), 1.0)  # at least 1: the extreme itself

    # The extreme is only a unit of measure and needs no derivative, except where it is the result.
    tied = torch.where(ratios.kept & (ratios.tie == 1), _magnitudes(z, p, eps, relu, form)[0], 0.0)
    ties = segment_sum(tied, index, size) / total
    unit = torch.where(infinite & extreme.isfinite(), extreme + (ties - ties.detach()), extreme)

    if form == NORM:
        mean_log = segment_sum(power * ratios.log, index, size) / total
        size_factor = count.clamp(min=1.0) ** -q
        y = unit * total**inverse * size_factor
        scale = size_factor * total ** (inverse - 1.0)
        tilt = p.sign() * mean_log - total.log() * inverse
        slope = torch.where(infinite | (tilt == 0), 0.0, y * inverse * tilt)
        undefined = total.isnan() | ((p.isnan() | (p == 0)) & (count > 0))  # the norm has no value at p = 0
    else:
        level, spread = _power_mean(ratios, total, index, p)
        level, spread = (torch.where(infinite, 0.0, value) for value in (level, spread))
        log_size = level - q * count.clamp(min=1.0).log()
        members = torch.where(infinite, total, segment_sum(ratios.kept.to(z.dtype), index, size).clamp(min=1.0))
        y = torch.where(unit.isinf(), unit, unit * log_size.exp())
        scale = (log_size - finite_p * level).exp() / members
        # a zero decides the result, so the other entries have no slope
        scale = torch.where((extreme == 0) & (p <= 0), 0.0, scale)
        slope = torch.where(spread == 0, 0.0, y * spread)
        undefined = total.isnan() | (p.isnan() & (count > 0))
    nothing = ~alive | (extreme == 0)
    y = torch.where(undefined, torch.nan, torch.where(nothing, 0.0, y))
    scale = torch.where(undefined, torch.nan, torch.where(alive, scale, 0.0))
    slope = torch.where(undefined, torch.nan, torch.where(nothing, 0.0, slope))
    return Terms(y, extreme, scale, slope)


def _power_mean(ratios: _Ratios, total: Tensor, index: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    r"""log(M_p / extreme) of each segment and its derivative in p, (S, D), smooth through p = 0; for finite p.

    With l = log(u / extreme) and any constant a, the logarithm is a + log(mean exp(p (l - a))) / p. Where a is that
    logarithm itself, the mean is 1, and a short series gives the second term with all its derivatives. The derivative
    in p is the mean of d^2 E_1(p d) with d = l - log(M_p / extreme).
    """
    size = total.size(0)
    here = ratios.kept & ratios.positive
    vanishing = ratios.kept & ~ratios.positive  # its power is 0: a zero beside p > 0, an infinite value beside p <= 0
    members = segment_sum(ratios.kept.to(p.dtype), index, size).clamp(min=1.0)
    log_ratio = _side(p) * ratios.log
    inverse = torch.where((p == 0) | p.isinf(), 0.0, 1.0 / torch.where(p == 0, 1.0, p))
    finite_p = torch.where(p.isinf(), 1.0, p)

    def mean(values: Tensor, of_vanishing: Tensor | float) -> Tensor:
        return segment_sum(torch.where(here, values, torch.where(vanishing, of_vanishing, 0.0)), index, size) / members

    with torch.no_grad():
        small = mean(log_ratio * exp_integral(finite_p * log_ratio, 0), -inverse)  # (mean exp(p l) - 1) / p
        near = small * torch.where(finite_p * small == 0, 1.0, (finite_p * small).log1p() / (finite_p * small))
        level = torch.where(p.abs() < 0.5, near, (total / members).log() * inverse)
    off = log_ratio - level[index]
    rest = mean(off * exp_integral(finite_p * off, 0), -inverse)  # 0 to rounding
    level = level + rest * (1.0 - finite_p * rest / 2.0 + (finite_p * rest).square() / 3.0)
    off = log_ratio - level[index]
    spread = mean(off.square() * exp_integral(finite_p * off, 1), inverse.square())
    endless = (segment_sum(vanishing.to(p.dtype), index, size) > 0) & (p == 0)  # an infinite value: so is the mean
    return torch.where(endless, torch.inf, level), torch.where(endless, 0.0, spread)


def exp_integral(t: Tensor, k: int) -> Tensor:
    r"""E_k(t) = \int_0^1 s^k e^{ts} ds for k = 0 or 1: (e^t - 1) / t and ((t - 1) e^t + 1) / t^2, smooth through 0."""
    near = t.abs() < 1.0
    inner = torch.where(near, t, 0.0)
    series = torch.zeros_like(t)
    for j in range(20, -1, -1):
        series = series * inner + 1.0 / (math.factorial(j) * (j + k + 1))
    outer = torch.where(near, 1.0, t)
    closed = outer.expm1() / outer if k == 0 else ((outer - 1.0) * outer.exp() + 1.0) / outer.square()
    return torch.where(near, series, closed)


def pool_gradients(
    grad: Tensor, z: Tensor, index: Tensor, terms: Terms, p: Tensor, eps: float, relu: bool, form: int
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    r"""Gradients in z (E, D), p (D,) and q (D,) of ``(grad * y).sum()``, from the terms of the forward pass.

    The gradient in z comes as two factors of equal range: one of them times a small z or weight is finite even if their
    product is not.
    """
    ratios = _ratios(z, terms.extreme.detach()[index], p, eps, relu, form)
    infinite = p.isinf()
    exponent = torch.where(infinite, 1.0, _side(p) * (p - 1.0))  # |p| - sign p
    at_zero = torch.where(exponent == 0, 1.0, torch.where(exponent > 0, 0.0, torch.inf))
    root = torch.where(ratios.positive, _power(ratios, exponent / 2.0), at_zero)
    root = torch.where(infinite, 1.0, root)

    flat = z <= 0 if relu else z == 0  # |x| and relu have no slope there
    still = flat | ~ratios.kept
    sign = torch.ones_like(z) if relu else z.sign()
    root = torch.where(still, 0.0, root)
    share = torch.where(infinite, ratios.tie, root)
    first = torch.where(still, 0.0, (grad * terms.scale)[index] * share * sign)

    log_count = segment_sum(z.new_ones(index.numel(), 1), index, grad.size(0)).clamp(min=1.0).log()
    grad_p = (grad * terms.slope).sum(0)
    grad_q = -(grad * torch.where(log_count == 0, 0.0, terms.y * log_count)).sum(0)
    return (first, root), grad_p, grad_q


def _side(p: Tensor) -> Tensor:
    """1 where the largest value is the unit of measure, p > 0, and -1 where the smallest is."""
    return torch.where(p > 0, 1.0, -1.0).to(p.dtype)


def _magnitudes(z: Tensor, p: Tensor, eps: float, relu: bool, form: int) -> tuple[Tensor, Tensor]:
    """u = |z| + eps (or relu(z) + eps), and which entries take part: all, or those above eps."""
    v = z.relu() if relu else z.abs()
    every = (p > 0) if form == NORM else torch.full_like(p, form == KEEP, dtype=torch.bool)
    return v + eps, every | ~(v <= eps)


def _extremes(
    z: Tensor, index: Tensor, size: int, p: Tensor, eps: float, relu: bool, form: int
) -> tuple[Tensor, Tensor]:
    """The extreme u of each segment, and whether the segment pools anything, (S, D)."""
    u, kept = _magnitudes(z, p, eps, relu, form)
    towards = _side(p).to(z.dtype)
    key = torch.where(kept, u * towards, -torch.inf)
    alive = segment_sum(kept.to(z.dtype), index, size) > 0
    best = key.new_full((size, key.size(1)), -torch.inf)
    best = best.scatter_reduce(0, index[:, None].expand_as(key), key, "amax")
    return torch.where(alive, best * towards, 0.0), alive


def _ratios(z: Tensor, extreme: Tensor, p: Tensor, eps: float, relu: bool, form: int) -> _Ratios:
    """u / extreme for p > 0, extreme / u for p <= 0; ``extreme`` (E, D) is that of each entry's segment."""
    u, kept = _magnitudes(z, p, eps, relu, form)
    tie = torch.where(u.isnan() | extreme.isnan(), torch.nan, (u == extreme).to(z.dtype))
    regular = kept & u.isfinite() & extreme.isfinite() & (extreme > 0)  # a quotient of these is what it should be
    smaller = torch.where(regular, torch.where(p > 0, u, extreme), 1.0)
    larger = torch.where(regular, torch.where(p > 0, extreme, u), 1.0)
    quotient = smaller / larger
    far = (smaller > 0) & (quotient < torch.finfo(z.dtype).tiny)
    ratio = torch.where(regular, quotient, tie)
    positive = far | ~(ratio <= 0)
    value = torch.where(positive & kept & ~far, ratio, 1.0)
    difference = torch.where(far, smaller, 1.0).log() - torch.where(far, larger, 1.0).log()
    return _Ratios(kept, positive, far, value, torch.where(far, difference, value.log()), tie)


def _power(ratios: _Ratios, exponent: Tensor) -> Tensor:
    """The ratios to a power; 1 where there is none."""
    return torch.where(ratios.far, (exponent * ratios.log).exp(), ratios.value.pow(exponent))


def entries(
    x: Tensor, weight: Tensor | None, ptr: Tensor, col: Tensor | None, eid: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The pooled elements z (E, D) in segment order, and the segment of each, (E,)."""
    z = x if col is None else x[col]
    if weight is not None:
        z = z * (weight if eid is None else weight[eid]).to(z.dtype)[:, None]
    return z, destinations(ptr, z.size(0))


def pool(
    x: Tensor,
    weight: Tensor | None,
    p: Tensor,
    q: Tensor,
    ptr: Tensor,
    col: Tensor | None,
    eid: Tensor | None,
    eps: float,
    relu: bool,
    form: int,
) -> Tensor:
    """The pooled value (S, D), differentiable to any order."""
    z, index = entries(x.to(p.dtype), weight, ptr, col, eid)
    return pool_terms(z, index, ptr.numel() - 1, p, q, rounded(eps, x.dtype), relu, form).y


def first_derivatives(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    p: Tensor,
    q: Tensor,
    ptr: Tensor,
    col: Tensor | None,
    eid: Tensor | None,
    eps: float,
    relu: bool,
    form: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of ``(grad * y).sum()`` in x, weight (empty without one), p and q, again differentiable."""
    eps = rounded(eps, x.dtype)
    rows = x.to(p.dtype)
    z, index = entries(rows, weight, ptr, col, eid)
    terms = pool_terms(z, index, ptr.numel() - 1, p, q, eps, relu, form)
    (first, root), grad_p, grad_q = pool_gradients(grad.to(p.dtype), z, index, terms, p, eps, relu, form)
    grad_weight = first.new_empty(0)
    grad_x = first * root
    if weight is not None:
        grad_weight = (first * (rows if col is None else rows[col]) * root).sum(1)
        grad_x = first * (weight if eid is None else weight[eid]).to(z.dtype)[:, None] * root
        if eid is not None:
            grad_weight = torch.zeros_like(grad_weight).scatter(0, eid, grad_weight)
    if col is not None:
        grad_x = segment_sum(grad_x, col, x.size(0))
    return grad_x, grad_weight, grad_p, grad_q


# The backend: the four functions that every set of kernels offers, see ops/registry.py.


def build_csr(index: Tensor, size: int) -> tuple[Tensor, Tensor | None]:
    """Group ``index`` (E,) by value: ``ptr`` (size + 1,) and the stable order ``perm`` (E,) of the entries.

    A backend that notices at no cost that the entries are already in order may return None for the order.

    Raises:
        IndexError: It names the first value outside [0, size), see :func:`gnpool.ops.layout.check_range`.
    """
    check_range(index, size)
    ordered, perm = torch.sort(index.long(), stable=True)
    return torch.searchsorted(ordered, torch.arange(size + 1, device=index.device)), perm


def transpose(
    source: Tensor, destination: Tensor | None, ptr: Tensor, size: int, weighted: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Group edges by ``source`` (E,): t_ptr (size + 1,), and destination and number of each edge in a stable order.

    Without ``destination`` (E,) the edges are already grouped by it, at ``ptr``. Without ``weighted`` the numbers of
    the edges are not needed, and a backend may return None for them.

    Raises:
        IndexError: as :func:`build_csr`.
    """
    t_ptr, perm = build_csr(source, size)
    assert perm is not None
    return t_ptr, (destinations(ptr, perm.numel()) if destination is None else destination)[perm], perm


def destinations(ptr: Tensor, edges: int) -> Tensor:
    """The destination of each edge, (E,), of edges that are grouped by it."""
    return torch.repeat_interleave(torch.arange(ptr.numel() - 1, device=ptr.device), ptr.diff(), output_size=edges)


def pool_fwd(
    x: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    col: Tensor | None,
    eid: Tensor | None,
    p: Tensor,
    q: Tensor,
    eps: float,
    relu: bool,
    form: int,
    stats: bool,
) -> tuple[Tensor, ...]:
    """The four :class:`Terms` in :func:`stats_dtype`; without ``stats`` only y."""
    z, index = entries(x.to(p.dtype), weight, ptr, col, eid)
    terms = pool_terms(z, index, ptr.numel() - 1, p, q, rounded(eps, x.dtype), relu, form)
    return tuple(term.to(stats_dtype(x.dtype)) for term in (terms if stats else terms[:1]))


def pool_bwd(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    col: Tensor | None,
    eid: Tensor | None,
    t_ptr: Tensor | None,
    t_row: Tensor | None,
    t_eid: Tensor | None,
    p: Tensor,
    q: Tensor,
    y: Tensor,
    extreme: Tensor,
    scale: Tensor,
    slope: Tensor,
    eps: float,
    relu: bool,
    form: int,
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients in x and weight (in their dtypes, empty when not needed), p and q.

    Only kernels use the transposed lists and the saved terms; with rounded terms an entry could miss its extreme.
    """
    grad_x, grad_weight, grad_p, grad_q = first_derivatives(grad, x, weight, p, q, ptr, col, eid, eps, relu, form)
    grad_x = grad_x.to(x.dtype) if need_x else x.new_empty(0)
    grad_weight = grad_weight.to(x.dtype if weight is None else weight.dtype)
    return grad_x, grad_weight if need_weight else grad_weight.new_empty(0), grad_p, grad_q
