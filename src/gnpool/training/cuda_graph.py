"""CUDA: streams of their own for studies side by side, and functions recorded as one graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch

_RECORDING = threading.Lock()  # one at a time in a process
WARM_UP = 3  # calls before recording, as torch asks for: they compile, allocate and choose algorithms
POOL = 32  # streams that torch hands out in turn, again and again
RECORDERS = 24  # of them at most to record on: there must be some to work on
_STREAMS = threading.Lock()  # of the three that follow, by device
_FREE: dict[int, list[torch.cuda.Stream]] = {}  # streams that were recorded on, and may be again
_MADE: dict[int, set[int]] = {}  # all of them, by their addresses
_WORKED: dict[int, list[int]] = {}  # addresses of those that blocks of own_stream work on
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
    if they ran side by side. The stream has the usual priority: torch runs a graph with that of the stream on which it
    was recorded, and those of a higher one let nothing else on the GPU come to its turn.
    """

    def __init__(self, device: int) -> None:
        with _STREAMS:
            self.home, made = _FREE.setdefault(device, []), _MADE.setdefault(device, set())
            if self.home:
                self.stream = self.home.pop()
                return
            stream = _other_stream(device, [*made, *_WORKED.get(device, [])]) if len(made) < RECORDERS else None
            if stream is None:
                raise RuntimeError(f"{len(made)} studies with CUDA graphs are at work on this GPU: no stream is left")
            made.add(stream.cuda_stream)
            self.stream = stream

    def __del__(self) -> None:
        if hasattr(self, "stream"):
            self.home.append(self.stream)


def _other_stream(device: int, taken: Collection[int]) -> torch.cuda.Stream | None:
    """One of torch's streams that is not among those, if there is one."""
    streams = (torch.cuda.Stream(device) for _ in range(POOL))
    return next((stream for stream in streams if stream.cuda_stream not in taken), None)


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
    index = torch.cuda.current_device() if device.index is None else device.index
    with _STREAMS:
        stream, worked = _other_stream(index, _MADE.get(index, ())), _WORKED.setdefault(index, [])
        assert stream is not None  # there are more than can be recorded on
        worked.append(stream.cuda_stream)
    stream.wait_stream(torch.cuda.current_stream(device))
    outer, _HERE.recorders = getattr(_HERE, "recorders", None), {}
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()  # whoever gets the recorder next must not meet what is still under way
        _HERE.recorders = outer
        with _STREAMS:
            worked.remove(stream.cuda_stream)
