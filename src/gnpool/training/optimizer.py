"""RMSprop and Adam over many replicas at once, each with its own rates, clipping and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from gnpool.ops.registry import kernels
from gnpool.training.settings import Setting
from gnpool.training.stack import GROUPS

CLIP_EPS = 1e-6  # of torch.nn.utils.clip_grad_norm_


class StackedOptimizer:
    r"""One update rule for both optimisers, over ``flat`` (R, P).

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        \theta \leftarrow \theta - \frac{\eta}{c_1} \frac{m}{\sqrt{v} / \sqrt{c_2} + \epsilon}

    with :math:`c_i = 1 - \beta_i^t` for Adam. RMSprop is :math:`\beta_1 = 0`, :math:`\beta_2 = \alpha`,
    :math:`c_i = 1`. Every constant is a column with one value per replica. No value is read back from the device, so
    that a CUDA graph can hold the step. The step is a single kernel if Numba (CPU) or Triton (GPU) is available.
    """

    def __init__(self, settings: Sequence[Setting], group_of_column: Tensor, like: Tensor) -> None:
        def column(values: Sequence[float], dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=like.device)[:, None]

        adam = [s.optimizer == "adam" for s in settings]
        rates = like.new_tensor([[s.rates[group] for group in GROUPS] for s in settings], dtype=torch.float64)
        decayed = like.new_tensor([group == "rest" for group in GROUPS], dtype=torch.bool)
        group_of_column = group_of_column.to(like.device)
        self.adam = column(adam, torch.bool)
        self.beta1 = column([s.betas[0] if a else 0.0 for s, a in zip(settings, adam, strict=True)])
        self.beta2 = column([s.betas[1] if a else s.alpha for s, a in zip(settings, adam, strict=True)])
        self.eps = column([s.eps for s in settings]).to(like.dtype)
        self.clip = column([math.inf if s.clip is None else s.clip for s in settings]).to(like.dtype)
        self.clips = any(s.clip is not None for s in settings)
        self.rate = rates[:, group_of_column]  # (R, P)
        decay = column([s.weight_decay for s in settings]) * decayed[group_of_column]
        self.decay = decay.to(like.dtype) if any(s.weight_decay for s in settings) else None
        self.scale = torch.ones((), dtype=torch.float64, device=like.device)  # factor of all rates, for schedules
        self.steps = torch.zeros((), dtype=torch.float64, device=like.device)
        self.first = torch.zeros_like(like)
        self.second = torch.zeros_like(like)
        self.kernel = _kernel(like.device)

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint must hold, by name; not copies."""
        return {"steps": self.steps, "first": self.first, "second": self.second}

    @torch.no_grad()
    def step(self, flat: Tensor, gradient: Tensor, norm: Tensor, alive: Tensor) -> None:
        """Update ``flat`` in place by ``gradient`` (R, P) of norm ``norm`` (R, 1), for replicas that are ``alive``."""
        dtype = flat.dtype
        self.steps.add_(1)
        if self.kernel is not None:
            tensors = [flat, gradient.contiguous(), norm, alive, self.first, self.second, self.rate, self.decay]
            self.kernel(*tensors, self.adam, self.beta1, self.beta2, self.eps, self.clip, self.scale, self.steps)
            return
        if self.clips:
            gradient = gradient * (self.clip / (norm + CLIP_EPS)).clamp(max=1.0)
        if self.decay is not None:
            gradient = gradient + self.decay * flat
        one = torch.ones_like(self.beta1)
        c1 = torch.where(self.adam, 1 - self.beta1**self.steps, one)
        c2 = torch.where(self.adam, 1 - self.beta2**self.steps, one).sqrt().to(dtype)
        keep1, keep2 = self.beta1.to(dtype), self.beta2.to(dtype)
        take1, take2 = (1 - self.beta1).to(dtype), (1 - self.beta2).to(dtype)
        first = torch.addcmul(keep1 * self.first, take1, gradient)
        second = torch.addcmul(keep2 * self.second, take2, gradient.square())
        rate = (self.rate * (self.scale / c1)).to(dtype)
        moved = flat - rate * first / (second.sqrt() / c2 + self.eps)
        for old, new in ((self.first, first), (self.second, second), (flat, moved)):
            torch.where(alive, new, old, out=old)


def _kernel(device: torch.device) -> Callable[..., None] | None:
    """The step as one kernel, a function of its tensors in order, if a compiler serves the device."""
    name = kernels(device.type).__name__
    if name == "gnpool.ops.cpu.backend":
        return _numba_step
    return _triton_step if name == "gnpool.ops.cuda.backend" else None


def _numba_step(flat: Tensor, *tensors: Tensor | None) -> None:
    from gnpool.training.optimizer_cpu import step_kernel  # Numba is optional

    at = tuple(0 if tensor is None else tensor.data_ptr() for tensor in (flat, *tensors))
    step_kernel((*at, *flat.shape), (np.float64 if flat.dtype == torch.float64 else np.float32)(CLIP_EPS))


def _triton_step(flat: Tensor, *tensors: Tensor | None) -> None:
    from gnpool.ops.cuda.launch import cdiv, launch
    from gnpool.training.optimizer_cuda import BLOCK, step_kernel  # Triton is optional

    # without decay the kernel gets a pointer that it does not use
    arguments = [flat if tensor is None else tensor for tensor in tensors]
    arguments = [tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor for tensor in arguments]
    R, P = flat.shape
    launch(
        step_kernel, (R, cdiv(P, BLOCK)), flat, *arguments, P, CLIP_EPS=CLIP_EPS, HAS_DECAY=tensors[6] is not None,
        BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
