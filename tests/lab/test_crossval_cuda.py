"""Folds side by side on a GPU: the same runs as on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnpool.lab.crossval import FoldStack, train_stack
from gnpool.lab.graph_bank import GraphBank
from tests.lab.test_crossval import RUNS, dataset, method

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("net", ["sag", "asap"])
@pytest.mark.parametrize("pooling", ["original", "gnp"])
def test_a_step_is_that_of_the_cpu(net: str, pooling: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNPOOL_COMPILE", "1" if compiled else "0")
    moved = []
    for device in ("cpu", "cuda"):
        stack = FoldStack(GraphBank(dataset(), torch.device(device)), method(net, pooling), RUNS)
        stack.module.train()
        for step in range(3):
            ids = np.stack([parts.train[8 * step : 8 * step + 8] for parts in stack.splits])
            stack._step(ids, torch.from_numpy(ids).to(device), step)
        moved.append(stack.flat.detach().cpu())
    torch.testing.assert_close(*moved, rtol=1e-2, atol=2e-3)  # Adam enlarges the rounding of tiny gradients


def test_an_epoch_and_the_end() -> None:
    (cpu, *_), (gpu, *_) = (
        train_stack(GraphBank(dataset(), torch.device(device)), method(epochs=2), RUNS) for device in ("cpu", "cuda")
    )
    assert gpu.val_loss == pytest.approx(cpu.val_loss, rel=1e-2)
    assert (gpu.epochs, gpu.tested) == (cpu.epochs, cpu.tested)
