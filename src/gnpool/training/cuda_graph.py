"""A training step as one CUDA graph: recorded once over a batch that stays in place, replayed for every other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from gnpool.training.batches import Batch

WARM_UP = 3  # calls before recording, as torch asks for: they compile, allocate and choose algorithms


class StaticBatch:
    """A batch on the device whose content is replaced in place; all batches loaded must have the same shapes."""

    def __init__(self, batch: Batch, device: torch.device) -> None:
        self.device = device
        self.batch = batch.to(device)
        self.targets = _tensors(self.batch)

    def load(self, batch: Batch) -> None:
        """Copy the content of a batch on the CPU here, without waiting for the device."""
        sources = [source.pin_memory() for source in _tensors(batch)]
        torch._foreach_copy_(self.targets, sources, non_blocking=True)


def _tensors(batch: Batch) -> list[Tensor]:
    """Every tensor of a batch, with the lists that a sorted EdgeIndex keeps for the kernels."""
    found: list[Tensor] = []
    for value in batch.fields.values():
        if isinstance(value, EdgeIndex):
            (ptr, _), _ = value.get_csc()
            (t_ptr, t_row), t_eid = value.get_csr()
            found += [value.as_tensor(), ptr, t_ptr, t_row, t_eid]
        elif isinstance(value, Tensor):
            found.append(value)
    return found


def record(call: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """``call`` as a CUDA graph; what it returns replays it. ``call`` itself runs a few times before."""
    with torch.cuda.device(device):
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                call()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    replay: Callable[[], None] = graph.replay
    return replay
