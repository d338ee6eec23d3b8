import pytest

from gnpool.ops.registry import BACKENDS, VARIABLE

ON_CPU = [name for name, backend in BACKENDS.items() if backend.problem("cpu") is None]


@pytest.fixture(params=ON_CPU)
def backend(request, monkeypatch):
    """Every test of the operator runs on every backend that serves the CPU."""
    monkeypatch.setenv(VARIABLE, request.param)
    return request.param
