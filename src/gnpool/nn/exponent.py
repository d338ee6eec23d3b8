r"""The exponent as a function of the parameter t that the optimiser moves.

Where a branch has one sign, :math:`p = \min(1 + softplus(t), p_{max})`. Where p may have any sign,
:math:`p = \sinh(t)`, cut off at :math:`\pm p_{max}`: even steps near 0, and steps in proportion far from it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gnpool.ops.autograd import in_forward_mode
from gnpool.ops.vmapped import only_vmap

BEYOND = 1.0 + 1e-6  # factor of the t at the cap, so that its sinh reaches the cap after rounding to float32


def exponent(t: Tensor, p_max: float) -> Tensor:
    """p in (1, p_max]; at the cap a gradient passes only if following it lowers p."""
    return _capped(1.0 + softplus(t), p_max)


def signed_exponent(t: Tensor, p_max: float) -> Tensor:
    """p in [-p_max, p_max]; at the cap a gradient passes only if following it lowers abs(p)."""
    most = math.asinh(p_max) * BEYOND
    # far beyond the cap sinh and its slope overflow, so t is held just beyond it
    behind = t.sign() * most + (t - t.detach())
    return _capped(torch.where(t.abs() > most, behind, t).sinh(), p_max)


def raw_exponent(p: Tensor, p_max: float, name: str = "p") -> Tensor:
    """The t of ``p``, the inverse of :func:`exponent`; ``name`` is what an error calls it."""
    if not bool(((p > 1) & (p <= p_max)).all()):
        raise ValueError(f"{name} must lie in (1, {p_max:g}], got {p.tolist()}")
    above = p.double() - 1.0
    return above + (-(-above).expm1()).log()  # log(exp(above) - 1) without overflow


def raw_signed_exponent(p: Tensor, p_max: float, name: str = "p") -> Tensor:
    """The t of ``p``, the inverse of :func:`signed_exponent`."""
    if not bool((p.abs() <= p_max).all()):
        raise ValueError(f"{name} must lie in [-{p_max:g}, {p_max:g}], got {p.tolist()}")
    t = p.double().asinh()
    return torch.where(p.abs() == p_max, t * BEYOND, t)


def _capped(p: Tensor, p_max: float) -> Tensor:
    if not torch.compiler.is_compiling() and in_forward_mode():
        return p.clamp(-p_max, p_max)  # a forward-mode tangent does not tell in which direction the optimiser will step
    vmap = None if torch.compiler.is_compiling() else only_vmap()
    if vmap is not None:
        every, dim = vmap.unwrap(p)
        if dim is not None:
            return vmap.below(lambda: _EagerCap.apply(every, p_max), dim)
    capped: Tensor = _Cap.apply(p, p_max)
    return capped


def check_p_max(p_max: float) -> float:
    """``p_max`` as a float, or a ValueError."""
    if not (isinstance(p_max, (int, float)) and p_max > 1 and math.isfinite(p_max)):
        raise ValueError(f"GNPAggregation: 'p_max' must be a finite number above 1, got {p_max}")
    return float(p_max)


class _Cap(torch.autograd.Function):
    @staticmethod
    def forward(p: Tensor, p_max: float) -> Tensor:
        return p.clamp(-p_max, p_max)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        p, p_max = inputs
        ctx.save_for_backward(p)
        ctx.p_max = p_max

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (p,) = ctx.saved_tensors
        outward = grad * p.sign() < 0.0  # following it would raise abs(p)
        return torch.where((p.abs() >= ctx.p_max) & outward, 0.0, grad), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, None], p: Tensor, p_max: float) -> tuple[Tensor, int | None]:
        return _Cap.apply(p, p_max), in_dims[0]  # elementwise; a generated rule would trace at every call


class _EagerCap(torch.autograd.Function):
    """A cheaper :class:`_Cap` for when no transform is active."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, p_max: float) -> Tensor:
        ctx.save_for_backward(p)
        ctx.p_max = p_max
        return p.clamp(-p_max, p_max)

    backward = _Cap.backward
