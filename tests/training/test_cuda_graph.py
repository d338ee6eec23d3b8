"""Tests on which streams graphs are recorded; this needs no GPU, because torch only hands out streams."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch

from gnpool.training import cuda_graph
from gnpool.training.cuda_graph import POOL, RECORDERS, own_stream

CUDA = torch.device("cuda")


@dataclass(frozen=True)
class Stream:
    """Hands out addresses as torch does: those of a priority in turn, again and again."""

    device: object
    priority: int = 0
    counts: ClassVar[dict[int, Iterator[int]]] = {}
    cuda_stream: int = field(init=False)

    def __post_init__(self) -> None:
        turn = next(self.counts.setdefault(self.priority, itertools.count())) % POOL
        object.__setattr__(self, "cuda_stream", 1000 * -self.priority + turn)

    def wait_stream(self, other: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


@pytest.fixture(autouse=True)
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def entered(stream: Stream) -> Iterator[None]:
        yield

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(Stream, "counts", {})
    monkeypatch.setattr(cuda_graph, "_FREE", {})
    monkeypatch.setattr(cuda_graph, "_MADE", {})
    monkeypatch.setattr(cuda_graph, "_WORKED", {})


def test_a_study_has_one_stream_to_record_on_for_each_device() -> None:
    with own_stream(CUDA):
        first = cuda_graph._recorder(0)
        assert cuda_graph._recorder(0) is first
        assert cuda_graph._recorder(1) is not first
        with own_stream(CUDA):
            assert cuda_graph._recorder(0).stream != first.stream
        assert cuda_graph._recorder(0) is first
    assert cuda_graph._recorder(0).stream != first.stream


def working() -> int:
    """The address of the stream that the last block of own_stream works on."""
    return cuda_graph._WORKED[0][-1]


def test_no_two_living_ones_are_the_same_and_none_is_one_for_work() -> None:
    with own_stream(CUDA):
        before = working()
        living = [cuda_graph._Recorder(0) for _ in range(RECORDERS)]
        addresses = {recorder.stream.cuda_stream for recorder in living}
        assert len(addresses) == RECORDERS
        assert before not in addresses
        for _ in range(2 * POOL):
            with own_stream(CUDA):
                assert working() not in addresses
        with pytest.raises(RuntimeError, match=f"{RECORDERS} studies with CUDA graphs are at work"):
            cuda_graph._Recorder(0)
    assert cuda_graph._WORKED[0] == []


def test_a_stream_that_is_worked_on_is_not_recorded_on() -> None:
    with ExitStack() as blocks:
        for _ in range(POOL - 2):
            blocks.enter_context(own_stream(CUDA))
        living = [cuda_graph._Recorder(0) for _ in range(2)]
        assert not {recorder.stream.cuda_stream for recorder in living} & set(cuda_graph._WORKED[0])
        with pytest.raises(RuntimeError, match="2 studies with CUDA graphs are at work on this GPU: no stream is left"):
            cuda_graph._Recorder(0)
        with own_stream(CUDA):  # work may share
            assert len(cuda_graph._WORKED[0]) == POOL - 1


def test_graphs_have_the_usual_priority() -> None:
    assert cuda_graph._Recorder(0).stream.priority == 0


def test_it_is_given_back_with_the_last_that_needs_it() -> None:
    with own_stream(CUDA):
        graph = [cuda_graph._recorder(0)]  # as a graph keeps it
        address = graph[0].stream.cuda_stream
    gc.collect()
    assert address not in [stream.cuda_stream for stream in cuda_graph._FREE[0]]
    graph.clear()
    gc.collect()
    assert address in [stream.cuda_stream for stream in cuda_graph._FREE[0]]
    assert cuda_graph._recorder(0).stream.cuda_stream == address
