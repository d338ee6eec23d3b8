"""Cases with compiled rivals: PyG's aggregations under ``torch.compile``, and torch's own operations on segments.

They need a C++ compiler on the CPU. Each compiled function has fixed shapes, which is the best case for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import (
    Aggregation,
    MaxAggregation,
    MeanAggregation,
    PowerMeanAggregation,
    SoftmaxAggregation,
    SumAggregation,
)

from benchmarks.cases import Call, Promise, Step, case, composed, segments
from gnpool import GNPAggregation, GNPConv, norm_pool

COMPILED: dict[str, Callable[[], Aggregation]] = {
    "sum": SumAggregation,
    "mean": MeanAggregation,
    "max": MaxAggregation,
    "power mean": lambda: PowerMeanAggregation(learn=True),
    "softmax": lambda: SoftmaxAggregation(learn=True),
}


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile the function without a graph break, for the shapes it gets."""
    return torch.compile(function, fullgraph=True, dynamic=False)


def rivals(x: Tensor, index: Tensor, ptr: Tensor, compile_: Callable[..., Callable[..., Tensor]]) -> dict[str, Step]:
    """Forward and backward of other libraries' poolings on these segments; ``index`` is sorted."""
    size, rows = ptr.numel() - 1, index[:, None].expand_as(x)
    lengths = ptr.diff()
    found = {}
    for name, make in COMPILED.items():
        module = make().to(x.device)

        def call(x: Tensor, *_: Tensor, module: Aggregation = module) -> Tensor:
            out: Tensor = module(x, index, dim_size=size)
            return out

        found[f"PyG {name}, compiled"] = Step(compile_(call), x, list(module.parameters()))
    exponents = [torch.tensor(value, device=x.device, requires_grad=True) for value in (1.7, 0.3)]
    found["composed, compiled"] = Step(compile_(lambda x, p, q: composed(x, index, size, p, q)), x, exponents)
    for reduce in ("sum", "max"):
        found[f"segment_reduce {reduce}"] = Step(
            lambda x, reduce=reduce: torch.segment_reduce(x, reduce, lengths=lengths, axis=0, unsafe=True), x
        )
    for reduce in ("sum", "amax"):
        found[f"scatter_reduce {reduce}"] = Step(
            lambda x, reduce=reduce: x.new_zeros(size, x.size(1)).scatter_reduce(
                0, rows, x, reduce, include_self=False
            ),
            x,
        )
    for reduce in ("mean", "amax"):
        found[f"index_reduce {reduce}"] = Step(
            lambda x, reduce=reduce: x.new_zeros(size, x.size(1)).index_reduce(0, index, x, reduce, include_self=False),
            x,
        )
    if importlib.util.find_spec("torch_scatter") is not None:  # it has to be built for the installed torch
        segment_csr = importlib.import_module("torch_scatter").segment_csr
        found["torch_scatter max"] = Step(lambda x: segment_csr(x, ptr, reduce="max"), x)
    return found


def against_rivals(
    x: Tensor, index: Tensor, ptr: Tensor, compile_: Callable[..., Callable[..., Tensor]]
) -> dict[str, Call]:
    """Our operator with learned p and q, with both under ``torch.compile``, and as the max; then all others."""
    learned = [torch.tensor(value, device=x.device, requires_grad=True) for value in (1.7, 0.3)]

    def pool(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return norm_pool(x, ptr=ptr, p=p, q=q)

    return {
        "gnpool": Step(pool, x, learned),
        "gnpool, compiled": Step(compile_(pool), x, learned),
        "gnpool, max": Step(lambda x: norm_pool(x, ptr=ptr, p=math.inf), x),
        **rivals(x, index, ptr, compile_),
    }


PROMISES = (
    Promise("gnpool", "PyG power mean, compiled", 1.0),
    Promise("gnpool", "PyG softmax, compiled", 1.0),
    Promise("gnpool", "composed, compiled", 1.0),
    Promise("gnpool", "PyG sum, compiled", 1.0, moonshot=True),
    Promise("gnpool", "PyG mean, compiled", 1.0, moonshot=True),
    Promise("gnpool, max", "PyG max, compiled", 1.0, moonshot=True),
    Promise("gnpool, max", "segment_reduce max", 1.0, moonshot=True),
    Promise("gnpool, max", "scatter_reduce amax", 1.0, moonshot=True),
    Promise("gnpool, max", "index_reduce amax", 1.0, moonshot=True),
)


@case("rivals", "the segments of 'segments' against compiled rivals, forward and backward", *PROMISES, rounds=9)
def _rivals() -> dict[str, Call]:
    return against_rivals(*segments(264_059, 8_192, 64), compiled)


@case(
    "cuda rivals",
    "131,072 segments of 1 to 63 rows, 64 channels, float32 against compiled rivals, forward and backward",
    *PROMISES,
    rounds=9,
    device="cuda",
    seconds=0.05,
)
def _cuda_rivals() -> dict[str, Call]:
    torch.manual_seed(0)
    ptr = torch.nn.functional.pad(torch.randint(1, 64, (131_072,)).cumsum(0), (1, 0)).cuda()
    return against_rivals(
        torch.rand(int(ptr[-1]), 64, device="cuda"), torch.repeat_interleave(ptr.diff()), ptr, compiled
    )


class Net(torch.nn.Module):
    """A network of two layers that pool neighbours, and a readout."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (
            GNPConv(torch.nn.Sequential(torch.nn.Linear(channels, channels), torch.nn.ReLU()), GNPAggregation(channels))
            for _ in range(2)
        )
        self.readout = GNPAggregation(channels)
        self.out = torch.nn.Linear(channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, graphs: int) -> Tensor:
        x = self.second(self.first(x, edge_index), edge_index)
        out: Tensor = self.out(self.readout(x, batch, dim_size=graphs))
        return out


class Training:
    """Forward and backward pass of a network on a batch of random graphs."""

    def __init__(self, net: Callable[..., Tensor], parameters: list[Tensor], batch: tuple[Tensor, Tensor, Tensor, int]):
        self.net, self.parameters, self.batch = net, parameters, batch

    def __call__(self) -> object:
        return torch.autograd.grad(self.net(*self.batch).square().mean(), self.parameters)


def batch_of_graphs(graphs: int, nodes: int, degree: int, channels: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """x, edge_index, batch and the number of graphs; all have one size, and edges are grouped by destination."""
    torch.manual_seed(0)
    count = graphs * nodes
    destination = torch.arange(count).repeat_interleave(degree)
    source = destination // nodes * nodes + torch.randint(0, nodes, (count * degree,))
    batch = torch.arange(graphs).repeat_interleave(nodes)
    return torch.rand(count, channels), torch.stack([source, destination]), batch, graphs


def eager_and_compiled(graphs: int, nodes: int, channels: int, device: str) -> dict[str, Call]:
    """A network run eagerly, and as one graph of ``torch.compile``."""
    x, edges, batch, count = batch_of_graphs(graphs, nodes, 10, channels)
    data = (x.to(device), edges.to(device), batch.to(device), count)
    net = Net(channels).to(device)
    parameters = list(net.parameters())
    return {
        "eager": Training(net, parameters, data),
        "compiled": Training(compiled(net), parameters, data),
    }


@case(
    "model",
    "two GNPConv and a readout, 64 graphs of 50 nodes and 500 edges, 64 channels, forward and backward: torch.compile "
    "without a graph break",
    Promise("compiled", "eager", 1.0),
)
def _model() -> dict[str, Call]:
    return eager_and_compiled(64, 50, 64, "cpu")


@case(
    "cuda model",
    "two GNPConv and a readout, 1,024 graphs of 50 nodes and 500 edges, 64 channels, forward and backward: "
    "torch.compile without a graph break",
    Promise("compiled", "eager", 1.0),
    device="cuda",
    seconds=0.05,
)
def _cuda_model() -> dict[str, Call]:
    return eager_and_compiled(1024, 50, 64, "cuda")
