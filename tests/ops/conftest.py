import pytest
import torch

from gnpool.ops.registry import BACKENDS, VARIABLE

SERVING = [name for name, backend in BACKENDS.items() if backend.problem(torch.get_default_device().type) is None]


@pytest.fixture(params=SERVING)
def backend(request, monkeypatch):
    """Every test of the operator runs on every backend that serves the device."""
    monkeypatch.setenv(VARIABLE, request.param)
    return request.param
