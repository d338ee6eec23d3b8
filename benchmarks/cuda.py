"""Cases of the kernels on a GPU: compared with the memory floor, cuSPARSE and PyTorch Geometric.

A floor is a copy of as many bytes as must move, timed in the same run: every input is read once, and every output
written once. For neighbours, one row per edge must move.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.nn import PowerMeanAggregation, SumAggregation

from benchmarks.cases import Call, Promise, Step, case
from benchmarks.large import SampledStep, batches
from benchmarks.large import random_graph as compressed_graph
from gnpool import norm_pool, norm_pool_neighbors

FLOAT = 4  # bytes
SAVED = 4  # y, its unit, dy/dx without the power, dy/dp: one value each per segment and channel


class Copy:
    """Moves ``moved`` bytes: reads half of them and writes the other half."""

    def __init__(self, moved: float) -> None:
        self.source = torch.zeros(math.ceil(moved / 2 / FLOAT), device="cuda")
        self.target = torch.empty_like(self.source)

    def __call__(self) -> object:
        return self.target.copy_(self.source)


class Backward:
    """The backward pass of ``pool`` alone, for x, p and q."""

    def __init__(self, pool: Callable[..., Tensor], x: Tensor) -> None:
        self.inputs = [x.detach().requires_grad_(), *exponents()]
        self.y = pool(*self.inputs)
        self.seed = torch.rand_like(self.y)

    def __call__(self) -> object:
        return torch.autograd.grad(self.y, self.inputs, self.seed, retain_graph=True)


def exponents() -> list[Tensor]:
    """Learnable p and q on the GPU."""
    return [torch.tensor(value, device="cuda", requires_grad=True) for value in (1.7, 0.3)]


def forward(pool: Callable[..., Tensor], x: Tensor) -> Call:
    """The forward pass of a training step, which keeps what the backward pass needs."""
    x, (p, q) = x.detach().requires_grad_(), exponents()
    return lambda: pool(x, p, q)


def segments(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """131,072 segments of 1 to 63 rows with 64 channels: x and ptr."""
    torch.manual_seed(0)
    ptr = torch.nn.functional.pad(torch.randint(1, 64, (131_072,)).cumsum(0), (1, 0)).cuda()
    return torch.rand(int(ptr[-1]), 64, device="cuda").to(dtype), ptr


def random_graph(nodes: int, edges: int, hub: int = 0) -> tuple[Tensor, EdgeIndex]:
    """Random edges, the first ``hub`` of them into node 0, sorted by destination, with all lists built."""
    torch.manual_seed(0)
    ends = torch.randint(0, nodes, (2, edges), device="cuda")
    ends[1, :hub] = 0
    index = listed(ends, nodes)
    return index.as_tensor(), index


def listed(ends: Tensor, nodes: int) -> EdgeIndex:
    """Edges sorted by destination, with both orders that a forward and a backward pass need."""
    index = EdgeIndex(ends, sparse_size=(nodes, nodes)).sort_by("col").values
    index.get_csr(), index.get_csc()
    return index


@case(
    "cuda segments",
    "131,072 segments of 1 to 63 rows, 64 channels, float32, ptr given; each pass alone is a CUDA graph",
    Promise("gnpool, forward", "floor, forward", 1.4),
    Promise("gnpool, backward", "floor, backward", 1.2),
    Promise("gnpool, both", "PyG sum, both", 1 / 2.5),
    Promise("gnpool, both", "PyG power mean, both", 1 / 12),
    device="cuda",
    seconds=0.05,  # steps in a row, as in training: the host is ahead of the device
)
def _segments() -> dict[str, Call]:
    x, ptr = segments()
    index = torch.repeat_interleave(ptr.diff())
    S, total, power = ptr.numel() - 1, SumAggregation(), PowerMeanAggregation(learn=True).cuda()
    rows, pooled = x.numel() * FLOAT, S * x.size(1) * FLOAT

    def pool(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return norm_pool(x, ptr=ptr, p=p, q=q)

    return {
        "gnpool, forward": Captured(lambda: forward(pool, x)),
        "floor, forward": Copy(rows + SAVED * pooled),
        "gnpool, backward": Captured(lambda: Backward(pool, x)),
        "floor, backward": Copy(2 * rows + (SAVED + 1) * pooled),
        "gnpool, both": Step(pool, x, exponents()),
        "PyG sum, both": Step(lambda x: total(x, index, dim_size=S), x),
        "PyG power mean, both": Step(lambda x, p: power(x, index, dim_size=S), x, list(power.parameters())),
    }


@case(
    "cuda bfloat16",
    "the segments of 'cuda segments' in bfloat16 against float32, each pass a CUDA graph",
    Promise("bfloat16, forward", "float32, forward", 0.65),
    Promise("bfloat16, backward", "float32, backward", 0.65),
    device="cuda",
)
def _bfloat16() -> dict[str, Call]:
    x, ptr = segments()

    def pool(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return norm_pool(x, ptr=ptr, p=p, q=q)

    kinds = {"float32": x, "bfloat16": x.bfloat16()}
    return {f"{name}, forward": Captured(lambda x=x: forward(pool, x)) for name, x in kinds.items()} | {
        f"{name}, backward": Captured(lambda x=x: Backward(pool, x)) for name, x in kinds.items()
    }


@case(
    "cuda growth",
    "the segments of 'cuda segments' in growth coordinates against p and q, each pass a CUDA graph",
    Promise("growth, forward", "p and q, forward", 1.15),
    Promise("growth, backward", "p and q, backward", 1.15),
    device="cuda",
)
def _growth() -> dict[str, Call]:
    x, ptr = segments()
    ways = {
        "p and q": lambda x, p, q: norm_pool(x, ptr=ptr, p=p, q=q),
        "growth": lambda x, p, g: norm_pool(x, ptr=ptr, p=p, growth=g),
        "growth, small p": lambda x, p, g: norm_pool(x, ptr=ptr, p=p / 20.0, growth=g),
    }
    return {f"{name}, forward": Captured(lambda way=way: forward(way, x)) for name, way in ways.items()} | {
        f"{name}, backward": Captured(lambda way=way: Backward(way, x)) for name, way in ways.items()
    }


@case(
    "cuda neighbors",
    "1,000,000 nodes, 32,000,000 random edges, 64 channels, float32, sorted EdgeIndex",
    Promise("gnpool, forward", "cuSPARSE sum", 1.1),
    Promise("gnpool, backward", "cuSPARSE sum", 1.2),
    Promise("gnpool, both", "gather + PyG sum, both", 1 / 7),
    rounds=7,
    device="cuda",
)
def _neighbors() -> dict[str, Call]:
    nodes, count = 1_000_000, 32_000_000
    (source, destination), edges = random_graph(nodes, count)
    x, total = torch.rand(nodes, 64, device="cuda"), SumAggregation()
    (colptr, row), _ = edges.get_csc()
    matrix = torch.sparse_csr_tensor(colptr, row, torch.ones(count, device="cuda"), (nodes, nodes))

    def pool(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return norm_pool_neighbors(x, edges, p=p, q=q)

    return {
        "gnpool, forward": forward(pool, x),
        "gnpool, backward": Backward(pool, x),
        "cuSPARSE sum": lambda: matrix @ x,
        "gnpool, both": Step(pool, x, exponents()),
        "gather + PyG sum, both": Step(lambda x: total(x[source], destination, dim_size=nodes), x),
        "building the lists": lambda: listed(edges.as_tensor(), nodes),
    }


@case(
    "cuda sampled",
    "a training step on sampled neighbours: 10,000,000 nodes, 320,000,000 edges, 8,192 seeds, fan-outs 15 and 10, 64 "
    "channels; every batch has other shapes",
    Promise("lists", "step", 0.25),
    Promise("lists of every hop", "step", 0.25),
    device="cuda",
    seconds=0.05,
)
def _sampled() -> dict[str, Call]:
    torch.manual_seed(0)
    graph = compressed_graph(320_000_000, "cuda")
    step = SampledStep(batches(graph, 8_192, 8), torch.rand(graph.nodes, 64, device="cuda"))
    return {"step": step, "lists": step.lists, "lists of every hop": step.all_lists}


@case(
    "cuda hub",
    "1,000,000 nodes, 32,000,000 edges, 64 channels: a node with 1,000,000 neighbours against none, both passes",
    Promise("gnpool, hub in", "gnpool, uniform", 1.5),
    Promise("gnpool, hub out", "gnpool, uniform", 1.5),
    rounds=7,
    device="cuda",
)
def _hub() -> dict[str, Call]:
    nodes, count, hub = 1_000_000, 32_000_000, 1_000_000
    plain, incoming = random_graph(nodes, count, hub)
    outgoing = listed(plain.flip(0), nodes)
    graphs = {"uniform": random_graph(nodes, count)[1], "hub in": incoming, "hub out": outgoing}
    x = torch.rand(nodes, 64, device="cuda")
    return {
        f"gnpool, {name}": Step(lambda x, p, q, e=edges: norm_pool_neighbors(x, e, p=p, q=q), x, exponents())
        for name, edges in graphs.items()
    }


@case(
    "cuda replicas",
    "120 models x 32 channels folded (3,840), 1,600 nodes, 20,000 edges, float32, each pass a CUDA graph",
    Promise("gnpool, forward", "floor, forward", 1.3),
    Promise("gnpool, backward", "floor, backward", 1.3),
    device="cuda",
)
def _replicas() -> dict[str, Call]:
    nodes, count, channels = 1_600, 20_000, 3_840
    _, edges = random_graph(nodes, count)
    x = torch.rand(nodes, channels, device="cuda")
    gathered, pooled = count * channels * FLOAT, nodes * channels * FLOAT

    def pool(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return norm_pool_neighbors(x, edges, p=p, q=q)

    return {
        "gnpool, forward": Captured(lambda: forward(pool, x)),
        "floor, forward": Copy(gathered + SAVED * pooled),
        "gnpool, backward": Captured(lambda: Backward(pool, x)),
        "floor, backward": Copy(gathered + (SAVED + 2) * pooled),
    }


class Captured:
    """The result of ``make`` as a CUDA graph: the GPU's work without the host's, which takes about as long."""

    def __init__(self, make: Callable[[], Call]) -> None:
        stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a backward pass runs on the stream of its forward pass
            self.call = make()  # kept, because the graph reads from its tensors
            self.call(), self.call()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self.call()

    def __call__(self) -> object:
        return self.graph.replay()
