"""Folds side by side on a GPU give the same runs as on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from gnpool.models.stacked.crossval import FoldStack, train_stack
from gnpool.models.stacked.graph_bank import GraphBank
from gnpool.training.optimizer import StackedOptimizer
from tests.models.test_crossval import RUNS, dataset, method

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
SINGLE, DOUBLE = torch.float32, torch.float64
# What is added to all members of a cluster cancels in the softmax, as long as LeakyReLU bends none of their scores:
# the gradient is 0, and what rounding leaves of it Adam brings to the size of the rate.
CANCELS = "gnn_intra_cluster.bias"


def stepped(net: str, pooling: str, device: str, dtype: torch.dtype) -> tuple[FoldStack, Tensor]:
    """Three steps, and the gradients of each, (3, R, P)."""
    bank = GraphBank(dataset(), torch.device(device))
    bank.x = bank.x.to(dtype)
    stack = FoldStack(bank, method(net, pooling), RUNS)
    stack.flat = stack.flat.to(dtype)
    setting, groups = stack.method.setting, stack.parameters.group_of_column
    optimizer = stack.optimizer = StackedOptimizer([setting] * len(RUNS), groups, stack.flat)
    seen: list[Tensor] = []
    step_of = optimizer.step

    def step(flat: Tensor, gradient: Tensor, norm: Tensor, alive: Tensor) -> None:
        seen.append(gradient.clone())
        step_of(flat, gradient, norm, alive)

    optimizer.step = step  # type: ignore[method-assign]
    stack.module.train()
    for number in range(3):
        ids = np.stack([parts.train[8 * number : 8 * number + 8] for parts in stack.splits])
        stack._step(ids, torch.from_numpy(ids).to(device), number)
    return stack, torch.stack(seen).cpu()


def cancelling(net: str, pooling: str) -> Tensor:
    """Which parameters of which runs have no gradient in any step, (R, P), by the CPU in float64."""
    stack, exact = stepped(net, pooling, "cpu", DOUBLE)
    sizes = {name: p.numel() for name, p in stack.parameters.trained.items()}
    named = torch.cat([torch.full((n,), name.endswith(CANCELS)) for name, n in sizes.items()])
    return (exact.abs().amax(0) < 1e-15) & named


def test_which_gradients_cancel() -> None:
    none = cancelling("asap", "original")
    assert 30 < int(none.sum()) < 3 * 24  # the bias of three blocks of eight channels; in some clusters a score is bent
    _, rounded = stepped("asap", "original", "cpu", SINGLE)
    assert float(rounded[:, none].abs().max()) < 1e-8 < 1e-2 < float(rounded.abs().max())
    for net, pooling in (("sag", "original"), ("sag", "gnp"), ("asap", "gnp")):
        assert not cancelling(net, pooling).any()


@on_gpu
@pytest.mark.parametrize(("dtype", "compiled"), [(SINGLE, False), (SINGLE, True), (DOUBLE, False)])
@pytest.mark.parametrize("net", ["sag", "asap"])
@pytest.mark.parametrize("pooling", ["original", "gnp"])
def test_a_step_is_that_of_the_cpu(
    net: str, pooling: str, dtype: torch.dtype, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNPOOL_COMPILE", "1" if compiled else "0")
    (here, slopes), (there, found) = (stepped(net, pooling, device, dtype) for device in ("cpu", "cuda"))
    if dtype is DOUBLE:
        torch.testing.assert_close(found, slopes, rtol=1e-6, atol=1e-12)
        torch.testing.assert_close(there.flat.cpu(), here.flat, rtol=1e-6, atol=1e-7)
        return
    kept = ~cancelling(net, pooling)
    torch.testing.assert_close(found[0], slopes[0], rtol=1e-3, atol=1e-6)
    # Adam enlarges the rounding of tiny gradients.
    torch.testing.assert_close(there.flat.cpu()[kept], here.flat[kept], rtol=1e-2, atol=2e-3)


@on_gpu
def test_an_epoch_and_the_end() -> None:
    (cpu, *_), (gpu, *_) = (
        train_stack(GraphBank(dataset(), torch.device(device)), method(epochs=2), RUNS) for device in ("cpu", "cuda")
    )
    assert gpu.val_loss == pytest.approx(cpu.val_loss, rel=1e-2)
    assert (gpu.epochs, gpu.tested) == (cpu.epochs, cpu.tested)
