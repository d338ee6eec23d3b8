"""The optimiser's step as one kernel gives the same as operation by operation."""

from __future__ import annotations

import pytest
import torch

from gnpool import Setting
from gnpool.ops.registry import BACKENDS
from gnpool.training.optimizer import StackedOptimizer

KERNELS = [
    name
    for name in ("numba", "triton")
    if name in BACKENDS and BACKENDS[name].problem(torch.get_default_device().type) is None
]

SETTINGS = [
    Setting(lr=1e-2, lr_p=3e-2, clip=1.0),
    Setting(lr=1e-2, optimizer="adam"),
    Setting(lr=1e-2, optimizer="adam", clip=0.5),
    Setting(lr=1e-2, clip=1.0),  # dead
]


@pytest.mark.parametrize("backend", KERNELS)
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)], ids=["f32", "f64"])
def test_the_kernel_takes_the_step_of_the_formula(dtype, tolerance, decay, backend, monkeypatch):
    monkeypatch.setenv("GNPOOL_BACKEND", backend)
    generator = torch.Generator(torch.get_default_device()).manual_seed(0)
    settings = [Setting(**{**s.to_dict(), "weight_decay": decay}) for s in SETTINGS]
    start = torch.randn(len(settings), 300, dtype=dtype, generator=generator)
    group, alive = torch.arange(300) % 3, torch.tensor([[True], [True], [True], [False]])
    kernel, plain = start.clone(), start.clone()
    by_kernel, by_formula = (StackedOptimizer(settings, group, flat) for flat in (kernel, plain))
    assert by_kernel.kernel is not None
    by_formula.kernel = None
    for _ in range(20):
        gradient = torch.randn(start.shape, dtype=dtype, generator=generator)
        norm = gradient.norm(dim=1, keepdim=True)
        by_kernel.step(kernel, gradient, norm, alive)
        by_formula.step(plain, gradient, norm, alive)
    torch.testing.assert_close(kernel, plain, rtol=tolerance, atol=tolerance)
    for name, value in by_formula.state().items():
        torch.testing.assert_close(by_kernel.state()[name], value, rtol=tolerance, atol=tolerance, msg=name)
    assert torch.equal(kernel[3], start[3])
    assert not by_kernel.first[3].any()


def test_without_a_compiler_the_formula_runs(monkeypatch):
    monkeypatch.setenv("GNPOOL_BACKEND", "reference")
    assert StackedOptimizer(SETTINGS, torch.zeros(5, dtype=torch.int64), torch.zeros(4, 5)).kernel is None
