"""CUDA: streams of their own for studies side by side, and functions recorded as one graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_RECORDING = threading.Lock()  # one at a time in a process
WARM_UP = 3  # calls before recording, as torch asks for: they compile, allocate and choose algorithms


def record(call: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """``call`` as a CUDA graph; what comes back replays it. ``call`` itself runs a few times before."""
    with _RECORDING, torch.cuda.device(device):
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                call()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may go on with their work
            call()
    replay: Callable[[], None] = graph.replay
    return replay


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Work of the block goes to a stream of its own, so that studies in several threads share the GPU."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()
