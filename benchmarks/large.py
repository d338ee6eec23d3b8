"""One large graph: ``python -m benchmarks.large --edges 100_000_000 --channels 16``, on a GPU with ``--device cuda``.

The graph is random, with 1 to 63 neighbours per node, compressed by destination. Four things are measured: the time per
edge and peak memory of forward and backward over all edges; their errors at some nodes; a training step on sampled
neighbours, with the share that builds the lists by source; and the bias of a sum over samples, with and without
the true sizes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gnpool import GNPAggregation, norm_pool_neighbors
from gnpool.ops import library

DEGREE = 32  # mean number of neighbours of a node
FANOUTS = (15, 10)
P, GROWTH, EPS = 1.7, 0.3, 1e-6  # the pooling's exponents; EPS is the operator's default


class Graph(NamedTuple):
    """The edges into node i come from ``source[ptr[i]:ptr[i + 1]]``."""

    ptr: Tensor
    source: Tensor

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.ptr.numel() - 1


class Hop(NamedTuple):
    """Sampled edges as samplers return them: the ``ptr`` of the target nodes, their sources and true degrees."""

    ptr: Tensor
    source: Tensor
    sizes: Tensor


class Sample(NamedTuple):
    """The nodes whose features are read, and the hops from the outermost one to the one that ends at the seeds."""

    nodes: Tensor
    hops: list[Hop]


def random_graph(edges: int, device: str) -> Graph:
    """A random graph with about ``edges`` edges, 1 to 63 into each node."""
    nodes = edges // DEGREE
    degrees = torch.randint(1, 2 * DEGREE, (nodes,), device=device)
    ptr = torch.nn.functional.pad(degrees.cumsum(0), (1, 0))
    return Graph(ptr, torch.randint(0, nodes, (int(ptr[-1]),), device=device))


def sample(graph: Graph, seeds: Tensor, fanouts: tuple[int, ...] = FANOUTS) -> Sample:
    """Draw neighbours with repetition, hop by hop, in plain torch; the targets are the first nodes of each hop."""
    nodes, hops = seeds, []
    for fanout in fanouts:
        degrees = graph.ptr[nodes + 1] - graph.ptr[nodes]
        place = (torch.rand(nodes.numel(), fanout, device=nodes.device) * degrees[:, None]).long()
        drawn = graph.source[graph.ptr[nodes][:, None] + place].flatten()
        both, inverse = torch.cat([nodes, drawn]).unique(return_inverse=True)
        first = torch.full_like(both, both.numel())  # the targets keep their places, and the other nodes follow
        first[inverse[: nodes.numel()]] = torch.arange(nodes.numel(), device=nodes.device)
        order = first.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(order.numel(), device=nodes.device)
        ptr = torch.arange(0, drawn.numel() + 1, fanout, device=nodes.device)
        hops.append(Hop(ptr, rank[inverse[nodes.numel() :]], degrees))
        nodes = both[order]
    return Sample(nodes, hops[::-1])


class SampledNet(torch.nn.Module):
    """A pooling and a linear layer for each hop."""

    def __init__(self, channels: int, hops: int) -> None:
        super().__init__()
        self.pools = torch.nn.ModuleList(GNPAggregation(channels) for _ in range(hops))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(channels, channels) for _ in range(hops))

    def forward(self, x: Tensor, hops: list[Hop]) -> Tensor:
        for pool, layer, hop in zip(self.pools, self.layers, hops, strict=True):
            assert isinstance(pool, GNPAggregation)
            pooled = pool.pool_neighbors(x, (hop.ptr, hop.source), sizes=hop.sizes)
            x = layer(x[: pooled.size(0)] + pooled).relu()
        return x


class SampledStep:
    """Training steps on one sampled batch after another; the batches have different shapes."""

    def __init__(self, batches: list[Sample], x: Tensor) -> None:
        self.batches, self.x, self.number = batches, x, 0
        self.net = SampledNet(x.size(1), len(batches[0].hops)).to(x.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, foreach=True)

    def __call__(self) -> object:
        batch = self._next()
        self.optimizer.zero_grad()
        loss = self.net(self.x[batch.nodes], batch.hops).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def lists(self) -> object:
        """A step's work to get the edges by source; the outermost hop has features that need no gradient."""
        batch = self._next()
        return [
            library.transpose(hop.source, None, hop.ptr, outer.ptr.numel() - 1, False, "source")
            for hop, outer in zip(batch.hops[1:], batch.hops[:-1], strict=True)
        ]

    def all_lists(self) -> object:
        """The same for every hop, for learned features."""
        batch = self._next()
        sizes = [batch.nodes.numel(), *(hop.ptr.numel() - 1 for hop in batch.hops[:-1])]
        return [
            library.transpose(hop.source, None, hop.ptr, size, False, "source")
            for hop, size in zip(batch.hops, sizes, strict=True)
        ]

    def _next(self) -> Sample:
        self.number += 1
        return self.batches[self.number % len(self.batches)]


def batches(graph: Graph, seeds: int, count: int) -> list[Sample]:
    """Batches of slightly different sizes."""
    device = graph.ptr.device
    sizes = [seeds - 7 * k for k in range(count)]
    return [sample(graph, torch.randperm(graph.nodes, device=device)[:size]) for size in sizes]


def seconds(call: Callable[[], object], device: str, times: int) -> float:
    """The median time of ``times`` calls, after one call to warm up."""
    found = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return statistics.median(found[1:])


def peak(device: str) -> float:
    """The largest memory so far, in GiB: of the GPU, or of this process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**20


def errors(
    graph: Graph, x: Tensor, p: float, growth: float, nodes: int = 1_000, sources: int = 3
) -> tuple[float, float]:
    """The largest relative errors, at some nodes, of the pooling of all edges and of its sum's gradient."""
    x = x.detach().requires_grad_()
    y = norm_pool_neighbors(x, (graph.ptr, graph.source), p=p, growth=growth)
    y.sum().backward()
    chosen = torch.randperm(graph.nodes, device=x.device)[:nodes]
    _, expected = _by_hand(graph, x, chosen, p, growth)
    of_values = (y[chosen].double() / expected - 1.0).abs().max().item()
    worst = 0.0
    for node in torch.randint(0, graph.nodes, (sources,), device=x.device).tolist():
        places = (graph.source == node).nonzero().flatten()
        rows, pooled = _by_hand(graph, x, torch.searchsorted(graph.ptr, places, right=True).sub(1).unique(), p, growth)
        (slopes,) = torch.autograd.grad(pooled.sum(), rows[1])
        exact = slopes[rows[0] == node].sum(0)
        assert x.grad is not None
        worst = max(worst, ((x.grad[node].double() - exact).abs() / exact.abs().max().clamp(min=1e-30)).max().item())
    return of_values, worst


def _by_hand(graph: Graph, x: Tensor, nodes: Tensor, p: float, growth: float) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The neighbours of some nodes, their rows in float64, and the pooled values by the plain formula."""
    starts, counts = graph.ptr[nodes], graph.ptr[nodes + 1] - graph.ptr[nodes]
    group = torch.repeat_interleave(torch.arange(nodes.numel(), device=x.device), counts)
    place = torch.arange(group.numel(), device=x.device) - (counts.cumsum(0) - counts)[group]
    source = graph.source[starts[group] + place]
    rows = x.detach()[source].double().requires_grad_()
    powers = torch.zeros(nodes.numel(), x.size(1), dtype=torch.float64, device=x.device)
    powers = powers.index_add(0, group, (rows + EPS) ** p)
    size = counts[:, None].double()
    return (source, rows), (powers / size) ** (1.0 / p) * size**growth


def whole(graph: Graph, channels: int, device: str, times: int) -> None:
    """Measure forward and backward over all edges: nanoseconds per edge, peak memory, and errors at some nodes."""
    x = torch.rand(graph.nodes, channels, device=device).requires_grad_()
    p = torch.tensor(P, device=device, requires_grad=True)

    def pool() -> Tensor:
        return norm_pool_neighbors(x, (graph.ptr, graph.source), p=p, growth=GROWTH)

    def step() -> None:
        x.grad = None
        pool().sum().backward()

    edges = graph.source.numel()
    with torch.no_grad():
        forward = seconds(pool, device, times)
    lists = seconds(lambda: library.transpose(graph.source, None, graph.ptr, graph.nodes, False, "s"), device, times)
    both = seconds(step, device, times)
    print(
        f"{edges:,} edges, {graph.nodes:,} nodes, {channels} channels: forward {1e9 * forward / edges:.3f} ns an edge, "
        f"forward and backward {1e9 * both / edges:.3f}, of these the lists {1e9 * lists / edges:.3f}; "
        f"peak {peak(device):.1f} GiB"
    )
    x.grad = None
    of_values, of_gradients = errors(graph, x, P, GROWTH)
    print(f"against float64: values of 1,000 nodes {of_values:.1e}, gradients of 3 nodes {of_gradients:.1e}")


def sampled(graph: Graph, channels: int, device: str, seeds: int, times: int) -> None:
    """Measure steps on sampled neighbours, and the bias of a sum."""
    x = torch.rand(graph.nodes, channels, device=device)
    begin = time.perf_counter()
    step = SampledStep(batches(graph, seeds, 4), x)
    drawn = (time.perf_counter() - begin) / 4
    edges = sum(hop.source.numel() for hop in step.batches[0].hops)
    all_, some, lists = (seconds(call, device, 4 * times) for call in (step, step.lists, step.all_lists))
    print(
        f"sampled, {seeds:,} seeds, fan-outs {FANOUTS}, {edges:,} edges: step {1e3 * all_:.2f} ms, lists of the "
        f"hops that need them {1e3 * some:.2f} ms ({some / all_:.0%}), of every hop {1e3 * lists:.2f} ms; "
        f"drawing a batch {1e3 * drawn:.0f} ms; peak {peak(device):.1f} GiB"
    )
    told, blind = sum_bias(graph, x[:, :1], seeds)
    print(f"sum over {FANOUTS[0]} sampled neighbours: {told:+.2%} with sizes, {blind:+.2%} without")


def sum_bias(graph: Graph, x: Tensor, seeds: int, draws: int = 20) -> tuple[float, float]:
    """The relative bias of the mean over draws of a sum of sampled neighbours, with and without the true sizes."""
    nodes = torch.arange(seeds, device=x.device)
    ptr = graph.ptr[: seeds + 1]
    exact = norm_pool_neighbors(x, (ptr, graph.source[: int(ptr[-1])]), p=1.0, growth=1.0, eps=0.0).double().sum()
    sums = torch.zeros(2, dtype=torch.float64, device=x.device)
    for _ in range(draws):
        batch = sample(graph, nodes, FANOUTS[:1])
        hop = batch.hops[0]
        for k, sizes in enumerate((hop.sizes, None)):
            pooled = norm_pool_neighbors(x[batch.nodes], (hop.ptr, hop.source), p=1.0, growth=1.0, eps=0.0, sizes=sizes)
            sums[k] += pooled.double().sum() / draws
    told, blind = (sums / exact - 1.0).tolist()
    return told, blind


def main() -> None:
    """Parse, build, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=1_024, help="number of seed nodes of a sampled batch")
    parser.add_argument("--times", type=int, default=3, help="number of measurements of each call")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    torch.manual_seed(0)
    graph = random_graph(given.edges, given.device)
    sampled(graph, given.channels, given.device, given.seeds, given.times)
    whole(graph, given.channels, given.device, given.times)


if __name__ == "__main__":
    main()
