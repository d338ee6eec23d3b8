"""Cases of training: steps of many models at once, compared with one PyG model after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MessagePassing

from benchmarks.cases import Call, Promise, case
from gnpool import Batches, GNPAggregation, Setting, param_groups
from gnpool.models import GraphNet
from gnpool.tasks import get_task
from gnpool.training.settings import Run
from gnpool.training.unit import StudyPlan, Unit

TASK = get_task("harmonic")
SETTING = Setting(lr=1e-3, lr_p=3e-2, clip=1e4)
BATCH = 64
EPOCHS = 10  # the steps go through these epochs repeatedly
CPU_RUNS, CPU_WORKERS = 30, 2
GPU_RUNS, GPU_ALONE = 120, 3  # the loop over PyG models is timed with GPU_ALONE models


class Gather(MessagePassing):
    """A message is computed from its source alone; an (E, hidden) tensor holds all messages."""

    def __init__(self, hidden: int) -> None:
        super().__init__(aggr=GNPAggregation(hidden, coordinates="published"))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)


class GatherNet(torch.nn.Module):
    """``GraphNet(1)`` in the usual PyG style."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        layers = (torch.nn.Linear(1, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden), torch.nn.ReLU())
        self.mlp = torch.nn.Sequential(*layers)
        self.conv = Gather(hidden)
        self.readout = GNPAggregation(hidden, coordinates="published")
        self.out = torch.nn.Linear(hidden, 1, bias=False)

    def forward(self, batch: Batch) -> Tensor:
        h = self.conv(self.mlp(batch.x), batch.edge_index).relu()
        return self.out(self.readout(h, batch.batch, dim_size=batch.num_graphs))


class OneByOne:
    """A step of each of ``count`` PyG models: forward, backward, clipping, optimiser.

    They share a prepared batch; with ``loader`` each takes its own batch from PyG's loader, as separate runs do.
    """

    def __init__(self, count: int, device: str = "cpu", loader: bool = False) -> None:
        self.batch = Batch.from_data_list(TASK.dataset("train", count=BATCH)).to(device)
        self.loader = DataLoader(TASK.dataset("train", count=20 * BATCH), BATCH, shuffle=True) if loader else None
        self.batches: Iterator[Batch] = iter(())
        self.models = [GatherNet().to(device) for _ in range(count)]
        self.optimizers = [
            torch.optim.RMSprop(param_groups(model, SETTING.lr, lr_p=SETTING.lr_p)) for model in self.models
        ]

    def __call__(self) -> None:
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            batch = self.batch if self.loader is None else self._next()
            optimizer.zero_grad()
            TASK.loss(model(batch), batch).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), SETTING.clip)
            optimizer.step()

    def _next(self) -> Batch:
        assert self.loader is not None
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        return batch


class AtOnce:
    """A step of all runs as in `fit_many`, including the cutting of batches: one unit for each part, side by side."""

    def __init__(self, parts: Sequence[int], make: Callable[[], torch.nn.Module], device: str = "cpu") -> None:
        batches = Batches(TASK.dataset("train", count=20 * BATCH), BATCH, sorted_edges=True)
        study = StudyPlan(make, batches, None, TASK.loss, {"loss": TASK.loss}, EPOCHS, torch.device(device))
        self.units = [Unit(study, [Run(SETTING, seed) for seed in range(count)]) for count in parts]
        self.streams = [_steps(unit) for unit in self.units]
        self.pool = ThreadPoolExecutor(len(parts), initializer=torch.set_num_threads, initargs=(1,))

    def __call__(self) -> None:
        if len(self.streams) == 1:
            next(self.streams[0])()
        else:
            list(self.pool.map(lambda stream: next(stream)(), self.streams))


def _steps(unit: Unit) -> Iterator[Callable[[], None]]:
    return itertools.chain.from_iterable(unit._epoch(number % EPOCHS, 0) for number in itertools.count())


@case(
    "training",
    f"a step of {CPU_RUNS} GNP models on harmonic, batch {BATCH}: units of {CPU_RUNS // CPU_WORKERS} on {CPU_WORKERS} "
    "threads, against a loop over PyG models; steps in a row, as in training",
    Promise("fit_many", "PyG, one by one", 1 / 4),
    rounds=9,
    seconds=0.3,
)
def _training() -> dict[str, Call]:
    return {
        "fit_many": AtOnce([CPU_RUNS // CPU_WORKERS] * CPU_WORKERS, lambda: GraphNet(1)),
        "PyG, one by one": OneByOne(CPU_RUNS),
        "PyG, with its loader": OneByOne(CPU_RUNS, loader=True),
    }


@case(
    "training cuda",
    f"a step of {GPU_RUNS} GNP models on harmonic, batch {BATCH}, on the GPU, against PyG models one by one (timed for "
    f"{GPU_ALONE}, extrapolated to {GPU_RUNS})",
    Promise(f"fit_many, {GPU_RUNS}", None, 2.0),
    Promise(f"fit_many, {GPU_RUNS}", f"PyG, {GPU_ALONE} one by one", 1 / 100, times=GPU_RUNS / GPU_ALONE),
    device="cuda",
)
def _training_cuda() -> dict[str, Call]:
    return {
        f"fit_many, {GPU_RUNS}": AtOnce([GPU_RUNS], lambda: GraphNet(1), "cuda"),
        f"PyG, {GPU_ALONE} one by one": OneByOne(GPU_ALONE, "cuda"),
    }


@case(
    "training cuda fixed",
    f"a step of sum/max models on harmonic, batch {BATCH}, on the GPU: sixteen times as many",
    Promise("fit_many, 1920", "fit_many, 120", 16.0),
    device="cuda",
)
def _training_cuda_fixed() -> dict[str, Call]:
    return {f"fit_many, {count}": AtOnce([count], lambda: GraphNet(1, "sum", "max"), "cuda") for count in (120, 1920)}
