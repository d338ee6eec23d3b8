"""CUDA: separate streams for studies that run side by side, and functions recorded as one graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch

_RECORDING = threading.Lock()  # one at a time in a process
WARM_UP = 3  # calls before recording, as torch asks for: they compile, allocate and choose algorithms
POOL = 32  # torch hands out this many streams in turn
RECORDERS = 24  # at most this many of them are recorded on; the others are left to work on
_STREAMS = threading.Lock()  # guards the three dictionaries that follow, which are by device
_FREE: dict[int, list[torch.cuda.Stream]] = {}  # streams that were recorded on and are free again
_MADE: dict[int, set[int]] = {}  # the addresses of all streams to record on
_WORKED: dict[int, list[int]] = {}  # the addresses of the streams that blocks of own_stream work on
_HERE = threading.local()  # "recorders": those of this thread's block of own_stream, by device


def record(call: Callable[[], None], device: torch.device, warm_up: int = WARM_UP) -> Callable[[], None]:
    """Record ``call`` as a CUDA graph after ``warm_up`` ordinary calls, and return a function that replays it.

    Unlike :class:`torch.cuda.graph` this does not wait for other threads, which may have queued seconds of work.
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
    """A stream to record on. Nobody else gets it while this object, or a graph recorded on it, lives.

    There are two reasons not to share it. What another thread does on a stream that is being recorded becomes part of
    the graph instead of being done. And torch keeps one cuBLAS workspace for each stream and thread, while all backward
    passes run in one thread: graphs recorded on the same stream would share a workspace, and would spoil each other's
    products when they run side by side. The stream has the usual priority, since a graph runs with the priority of the
    stream on which it was recorded, and a higher one would keep all other work on the GPU waiting.
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
    """One of torch's streams that is not ``taken``, if there is one."""
    streams = (torch.cuda.Stream(device) for _ in range(POOL))
    return next((stream for stream in streams if stream.cuda_stream not in taken), None)


def _recorder(device: int) -> _Recorder:
    """The recorder of this thread's block of :func:`own_stream`; outside of such a block, a new one for each graph."""
    recorders: dict[int, _Recorder] | None = getattr(_HERE, "recorders", None)
    if recorders is None:
        return _Recorder(device)
    if device not in recorders:
        recorders[device] = _Recorder(device)
    return recorders[device]


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Run the block on its own stream, so that studies in several threads share the GPU."""
    if device.type != "cuda":
        yield
        return
    index = torch.cuda.current_device() if device.index is None else device.index
    with _STREAMS:
        stream, worked = _other_stream(index, _MADE.get(index, ())), _WORKED.setdefault(index, [])
        assert stream is not None  # torch has more streams than can be recorded on
        worked.append(stream.cuda_stream)
    stream.wait_stream(torch.cuda.current_stream(device))
    outer, _HERE.recorders = getattr(_HERE, "recorders", None), {}
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()  # the next owner of the recorder must not start before this work is done
        _HERE.recorders = outer
        with _STREAMS:
            worked.remove(stream.cuda_stream)
