import pytest
import torch
from torch import Tensor

from gnpool.ops.registry import BACKENDS, VARIABLE

SERVING = [name for name, backend in BACKENDS.items() if backend.problem(torch.get_default_device().type) is None]


@pytest.fixture(params=SERVING)
def backend(request, monkeypatch):
    """Every test of the operator runs on every backend that serves the device; Triton's finds NaN in new memory."""
    monkeypatch.setenv(VARIABLE, request.param)
    if request.param == "triton":
        poison_new_memory(monkeypatch)
    return request.param


def poison_new_memory(monkeypatch) -> None:
    """Fill new memory with NaN, or with a whole number that no list has."""

    def poisoned(make):
        def call(*args, **kwargs):
            tensor = make(*args, **kwargs)
            return tensor.fill_(torch.nan if tensor.is_floating_point() else 77)

        return call

    for owner, name in ((torch, "empty"), (torch, "empty_like"), (Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, poisoned(getattr(owner, name)))
