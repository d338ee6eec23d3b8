"""The cases: each has an input, its contenders, and the ratios that gnpool promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.nn import PowerMeanAggregation, SoftmaxAggregation, SumAggregation
from torch_geometric.utils import scatter

from gnpool import norm_pool, norm_pool_neighbors

Call = Callable[[], object]


@dataclass(frozen=True)
class Promise:
    """``numerator / (times * denominator) <= bound``, in time; without a denominator, in milliseconds.

    A moonshot is a bound that is hoped for, but not promised.
    """

    numerator: str
    denominator: str | None
    bound: float
    times: float = 1.0
    moonshot: bool = False


@dataclass(frozen=True)
class Case:
    """One input; ``make()`` builds it and returns the contenders, which are calls without arguments.

    If ``seconds`` is given, a sample takes at least this long: several calls in a row are timed, as in real use.
    """

    name: str
    title: str
    make: Callable[[], dict[str, Call]]
    promises: tuple[Promise, ...] = ()
    rounds: int = 15
    device: str = "cpu"
    seconds: float | None = None


CASES: dict[str, Case] = {}


def case(
    name: str,
    title: str,
    *promises: Promise,
    rounds: int = 15,
    device: str = "cpu",
    seconds: float | None = None,
) -> Callable[[Callable[[], dict[str, Call]]], None]:
    """Register the decorated builder of contenders."""

    def register(make: Callable[[], dict[str, Call]]) -> None:
        CASES[name] = Case(name, title, make, promises, rounds, device, seconds)

    return register


@dataclass
class Step:
    """Forward and backward pass of ``pool`` for x and p, as in a training step."""

    pool: Callable[..., Tensor]
    x: Tensor
    parameters: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x = self.x.detach().requires_grad_()
        self.seed = torch.rand_like(self.pool(self.x, *self.parameters))

    def __call__(self) -> object:
        y = self.pool(self.x, *self.parameters)
        return torch.autograd.grad(y, [self.x, *self.parameters], self.seed)


def composed(x: Tensor, index: Tensor, size: int, p: Tensor, q: Tensor) -> Tensor:
    """The operator composed of torch's operations in the obvious way, without rules for edge cases (p > 0)."""
    scaled = p * (x.abs() + 1e-6).log()
    top = scatter(scaled.detach(), index, dim_size=size, reduce="max")
    total = scatter((scaled - top[index]).exp(), index, dim_size=size)
    count = torch.bincount(index, minlength=size).clamp(min=1)[:, None]
    return torch.where(total > 0, ((top + total.log()) / p).exp() * count**-q, 0.0)


def exponents() -> list[Tensor]:
    """Learnable p and q."""
    return [torch.tensor(1.7, requires_grad=True), torch.tensor(0.3, requires_grad=True)]


def segments(rows: int, sizes: int, channels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Non-negative rows in ``sizes`` sorted segments of random lengths: x, index, ptr."""
    torch.manual_seed(0)
    index = torch.randint(0, sizes, (rows,)).sort().values
    ptr = torch.searchsorted(index, torch.arange(sizes + 1))
    return torch.rand(rows, channels), index, ptr


@case(
    "segments",
    "264,059 x 64 into 8,192 segments, float32, forward and backward",
    Promise("gnpool, index", "PyG sum, index", 1.6),
    Promise("gnpool, ptr", "PyG sum, ptr", 1.0),
    Promise("gnpool, ptr", "PyG sum, index", 1.0, moonshot=True),
    Promise("gnpool, index", "PyG power mean", 1 / 8),
    Promise("gnpool, index", "composed", 1 / 6),
)
def _segments() -> dict[str, Call]:
    x, index, ptr = segments(264_059, 8_192, 64)
    S = 8_192
    power, softmax, total = PowerMeanAggregation(learn=True), SoftmaxAggregation(learn=True), SumAggregation()
    return {
        "gnpool, index": Step(lambda x, p, q: norm_pool(x, index, p=p, q=q, dim_size=S), x, exponents()),
        "gnpool, ptr": Step(lambda x, p, q: norm_pool(x, ptr=ptr, p=p, q=q), x, exponents()),
        "PyG sum, index": Step(lambda x: total(x, index, dim_size=S), x),
        "PyG sum, ptr": Step(lambda x: total(x, ptr=ptr), x),
        "PyG power mean": Step(lambda x, p: power(x, index, dim_size=S), x, list(power.parameters())),
        "PyG softmax": Step(lambda x, t: softmax(x, index, dim_size=S), x, list(softmax.parameters())),
        "composed": Step(lambda x, p, q: composed(x, index, S, p, q), x, exponents()),
    }


@case(
    "growth",
    "the segments of 'segments' in growth coordinates against p and q, forward and backward",
    Promise("growth, p = 1.7", "p and q", 1.15),
    Promise("growth, p = 0.1", "p and q", 2.5),
)
def _growth() -> dict[str, Call]:
    x, _, ptr = segments(264_059, 8_192, 64)

    def growth(p: float) -> Step:
        learned = [torch.tensor(p, requires_grad=True), torch.tensor(0.3, requires_grad=True)]
        return Step(lambda x, p, g: norm_pool(x, ptr=ptr, p=p, growth=g), x, learned)

    return {
        "p and q": Step(lambda x, p, q: norm_pool(x, ptr=ptr, p=p, q=q), x, exponents()),
        **{f"growth, p = {p:g}": growth(p) for p in (1.7, 0.5, 0.1, 0.0, -1.7)},
    }


@case("wide", "1,600 x 3,840 (120 folded models) into 64 segments, float32, forward and backward")
def _wide() -> dict[str, Call]:
    x, index, ptr = segments(1_600, 64, 3_840)
    total = SumAggregation()
    return {
        "gnpool, index": Step(lambda x, p, q: norm_pool(x, index, p=p, q=q, dim_size=64), x, exponents()),
        "gnpool, ptr": Step(lambda x, p, q: norm_pool(x, ptr=ptr, p=p, q=q), x, exponents()),
        "PyG sum, index": Step(lambda x: total(x, index, dim_size=64), x),
        "composed": Step(lambda x, p, q: composed(x, index, 64, p, q), x, exponents()),
    }


def graph(nodes: int, source: Tensor, destination: Tensor) -> tuple[Tensor, EdgeIndex]:
    """The edges as a plain tensor, and as a sorted EdgeIndex whose lists are built."""
    edges = EdgeIndex(torch.stack([source, destination]), sparse_size=(nodes, nodes)).sort_by("col").values
    edges.get_csr(), edges.get_csc()
    return edges.as_tensor(), edges


@case(
    "neighbors",
    "20,000 nodes, 1,000,000 random edges, 64 channels, float32, forward and backward",
    Promise("gnpool, EdgeIndex", "gather + composed", 1 / 12),
    rounds=9,
)
def _neighbors() -> dict[str, Call]:
    torch.manual_seed(0)
    nodes, count = 20_000, 1_000_000
    plain, edges = graph(nodes, torch.randint(0, nodes, (count,)), torch.randint(0, nodes, (count,)))
    x, weight = torch.rand(nodes, 64), torch.rand(count)
    total = SumAggregation()
    source, destination = plain[0], plain[1]
    return {
        "gnpool, EdgeIndex": Step(lambda x, p, q: norm_pool_neighbors(x, edges, p=p, q=q), x, exponents()),
        "gnpool, tensor": Step(lambda x, p, q: norm_pool_neighbors(x, plain, p=p, q=q), x, exponents()),
        "gnpool, weighted": Step(
            lambda x, p, q, w: norm_pool_neighbors(x, edges, p=p, q=q, edge_weight=w),
            x,
            [*exponents(), weight.requires_grad_()],
        ),
        "gather + PyG sum": Step(lambda x: total(x[source], destination, dim_size=nodes), x),
        "gather + composed": Step(lambda x, p, q: composed(x[source], destination, nodes, p, q), x, exponents()),
    }


@case(
    "hub",
    "1,000,000 edges, 64 channels: one hub with 500,000 neighbours against random edges, forward and backward",
    Promise("gnpool, hub in", "gnpool, uniform", 1.5),
    Promise("gnpool, hub out", "gnpool, uniform", 1.5),
    rounds=9,
)
def _hub() -> dict[str, Call]:
    torch.manual_seed(0)
    nodes, count = 20_000, 1_000_000
    ends = torch.randint(0, nodes, (2, count))
    hub = ends.clone()
    hub[1, : count // 2] = 0
    x = torch.rand(nodes, 64)
    graphs = {"uniform": ends, "hub in": hub, "hub out": hub.flip(0)}
    calls = {}
    for name, (source, destination) in graphs.items():
        edges = graph(nodes, source, destination)[1]
        calls[f"gnpool, {name}"] = Step(lambda x, p, q, e=edges: norm_pool_neighbors(x, e, p=p, q=q), x, exponents())
    return calls


@case("small", "30 x 32 into 3 segments, float32, forward only", Promise("gnpool", "PyG sum", 2.0), rounds=31)
def _small() -> dict[str, Call]:
    x, index, _ = segments(30, 3, 32)
    total = SumAggregation()
    p, q = (t.detach() for t in exponents())
    return {
        "gnpool": lambda: norm_pool(x, index, p=p, q=q, dim_size=3),
        "PyG sum": lambda: total(x, index, dim_size=3),
    }


@case(
    "small step", "30 x 32 into 3 segments, float32, forward and backward", Promise("gnpool", "PyG sum", 4.0), rounds=31
)
def _small_step() -> dict[str, Call]:
    x, index, _ = segments(30, 3, 32)
    total = SumAggregation()
    return {
        "gnpool": Step(lambda x, p, q: norm_pool(x, index, p=p, q=q, dim_size=3), x, exponents()),
        "PyG sum": Step(lambda x: total(x, index, dim_size=3), x),
    }
