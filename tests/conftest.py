"""Settings of all tests. ``GNPOOL_TEST_DEVICE=cuda`` runs the operator's tests on a GPU."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from hypothesis import settings

from tests.interpreter import patch_the_language_once_a_launch

DEVICE = os.environ.get("GNPOOL_TEST_DEVICE", "cpu")
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported: its kernels then run without a GPU
    patch_the_language_once_a_launch()
else:
    os.environ["GNPOOL_CHECK"] = "1"  # look at indices there too
    torch.set_default_device(DEVICE)

# Under nohup, or behind a shell's &, Ctrl-C is ignored, and programs that the tests start and stop by it would be, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomised: the same examples on every run, so a red test is red for everyone.
settings.register_profile("gnpool", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("gnpool")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
