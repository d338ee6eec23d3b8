"""The assignment of rows of ``x`` to segments, as compressed lists, which is the form that all kernels take."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch import Tensor


class Layout(NamedTuple):
    """S segments of E entries; entry e, at ``ptr[s] <= e < ptr[s + 1]``, is row ``col[e]`` of x in segment s.

    The transposed lists hold the same assignment by rows. They exist if a row can be used more than once (neighbours);
    without them (segments) every row is used exactly once.
    """

    ptr: Tensor  # (S + 1,)
    col: Tensor | None = None  # (E,); None: entry e is row e
    eid: Tensor | None = None  # (E,) where the weight of the entry stands; None: at e
    t_ptr: Tensor | None = None  # (N + 1,)
    t_row: Tensor | None = None  # (E,) the segment of each use of the row
    t_eid: Tensor | None = None  # (E,) where its weight stands


def checking(tensor: Tensor) -> bool:
    """Whether to check the numbers: always on the CPU; elsewhere only on request, since it waits for the device."""
    return tensor.device.type == "cpu" or os.environ.get("GNPOOL_CHECK") == "1"


def check_range(index: Tensor, size: int) -> None:
    """Raise an IndexError with the first value of ``index`` outside [0, size) and its position."""
    if index.numel() == 0 or not checking(index):
        return
    low, high = torch.aminmax(index)
    if int(low) < 0 or int(high) >= size:
        position = int(((index < 0) | (index >= size)).nonzero()[0])
        raise IndexError(f"got {int(index[position])} at position {position}")
