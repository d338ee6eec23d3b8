"""Cases of graph classification: folds and seeds side by side, and GNP beside the original.

``python -m benchmarks.classification`` prints time and memory of an epoch of every network on a data set.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import ASAPooling, GCNConv, SAGPooling, global_max_pool, global_mean_pool
from torch_geometric.utils import to_undirected

from benchmarks.cases import Call, Promise, case
from gnpool.lab.classification.methods import AMOUNTS, FAMILIES, GNP, ORIGINAL, Trial
from gnpool.models.stacked.crossval import FoldStack, Method
from gnpool.models.stacked.folds import Fold, split
from gnpool.models.stacked.graph_bank import GraphBank

DATASET = "NCI1"  # the cases have its sizes and settings
GRAPHS, CHANNELS = 1280, 37
RUNS = 30  # three seeds of ten folds
MOST_TIME = 1.3  # time of an epoch with GNP, as a multiple of the original's
LEAST_GAIN = 5  # time of runs one after another, as a multiple of their time side by side


def molecules(count: int = GRAPHS) -> list[Data]:
    """Graphs like those of NCI1: trees of 10 to 50 nodes with two more edges, and one of 37 labels at each node."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for k in range(count):
        n = int(torch.randint(10, 51, (), generator=generator))
        parents = (torch.rand(n - 1, generator=generator) * torch.arange(1, n)).long()
        more = torch.randint(0, n, (2, 2), generator=generator)
        edges = torch.cat([torch.stack([parents, torch.arange(1, n)]), more], dim=1)
        edges = to_undirected(edges[:, edges[0] != edges[1]], num_nodes=n)
        labels = torch.randint(0, CHANNELS, (n,), generator=generator)
        graphs.append(Data(x=torch.eye(CHANNELS)[labels], edge_index=edges, y=torch.tensor([k % 2])))
    return graphs


def runs(count: int) -> list[Fold]:
    """The first runs of a cross-validation."""
    return AMOUNTS["paper"].runs[:count]


def method_of(family: str, variant: str = ORIGINAL, dataset: str = DATASET) -> Method:
    """A method with its published settings."""
    return Trial(family, variant, dataset).method(AMOUNTS["paper"])


class SideBySide:
    """A step of ``count`` runs, including the work of putting their batches together."""

    def __init__(self, bank: GraphBank, method: Method, count: int) -> None:
        self.stack = FoldStack(bank, method, runs(count))
        self.stack.module.train()
        self.batches = self._batches()

    def _batches(self) -> Iterator[tuple[object, Tensor]]:
        size = self.stack.method.batch_size
        for epoch in itertools.count():
            rng = np.random.default_rng(epoch)
            ids = np.stack(
                [rng.permutation(parts.train)[: len(parts.train) // size * size] for parts in self.stack.splits]
            )
            there = torch.from_numpy(ids).to(self.stack.device)
            for first in range(0, ids.shape[1], size):
                yield ids[:, first : first + size], there[:, first : first + size]

    def __call__(self) -> None:
        ids, there = next(self.batches)
        self.stack._step(ids, there, 0)  # type: ignore[arg-type]


class PygNet(torch.nn.Module):
    """The original network of a family, written with PyG's layers in the usual way."""

    def __init__(self, family: str, channels: int, hidden: int) -> None:
        super().__init__()
        widths = [channels, hidden, hidden]
        self.convs = torch.nn.ModuleList(GCNConv(width, hidden) for width in widths)
        pool = {
            "SAGPool": lambda: SAGPooling(hidden, 0.5, GNN=GCNConv),
            "ASAPool": lambda: ASAPooling(hidden, 0.5, GNN=GCNConv, add_self_loops=True),
        }[family]
        self.pools = torch.nn.ModuleList(pool() for _ in widths)
        self.lin1, self.lin2 = torch.nn.Linear(2 * hidden, hidden), torch.nn.Linear(hidden, 2)

    def forward(self, batch: Batch) -> Tensor:
        h, edges, weight, where, total = batch.x, batch.edge_index, None, batch.batch, 0.0
        for conv, pool in zip(self.convs, self.pools, strict=True):
            h = conv(h, edges, weight).relu()
            h, edges, weight, where = pool(h, edges, weight, where)[:4]
            count = batch.num_graphs
            total = total + torch.cat([global_mean_pool(h, where, count), global_max_pool(h, where, count)], dim=1)
        out: Tensor = self.lin2(torch.dropout(self.lin1(total).relu(), 0.5, self.training)).log_softmax(-1)
        return out


class OneByOne:
    """A step of one run with PyG's layers and PyG's loader."""

    def __init__(self, graphs: list[Data], family: str, device: str) -> None:
        method = method_of(family)
        train = split(len(graphs), runs(1)[0]).train
        self.device, self.loader = (
            device,
            DataLoader([graphs[k] for k in train], method.batch_size, shuffle=True, drop_last=True),
        )
        self.model = PygNet(family, graphs[0].num_features, method.options["hidden"]).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=method.setting.lr)
        self.batches: Iterator[Batch] = iter(())

    def __call__(self) -> None:
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        batch = batch.to(self.device)
        self.optimizer.zero_grad()
        torch.nn.functional.nll_loss(self.model(batch), batch.y).backward()
        self.optimizer.step()


def _folds(family: str, device: str) -> dict[str, Call]:
    graphs = molecules()
    bank = GraphBank(graphs, torch.device(device))
    return {
        f"side by side, {RUNS}": SideBySide(bank, method_of(family), RUNS),
        "one by one": SideBySide(bank, method_of(family), 1),
        "PyG, one by one": OneByOne(graphs, family, device),
    }


def _variants(family: str, device: str) -> dict[str, Call]:
    bank = GraphBank(molecules(), torch.device(device))
    return {name: SideBySide(bank, method_of(family, name), RUNS) for name in (ORIGINAL, GNP)}


for _family in FAMILIES:
    _side = f"side by side, {RUNS}"
    case(
        f"folds cuda {_family}",
        f"a step of {RUNS} runs of {_family} on the GPU, each on a fold of its own, against one run after another",
        Promise(_side, "one by one", 1 / LEAST_GAIN, times=RUNS),
        Promise(_side, "PyG, one by one", 1 / LEAST_GAIN, times=RUNS),
        device="cuda",
    )(lambda family=_family: _folds(family, "cuda"))  # type: ignore[misc]
    case(
        f"folds cuda {_family} gnp",
        f"a step of {RUNS} runs of {_family} with GNP on the GPU, against the original",
        Promise(GNP, ORIGINAL, MOST_TIME),
        device="cuda",
    )(lambda family=_family: _variants(family, "cuda"))  # type: ignore[misc]


def epoch_of(bank: GraphBank, method: Method, count: int, epochs: int) -> tuple[float, float | None]:
    """Seconds of an epoch of ``count`` runs side by side (the fastest of several), and peak MiB on a GPU."""
    cuda = bank.device.type == "cuda"
    stack = FoldStack(bank, method, runs(count))
    times = []
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(epochs + 1):  # the first epoch compiles, and is not counted
        start = time.perf_counter()
        stack.train_epoch()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:]), torch.cuda.max_memory_allocated() / 2**20 if cuda else None


def main() -> int:
    """Print an epoch of every network: side by side, original and with GNP, and the originals one by one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classification", description=__doc__)
    parser.add_argument("--dataset", default="made up", help="D&D, PROTEINS or NCI1 (default: graphs like NCI1's)")
    parser.add_argument("--runs", type=int, default=RUNS, help="number of runs side by side (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="number of timed epochs (default: %(default)s)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if arguments.dataset == "made up":
        graphs, dataset = molecules(), DATASET
    else:
        from gnpool.data.tudataset import tudataset

        graphs, dataset = tudataset(arguments.dataset), arguments.dataset
    bank = GraphBank(graphs, device)
    print(f"{arguments.dataset}: {len(bank)} graphs, {arguments.runs} runs, {device.type}; an epoch with validation")
    for family in FAMILIES:
        measured = {}
        for variant in (ORIGINAL, GNP):
            method = method_of(family, variant, dataset)
            seconds, peak = measured[variant] = epoch_of(bank, method, arguments.runs, arguments.epochs)
            memory = "" if peak is None else f", {peak:,.0f} MiB at the peak"
            print(f"  {family} {variant:<9} {1e3 * seconds:9.1f} ms{memory}", flush=True)
            if variant == ORIGINAL:  # with GNP a run alone would be compiled anew, which takes longer than all the rest
                alone, _ = epoch_of(bank, method, 1, arguments.epochs)
                ratio = arguments.runs * alone / seconds
                print(f"  {family} one by one {1e3 * alone:8.1f} ms a run: {ratio:.1f} times as long", end="")
                print(f" (promised: at least {LEAST_GAIN})", flush=True)
        (time_0, peak_0), (time_1, peak_1) = measured[ORIGINAL], measured[GNP]
        line = f"  {family}: GNP / original: time {time_1 / time_0:.2f} (promised: at most {MOST_TIME})"
        print(line if peak_0 is None or peak_1 is None else f"{line}, memory {peak_1 / peak_0:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
