"""CUDA: streams of their own for studies side by side, and functions recorded as one graph."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_RECORDING = threading.Lock()  # one at a time in a process
WARM_UP = 3  # calls before recording, as torch asks for: they compile, allocate and choose algorithms


def record(call: Callable[[], None], device: torch.device, warm_up: int = WARM_UP) -> Callable[[], None]:
    """``call`` as a CUDA graph; what comes back replays it. ``call`` itself runs ``warm_up`` times before."""
    with _RECORDING, torch.cuda.device(device):
        side = _recording_stream(torch.cuda.current_device())
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warm_up):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # other threads may go on with their work
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            call()
    replay: Callable[[], None] = graph.replay
    return replay


@functools.cache
def _recording_stream(device: int) -> torch.cuda.Stream:
    """The one stream on which a device records.

    torch hands out 32 streams in turn, again and again. What another thread does on the stream that is being recorded
    becomes part of the graph instead of being done, so that this one must be nobody else's: streams of high priority
    are counted by themselves, and :func:`own_stream` gives none of them.
    """
    return torch.cuda.Stream(device, priority=-1)


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
