"""A function recorded as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch

WARM_UP = 3  # calls before recording, as torch asks for: they compile, allocate and choose algorithms


def record(call: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """``call`` as a CUDA graph; what comes back replays it. ``call`` itself runs a few times before."""
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
