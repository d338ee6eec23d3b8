"""Batches on their way to another process: tensors in a safetensors file, and little else beside it.

Unlike a pickle, such a file runs no code when it is read. And what is large does not go through a pipe: a process that
is killed while it writes there would leave the reader waiting.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from gnpool.training import Batches


@dataclass(frozen=True)
class Parcel:
    """Packed batches.

    Args:
        path (Path): The file of the tensors.
        names (tuple): Fields of the graphs, in their order.
        rest (dict): All other attributes that are no tensors.
    """

    path: Path
    names: tuple[str, ...]
    rest: dict[str, Any]


def pack(batches: Batches, folder: Path) -> Parcel:
    """Write batches to a new file of a folder."""
    attributes = {name: value for name, value in vars(batches).items() if name != "values"}
    tensors = {name: value for name, value in attributes.items() if isinstance(value, Tensor)}
    tensors |= {f"values/{name}": value.contiguous() for name, value in batches.values.items()}
    handle, path = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(safetensors.torch.save(tensors))
    rest = {name: value for name, value in attributes.items() if name not in tensors}
    return Parcel(Path(path), tuple(batches.values), rest)


def unpack(parcel: Parcel) -> Batches:
    """The batches, to the bit those that were packed."""
    tensors = safetensors.torch.load(parcel.path.read_bytes())
    values = {name: tensors.pop(f"values/{name}") for name in parcel.names}
    batches = Batches.__new__(Batches)
    vars(batches).update(parcel.rest, values=values, **tensors)
    return batches
