"""Compile Triton kernels for real GPUs, in a process of their own: the interpreter does not show that they do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def cubin_sizes(code: str, capability: int, cache: Path) -> list[int]:
    """Run ``code``, which prints the name of a kernel and the bytes of its binary on each line, without a GPU."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", code, str(capability)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"TRITON_CACHE_DIR": str(cache)},
    )
    assert run.returncode == 0, run.stderr
    return [int(line.split()[1]) for line in run.stdout.splitlines()]
