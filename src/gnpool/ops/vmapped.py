"""A shortcut through ``torch.vmap``.

To take a custom function through its transforms, torch builds several trees of arguments and signatures, which costs
more than a small kernel. If a single vmap is active, as in training many models, :class:`OnlyVmap` does the same in
three calls: it unwraps the tensors, computes below the transform, and wraps the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import CVmapInterpreterPtr, TransformType, _add_batch_dim, _unwrap_batched
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack


class OnlyVmap(NamedTuple):
    """The only active transform, a vmap over ``size`` replicas."""

    level: int
    size: int

    def unwrap(self, value: Any) -> tuple[Any, int | None]:
        """The tensor behind ``value``, and its dimension of replicas."""
        if not isinstance(value, Tensor):
            return value, None
        unwrapped: tuple[Tensor, int | None] = _unwrap_batched(value, self.level)
        return unwrapped

    def below(self, compute: Callable[[], Tensor], dim: int) -> Tensor:
        """``compute()`` without the transform; its result has the replicas in ``dim``."""
        with temporarily_pop_interpreter_stack():
            result = compute()
        wrapped: Tensor = _add_batch_dim(result, dim, self.level)
        return wrapped


def only_vmap() -> OnlyVmap | None:
    """The active vmap, or None if there is no transform or another one."""
    stack = torch._C._functorch.get_interpreter_stack()
    if stack is None or len(stack) != 1 or stack[0].key() != TransformType.Vmap:
        return None
    return OnlyVmap(stack[0].level(), CVmapInterpreterPtr(stack[0]).batchSize())
