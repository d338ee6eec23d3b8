r"""GNP for a stack of networks, each with its own exponents and graphs, computed from powers of nodes.

The power of a message is the power of its source, times a power of its weight if edges have weights:

.. math::
    S_v = \sum_{(u, v)} w_{uv}^p \, (x_u + \epsilon)^p, \qquad y_v = n_v^{-q} \, S_v^{1/p}

The pooling is therefore one power for each node, a sparse product, and one root for each result. Powers are taken of
the ratio to the largest value of a network (the smallest for p < 0) in float64. Its range is wide enough: at p = 50,
values a million times smaller still count. If all exponents are small (:func:`set_range`), float32 is wide enough. The
tolerance is applied before the weight, and an edge of weight 0 takes no part; n counts all edges.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gnpool.models.stacked.edges import EdgePowers, Kind
from gnpool.models.stacked.replicas import Pattern, affine
from gnpool.nn import GNPAggregation
from gnpool.ops.registry import kernels

LN2 = math.log(2.0)
NARROW_P = 4.0  # up to this exponent, the range of float32 holds ratios down to 1e-14
OFFSET = 64.0  # log2 of the largest power in float32: sums cannot overflow, and more small powers count


def gnp(aggr: GNPAggregation, x: Tensor, pattern: Pattern, weight: Tensor | None = None) -> Tensor:
    """Pool the entries of each row by ``aggr``, for one network or, with exponents (R) each, for R networks.

    x (R, N, D) gives (R, M, D). ``weight`` (E) are factors of the messages, at least 0; they get gradients if they
    require them. The layer must have coordinates="published" and two branches.
    """
    if aggr.coordinates != "published":
        raise ValueError(f"{aggr}: a stack of networks needs coordinates='published'")
    narrow = getattr(aggr, "narrow", False) and x.dtype == torch.float32
    dtype, offset = (torch.float32, OFFSET) if narrow else (torch.float64, 0.0)
    kind = Kind(aggr._widths["pos"], aggr.eps, aggr.p_max, dtype, offset)
    each = (aggr.raw_p_pos, aggr.raw_p_neg, aggr.raw_q_pos, aggr.raw_q_neg)
    raw = torch.stack([value.expand(x.size(0)) for value in each], dim=1)  # (R, 4)
    y: Tensor
    if x.dtype in (torch.float32, torch.float64) and kernels(x.device.type).__name__ == "gnpool.ops.cuda.backend":
        from gnpool.models.stacked.cuda import gnp_on_cuda  # Triton is optional

        y = gnp_on_cuda(x, raw, weight, pattern, kind, aggr.nonneg)
    else:
        v = x.abs() if aggr.nonneg == "abs" else x.relu() if aggr.nonneg == "relu" else x
        y = _Gnp.apply(v, raw, weight, pattern, kind)
    return y if aggr.mix is None else affine(aggr.mix, y)


def set_range(module: torch.nn.Module, largest_p: float) -> None:
    """Let the GNPs of a module compute powers in float32 if no exponent is large."""
    for part in module.modules():
        if isinstance(part, GNPAggregation):
            part.narrow = largest_p <= NARROW_P


def _by_channel(values: Tensor, positive: int, channels: int) -> Tensor:
    """Spread (R, 2) values, one for each branch, over the channels: (R, 1, D)."""
    of_branches = [values[:, :1].expand(-1, positive), values[:, 1:].expand(-1, channels - positive)]
    return torch.cat(of_branches, dim=1)[:, None]


def _by_branch(values: Tensor, positive: int) -> Tensor:
    """Sum (R, N, D) within each branch: (R, 2)."""
    by_channel = values.sum(1)
    return torch.stack([by_channel[:, :positive].sum(1), by_channel[:, positive:].sum(1)], dim=1).double()


def powers(
    x: Tensor, p: Tensor, eps: float, positive: int, dtype: torch.dtype, offset: float
) -> tuple[Tensor, Tensor, Tensor]:
    """For rows x >= 0 (R, N, D): powers, log2 of the ratio to the extreme (R, N, D), and log2 of that (R, 1, D)."""
    wide = _by_channel(p, positive, x.size(2)).to(dtype)
    u = (x + eps).log2()
    out = (wide < 0) & (x <= eps)
    sign = torch.where(wide > 0, 1.0, -1.0).to(u.dtype)
    centre = sign * torch.where(out, -torch.inf, sign * u).amax(1, keepdim=True)
    centre = torch.where(centre.isinf(), 0.0, centre)
    ratio = u - centre
    return torch.where(out, 0.0, (wide * ratio + offset).exp2()), ratio, centre


def root(
    total: Tensor, p: Tensor, q: Tensor, centre: Tensor, shift: Tensor, log2_count: Tensor, positive: int, offset: float
) -> Tensor:
    """The pooled values (R, M, D) from the sums of powers; 0 for an empty sum."""
    channels = total.size(2)
    by_p, by_q, by_shift = (_by_channel(value, positive, channels).to(total.dtype) for value in (p, q, shift))
    there = total != 0  # NaN stays
    logarithm = (torch.where(there, total, 1.0).log2() - offset) / by_p + centre + by_shift
    return torch.where(there, (logarithm - by_q * log2_count).exp2(), 0.0)


def slopes(
    grad: Tensor, y: Tensor, total: Tensor, log2_count: Tensor, positive: int, offset: float
) -> tuple[Tensor, Tensor, Tensor]:
    """g y / S (R, M, D), and the sums of g y log2 S and of g y log2 n for each branch, (R, 2) each."""
    there = total != 0  # NaN stays
    safe = torch.where(there, total, 1.0)
    pull = grad * y
    by_total = torch.where(there, pull * (safe.log2() - offset), 0.0)
    return pull / safe, _by_branch(by_total, positive), _by_branch(pull * log2_count, positive)


def slopes_of_rows(
    x: Tensor, power: Tensor, ratio: Tensor, pulled: Tensor, eps: float, positive: int
) -> tuple[Tensor, Tensor]:
    """The gradient in x (R, N, D), and for each branch the part of p's gradient from logarithms of ratios, (R, 2)."""
    share = power * pulled
    by_ratio = torch.where(power != 0, share * ratio, 0.0)  # without a tolerance the ratio may be 0
    return torch.where(x != 0, share / (x + eps), 0.0).to(x.dtype), _by_branch(by_ratio, positive)


class _Gnp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, raw: Tensor, weight: Tensor | None, pattern: Pattern, kind: Kind) -> Tensor:
        parts, channels = x.size(0), x.size(2)
        raw = raw.double()
        size = (1.0 + softplus(raw[:, :2])).clamp(max=kind.p_max)
        p, q = torch.cat([size[:, :1], -size[:, 1:]], dim=1), raw[:, 2:]
        power, ratio, centre = powers(x, p, kind.eps, kind.positive, kind.dtype, kind.offset)
        edges, shift = None, torch.zeros_like(p)
        if weight is None:
            total = pattern.times(power.flatten(0, 1))
        else:
            edges = EdgePowers(weight, p, pattern, kind)
            total, shift = edges.times(power.flatten(0, 1)), edges.centre / p
        total = total.view(parts, -1, channels)
        y = root(total, p, q, centre, shift, pattern.log2_count.to(kind.dtype), kind.positive, kind.offset)
        ctx.save_for_backward(x, raw, p, weight, power, ratio, total, y)
        ctx.pattern, ctx.edges, ctx.kind = pattern, edges, kind
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, raw, p, weight, power, ratio, total, y = ctx.saved_tensors
        kind, edges, positive = ctx.kind, ctx.edges, ctx.kind.positive
        log2_count = ctx.pattern.log2_count.to(kind.dtype)
        pull, by_total, by_count = slopes(grad, y, total, log2_count, positive, kind.offset)
        flat = pull.flatten(0, 1)
        pulled = ctx.pattern.transposed_times(flat) if edges is None else edges.transposed_times(flat)
        by_x, inner = slopes_of_rows(x, power, ratio, pulled.view_as(power), kind.eps, positive)
        by_weight = None
        if edges is not None:
            if ctx.needs_input_grad[2]:
                by_weight, more = edges.slopes(edges.dots(flat, power.flatten(0, 1)), p)
                by_weight = by_weight.to(weight.dtype)
            else:
                logs = edges.log_times(power.flatten(0, 1), p).view_as(pull)
                more = _by_branch(pull * logs, positive)
            inner = inner + more
        by_p = LN2 * (inner / p - by_total / p.square())
        by_size = torch.cat([by_p[:, :1], -by_p[:, 1:]], dim=1)
        # As in exponent() of gnpool.nn: at the cap, a gradient passes only if following it lowers p.
        capped = p.abs() >= kind.p_max
        by_t = torch.where(capped, by_size.clamp(min=0.0), by_size) * raw[:, :2].sigmoid()
        of_raw = torch.cat([by_t, -LN2 * by_count], dim=1).to(x.dtype)  # (R, 4)
        return by_x, of_raw, by_weight, None, None
