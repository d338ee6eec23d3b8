"""CUDA: streams of their own for studies side by side, and functions recorded as one graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_RECORDING = threading.Lock()  # one at a time in a process
WARM_UP = 3  # calls before recording, as torch asks for: they compile, allocate and choose algorithms
POOL = 32  # streams of one priority that torch hands out in turn, again and again
_FREE: dict[int, list[torch.cuda.Stream]] = {}  # streams that were recorded on, and may be again
_MADE: dict[int, set[int]] = {}  # all of them, by their addresses
_HERE = threading.local()  # "recorders" by device, of the block of own_stream that this thread is in


def record(call: Callable[[], None], device: torch.device, warm_up: int = WARM_UP) -> Callable[[], None]:
    """``call`` as a CUDA graph; what comes back replays it. ``call`` itself runs ``warm_up`` times before.

    Unlike :class:`torch.cuda.graph` this waits for no work of other threads, which may have queued seconds of it.
    """
    with torch.cuda.device(device):
        recorder = _recorder(torch.cuda.current_device())
        side = recorder.stream
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warm_up):
                call()
            graph = torch.cuda.CUDAGraph()
            with _RECORDING:
                graph.capture_begin(capture_error_mode="thread_local")  # other threads may go on with their work
                try:
                    call()
                finally:
                    graph.capture_end()
        torch.cuda.current_stream().wait_stream(side)

    def replay(graph: torch.cuda.CUDAGraph = graph, recorder: _Recorder = recorder) -> None:
        graph.replay()

    return replay


class _Recorder:
    """A stream to record on, which is nobody else's while this object, or a graph recorded on it, lives.

    What another thread does on a stream that is being recorded becomes part of the graph instead of being done. And
    cuBLAS computes in a workspace that torch keeps for each stream and thread, where the thread of all backward passes
    is one: graphs recorded on the same stream have the same workspace for good, and would spoil each other's products
    if they ran side by side. Streams of high priority are counted by themselves, and :func:`own_stream` gives none of
    them for work.
    """

    def __init__(self, device: int) -> None:
        self.home = _FREE.setdefault(device, [])
        self.stream = self.home.pop() if self.home else _new_stream(device)

    def __del__(self) -> None:
        if hasattr(self, "stream"):
            self.home.append(self.stream)


def _new_stream(device: int) -> torch.cuda.Stream:
    made = _MADE.setdefault(device, set())
    for _ in range(POOL):
        stream = torch.cuda.Stream(device, priority=-1)
        if stream.cuda_stream not in made:
            made.add(stream.cuda_stream)
            return stream
    raise RuntimeError(f"{len(made)} studies with CUDA graphs are at work on this GPU: torch has no more streams")


def _recorder(device: int) -> _Recorder:
    """That of the block of :func:`own_stream` in this thread; outside of one, another for each graph."""
    recorders: dict[int, _Recorder] | None = getattr(_HERE, "recorders", None)
    if recorders is None:
        return _Recorder(device)
    if device not in recorders:
        recorders[device] = _Recorder(device)
    return recorders[device]


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Work of the block goes to a stream of its own, so that studies in several threads share the GPU."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    outer, _HERE.recorders = getattr(_HERE, "recorders", None), {}
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()  # whoever gets the recorder next must not meet what is still under way
        _HERE.recorders = outer
