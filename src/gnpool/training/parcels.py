"""Packs batches for another process: tensors in a safetensors file, and a small remainder beside it.

Unlike a pickle, such a file runs no code when it is read. Large data does not go through a pipe, because a process
killed while it writes to one would leave the reader waiting.
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

    path (Path): The file with the tensors.
        path (Path): The file of the tensors.
        names (tuple): Fields of the graphs, in their order.
        rest (dict): All other attributes, which are not tensors.
    """

    path: Path
    names: tuple[str, ...]
    rest: dict[str, Any]


def pack(batches: Batches, folder: Path) -> Parcel:
    """Write batches to a new file in a folder."""
    attributes = {name: value for name, value in vars(batches).items() if name != "values"}
    tensors = {name: value for name, value in attributes.items() if isinstance(value, Tensor)}
    tensors |= {f"values/{name}": value.contiguous() for name, value in batches.values.items()}
    handle, path = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(safetensors.torch.save(tensors))
    rest = {name: value for name, value in attributes.items() if name not in tensors}
    return Parcel(Path(path), tuple(batches.values), rest)


def unpack(parcel: Parcel) -> Batches:
    """Read the batches, equal to the packed ones to the bit."""
    tensors = safetensors.torch.load(parcel.path.read_bytes())
    values = {name: tensors.pop(f"values/{name}") for name in parcel.names}
    batches = Batches.__new__(Batches)
    vars(batches).update(parcel.rest, values=values, **tensors)
    return batches
