import subprocess
import sys
import warnings

import pytest
import torch

from gnpool import norm_pool
from gnpool.ops import registry
from gnpool.ops.registry import Backend


@pytest.fixture(autouse=True)
def _fresh_choice(monkeypatch):
    """Each test chooses anew, and leaves no choice behind."""
    monkeypatch.delenv(registry.VARIABLE, raising=False)
    registry._kernels.cache_clear()
    yield
    registry._kernels.cache_clear()


def use_backends(monkeypatch, *backends):
    monkeypatch.setattr(registry, "BACKENDS", {b.name: b for b in (*backends, registry.BACKENDS["reference"])})


def test_auto_prefers_the_kernels_of_the_device():
    assert registry.kernels("cpu").__name__ == "gnpool.ops.cpu.backend"
    assert registry.kernels("mps").__name__ == "gnpool.ops.reference"


def test_a_backend_can_be_forced(monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, "reference")
    assert registry.kernels("cpu").__name__ == "gnpool.ops.reference"


def test_an_unknown_name_is_an_error(monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, "cuda")
    with pytest.raises(
        ValueError, match=r"GNPOOL_BACKEND must be 'auto' or one of \['numba', 'reference', 'triton'\], got 'cuda'"
    ):
        norm_pool(torch.rand(3, 1), p=1.0)


def test_a_missing_package_falls_back_with_one_warning(monkeypatch):
    use_backends(monkeypatch, Backend("fast", "gnpool.ops.cpu.backend", ("cpu",), requires="no_such_package"))
    message = (
        r"the 'fast' kernels cannot be used: no_such_package is not installed \(pip install no_such_package\)\. "
        r"The slower reference takes over; set GNPOOL_BACKEND=reference to choose it without this warning"
    )
    x = torch.tensor([[3.0], [4.0]], device="cpu")
    with pytest.warns(RuntimeWarning, match=message):
        assert norm_pool(x, p=2, eps=0.0).item() == 5.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert norm_pool(x, p=2, eps=0.0).item() == 5.0


def test_a_broken_package_falls_back_with_its_reason(monkeypatch):
    use_backends(monkeypatch, Backend("fast", "gnpool.ops.no_such_module", ("cpu",), requires="numba"))
    with pytest.warns(RuntimeWarning, match="numba does not load here .ModuleNotFoundError: No module named 'gnpool"):
        assert registry.kernels("cpu").__name__ == "gnpool.ops.reference"


def test_a_forced_backend_of_another_device_falls_back(monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, "numba")
    with pytest.warns(RuntimeWarning, match="the 'numba' kernels cannot be used: they serve cpu tensors, not cuda"):
        assert registry.kernels("cuda").__name__ == "gnpool.ops.reference"


def test_the_reference_needs_no_numba():
    code = """
import sys
sys.modules["numba"] = None  # as if it were not installed
import torch, gnpool
print(gnpool.norm_pool(torch.tensor([[3.0], [4.0]]), p=2, eps=0.0).item())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "5.0"
    assert "RuntimeWarning: gnpool: the 'numba' kernels cannot be used" in run.stderr
