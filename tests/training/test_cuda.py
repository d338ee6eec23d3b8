"""Training as CUDA graphs equals training on the CPU."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from gnpool import Batches, Setting, fit_many
from gnpool.models import GraphNet, NodeNet, SetNet
from gnpool.tasks import get_task
from gnpool.training.cuda_graph import own_stream, record
from tests.training.problems import Net, graphs, squared

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
    reason="needs a CUDA device, and TRITON_INTERPRET=0 so that kernels are compiled for it",
)

SETTINGS = (
    Setting(lr=1e-3, lr_p=1e-2, clip=1.0),
    Setting(lr=1e-3, lr_p=1e-2, lr_q=2e-3, optimizer="adam", betas=(0.5, 0.999)),
)
STEPS, SIZE, EPOCHS = 4, 3, 5  # an epoch of 11 graphs: its last batch has two, and empty graphs stand in
MODELS = {
    "graph-gnp": ("harmonic", functools.partial(GraphNet, 1, hidden=6)),
    "graph-sum-max": ("maxdegree", functools.partial(GraphNet, 1, "sum", "max", hidden=6)),
    "node-gnp": ("shortest", functools.partial(NodeNet, 1, edge_weights=True, hidden=6, layers=2)),
    "node-min": ("shortest", functools.partial(NodeNet, 1, "min", edge_weights=True, hidden=6, layers=2)),
    "set-gnp": ("sigma2_post", functools.partial(SetNet, 1, hidden=6)),
    "set-set2set": ("sigma2_post", functools.partial(SetNet, 1, "set2set", hidden=6)),
}


def data(task: str, split: str, sorted_edges: bool, dtype: torch.dtype) -> Batches:
    found = get_task(task).dataset(split, count=STEPS * SIZE - 1, sizes=(6, 10))
    for item in found:
        for field in ("x", "edge_weight"):
            if field in item:
                item[field] = item[field].to(dtype)
    return Batches(found, SIZE, seed=2 if split == "train" else None, sorted_edges=sorted_edges)


def train(name: str, device: str, sorted_edges: bool = True, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    """Train both settings with two seeds; no operation may fall back to a loop."""
    task, make = MODELS[name]
    options = {"settings": SETTINGS, "seeds": [3, 4], "epochs": EPOCHS, "unit": 8, "vectorize": True, **options}
    return fit_many(
        lambda: make().to(dtype),
        data(task, "train", sorted_edges, dtype),
        get_task(task).loss,
        validation=data(task, "val", sorted_edges, dtype),
        criteria={"metric": get_task(task).metric},
        device=device,
        **options,
    )


def assert_close(a: Any, b: Any, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    for name in ("train", "loss", "metric", *a.watched):
        torch.testing.assert_close(
            a.curve(name), b.curve(name), rtol=rtol, atol=atol, equal_nan=True, msg=lambda text, n=name: f"{n}: {text}"
        )
    for left, right in zip(a.runs, b.runs, strict=True):
        assert (left.setting, left.seed, left.failed) == (right.setting, right.seed, right.failed)
        for name, value in a.state_dict(left).items():
            torch.testing.assert_close(
                value, b.state_dict(right)[name], rtol=rtol, atol=atol, msg=lambda text, n=name: f"{n}: {text}"
            )


@pytest.mark.parametrize("sorted_edges", [True, False], ids=["EdgeIndex", "tensor"])
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_equals_the_cpu(name: str, sorted_edges: bool) -> None:
    on_gpu = train(name, "cuda", sorted_edges, cuda_graph=True)
    on_cpu = train(name, "cpu", sorted_edges)
    assert float((on_cpu.curve("train")[-1] - on_cpu.curve("train")[0]).abs().min()) > 0  # it did train
    assert_close(on_gpu, on_cpu)


@pytest.mark.parametrize("name", ["graph-gnp", "node-gnp", "set-gnp"])
def test_operation_by_operation_equals_a_graph(name: str) -> None:
    assert_close(train(name, "cuda", cuda_graph=False), train(name, "cuda", cuda_graph=True))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 0.0), (torch.float64, 1e-9)], ids=["bits", "float64"])
def test_resume_gives_the_same_result(tmp_path, dtype, tolerance) -> None:
    """Kernels give equal bits. The reference, which computes in float64 there, adds in any order."""
    run = functools.partial(train, "graph-gnp", "cuda", dtype=dtype, cuda_graph=True)

    class InterruptError(Exception):
        pass

    def interrupt(progress: Any) -> None:
        if progress.epoch == 2:
            raise InterruptError

    with pytest.raises(InterruptError):
        run(checkpoint=tmp_path, progress=interrupt)
    seen = []
    resumed = run(checkpoint=tmp_path, progress=seen.append)
    assert [progress.epoch for progress in seen] == [3, 4, 5]
    assert_close(resumed, run(), rtol=tolerance, atol=tolerance)


def test_a_diverging_run_touches_no_neighbour() -> None:
    wild = Setting(lr=1e200)
    both = train("graph-gnp", "cuda", cuda_graph=True, settings=(SETTINGS[0], wild))
    assert [run.failed is not None for run in both.runs] == [False, False, True, True]
    assert bool(both.curve("train")[:, 2:].isnan().all())
    alone = train("graph-gnp", "cuda", cuda_graph=True, settings=SETTINGS[:1])
    for run in alone.runs:
        for name, value in alone.state_dict(run).items():
            torch.testing.assert_close(both.state_dict(run.number)[name], value, rtol=1e-9, atol=1e-10, msg=name)


def test_a_schedule_reaches_the_graph() -> None:
    """The factor changes between replays of one recording."""
    schedule = lambda epoch: 0.5**epoch  # noqa: E731
    assert_close(
        train("set-gnp", "cuda", cuda_graph=True, schedule=schedule), train("set-gnp", "cpu", schedule=schedule)
    )


class Waiting(Net):
    """Asks the GPU for a number of the data; vmap allows this, but a recording does not."""

    def forward(self, x, edge_index, batch, batch_size):
        return super().forward(x, edge_index, batch, int(batch.max()) + 1)


def test_a_model_that_cannot_be_recorded_runs_without() -> None:
    options = {"seeds": 2, "epochs": 2, "device": "cuda", "validation": graphs(6, seed=1)}
    batches = Batches(graphs(12), 4)
    with pytest.warns(UserWarning, match="cannot be recorded as a CUDA graph"):
        fallen = fit_many(Waiting, batches, squared, SETTINGS[0], **options)
    expected = fit_many(Waiting, batches, squared, SETTINGS[0], **options, cuda_graph=False)
    torch.testing.assert_close(fallen.curve("loss"), expected.curve("loss"), rtol=1e-4, atol=1e-6)
    with pytest.raises(RuntimeError, match="captur"):
        fit_many(Waiting, batches, squared, SETTINGS[0], **options, cuda_graph=True)


def test_graphs_of_several_threads_spoil_nothing() -> None:
    """Long, narrow products are cut, and their parts put together in a workspace: each thread must have its own."""
    device = torch.device("cuda")

    def weights_after(seed: int, replays: int) -> torch.Tensor:
        generator = torch.Generator(device).manual_seed(seed)
        x = torch.randn(300_000, 16, device=device, generator=generator)
        target = torch.randn(300_000, 16, device=device, generator=generator)
        weight = torch.zeros(16, 16, device=device, requires_grad=True)

        def step() -> None:
            (slope,) = torch.autograd.grad((x @ weight - target).square().mean(), weight)
            with torch.no_grad():
                weight.sub_(slope)

        with own_stream(device):
            replay = record(step, device)
            for _ in range(replays):
                replay()
        return weight.detach()

    alone = [weights_after(seed, 300) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(functools.partial(weights_after, replays=300), range(6)))
    for expected, got in zip(alone, together, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
