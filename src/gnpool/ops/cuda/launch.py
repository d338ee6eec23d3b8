"""Launches Triton kernels at less cost to the host: compiled kernels are kept under a short key of the arguments."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import triton
from torch import Tensor

from gnpool.ops.cuda.arithmetic import INTERPRETED

_COMPILED: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}
#: From this version on, a compiled kernel takes all parameters in the order of its signature, constants too.
_DIRECT = not INTERPRETED and tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 4)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Run ``kernel[grid](*arguments, **constants)``; ``arguments`` are the first parameters, in order.

    Triton binds and inspects every argument at every launch, which takes longer than many of these kernels run. Its
    choice of a compiled kernel depends only on what the key contains: types, alignment, and the kind of each number.
    """
    if not _DIRECT:
        kernel[grid](*arguments, **constants)
        return
    key = (id(kernel), torch.cuda.current_device(), *map(_kind, arguments), *constants.items())
    found = _COMPILED.get(key)
    if found is None:
        compiled = kernel[grid](*arguments, **constants)
        _COMPILED[key] = compiled, tuple(constants[name] for name in kernel.arg_names[len(arguments) :])
        return
    compiled, rest = found
    compiled[(*grid, 1, 1)[:3]](*arguments, *rest)


def _kind(argument: Any) -> Any:
    """All facts about an argument that a compiled kernel may assume."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % 16
    if isinstance(argument, int):
        return argument == 1, argument % 16 == 0, -(2**31) <= argument < 2**31
    return type(argument)


def device_of(x: Tensor) -> contextlib.AbstractContextManager[object]:
    """Make the device of x the current one, on which Triton launches, if it is not."""
    elsewhere = x.is_cuda and x.device.index != torch.cuda.current_device()
    return torch.cuda.device(x.device) if elsewhere else contextlib.nullcontext()


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up. Triton's own function takes many times as long."""
    return -(-a // b)


def power_of_2(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << (n - 1).bit_length() if n > 1 else 1
