"""Named tensors as safetensors bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from gnpool.store.errors import Damaged

RESERVED = "__metadata__"  # of the format


def dump(tensors: Mapping[str, Any]) -> bytes:
    """Tensors or arrays as the bytes of a safetensors file; equal content gives equal bytes."""
    plain = {}
    for name in tensors:
        if not isinstance(name, str) or name == RESERVED:
            raise TypeError(f"'tensors' must have strings other than '{RESERVED}' as keys, got {name!r}")
        plain[name] = _plain(tensors[name], name)
    return safetensors.torch.save(plain)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors behind the bytes of a safetensors file, on the CPU."""
    with checked():
        return safetensors.torch.load(data)


@contextmanager
def checked() -> Iterator[None]:
    """Turn every error of reading safetensors into :class:`Damaged`, those of the format and those of odd headers.

    An unknown type raises ``KeyError``; impossible shapes raise the others.
    """
    try:
        yield
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        text = " ".join(str(error).split())
        raise Damaged(f"it is not a safetensors file ({type(error).__name__}: {text})") from error


def _plain(value: Any, name: str) -> Tensor:
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(np.array(value, order="C"))
        except TypeError as error:
            raise TypeError(f"'tensors[{name!r}]' must hold numbers, got an array of {value.dtype}") from error
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        kind = value.layout if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"'tensors[{name!r}]' must be a dense tensor or array, got {kind}")
    # A copy of each, since the format refuses tensors that share memory, as tied weights do.
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)
