"""A small network trained on each backend has the loss curve that the reference gives, within rounding.

On a GPU (``GNPOOL_TEST_DEVICE=cuda``) the kernels of CUDA stand beside the reference there, and the CPU's beside both.
"""

from __future__ import annotations

import pytest
import torch

from gnpool import GNPAggregation, GNPConv, param_groups
from gnpool.ops.registry import VARIABLE
from tests.ops.conftest import SERVING

STEPS = 12
NODES, GRAPHS, EDGES = 24, 3, 80


def losses(backend: str, device: str, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """The training loss of every step, float32; data and initial weights are the same everywhere."""
    monkeypatch.setenv(VARIABLE, backend)
    with torch.device("cpu"):
        torch.manual_seed(0)
        mlp = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU())
        conv, readout, head = GNPConv(mlp, GNPAggregation(3)), GNPAggregation(8), torch.nn.Linear(8, 1)
        x, edge_index = torch.rand(NODES, 3), torch.randint(NODES, (2, EDGES))
        graph = torch.arange(NODES) % GRAPHS
        target = torch.zeros(GRAPHS, 3).index_add(0, graph, x.square()).sum(1, keepdim=True)
    model = torch.nn.ModuleList([conv, readout, head]).to(device)
    x, edge_index, graph, target = (t.to(device) for t in (x, edge_index, graph, target))
    optimizer = torch.optim.RMSprop(param_groups(model, lr=3e-3, lr_p=3e-2))
    curve = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        out = head(readout(conv(x, edge_index), graph, dim_size=GRAPHS))
        loss = torch.nn.functional.mse_loss(out, target)
        loss.backward()
        optimizer.step()
        curve.append(loss.detach())
    return torch.stack(curve).cpu()


@pytest.mark.parametrize("name", [name for name in SERVING if name != "reference"])
def test_the_loss_curve_is_that_of_the_reference(name, monkeypatch):
    device = torch.get_default_device().type
    curve, expected = losses(name, device, monkeypatch), losses("reference", device, monkeypatch)
    assert expected[-1] < 0.9 * expected[0]  # it learns
    torch.testing.assert_close(curve, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(torch.get_default_device().type == "cpu", reason="compares a GPU with the CPU")
def test_the_cpu_and_the_gpu_train_alike(monkeypatch):
    torch.testing.assert_close(
        losses("triton", "cuda", monkeypatch), losses("numba", "cpu", monkeypatch), rtol=1e-4, atol=1e-5
    )
