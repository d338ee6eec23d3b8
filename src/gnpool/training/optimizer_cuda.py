"""The step of :class:`~gnpool.training.optimizer.StackedOptimizer` on a GPU, in one kernel instead of some thirty."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,assignment"

from __future__ import annotations

import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def step_kernel(
    flat, gradient, norm, alive, first, second, rate, decay, adam, beta1, beta2, eps, clip, scale, steps, P,
    CLIP_EPS: tl.constexpr, HAS_DECAY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Updates flat, first and second of the replicas that are alive; a program has BLOCK columns of one of them."""
    i_row = tl.program_id(0).to(tl.int64)
    dtype = flat.dtype.element_ty
    if tl.load(alive + i_row) != 0:
        o_p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        m = o_p < P
        o = i_row * P + o_p
        old1, old2 = tl.load(beta1 + i_row), tl.load(beta2 + i_row)
        speed = tl.load(scale)
        root = tl.full((), 1.0, tl.float64)
        if tl.load(adam + i_row) != 0:
            t = tl.load(steps)
            speed = speed / (1.0 - tl.exp(t * tl.log(old1)))
            root = tl.sqrt(1.0 - tl.exp(t * tl.log(old2)))
        longest, length = tl.load(clip + i_row), tl.load(norm + i_row)
        shorter = tl.minimum(longest / (length + CLIP_EPS), 1.0)
        b_x = tl.load(flat + o, mask=m, other=0.0)
        b_g = tl.load(gradient + o, mask=m, other=0.0) * shorter
        if HAS_DECAY:
            b_g += tl.load(decay + o, mask=m, other=0.0) * b_x
        b_m = old1.to(dtype) * tl.load(first + o, mask=m, other=0.0) + (1.0 - old1).to(dtype) * b_g
        b_v = old2.to(dtype) * tl.load(second + o, mask=m, other=0.0) + (1.0 - old2).to(dtype) * (b_g * b_g)
        b_rate = (tl.load(rate + o, mask=m, other=0.0) * speed).to(dtype)
        b_x -= b_rate * b_m / (tl.sqrt(b_v) / root.to(dtype) + tl.load(eps + i_row))
        tl.store(first + o, b_m, mask=m)
        tl.store(second + o, b_v, mask=m)
        tl.store(flat + o, b_x, mask=m)
