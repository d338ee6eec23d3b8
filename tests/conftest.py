from __future__ import annotations

import pytest
import torch
from hypothesis import settings

# Derandomised: the same examples on every run, so a red test is red for everyone.
settings.register_profile("gnpool", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("gnpool")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
