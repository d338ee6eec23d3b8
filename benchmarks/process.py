"""Measurements that need a fresh process: the time of the first call, and the peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

FIRST_CALL = """
import json, sys, time
import torch, gnpool
device = sys.argv[1]
x = torch.rand(30, 32, device=device, requires_grad=True)
index = torch.randint(0, 3, (30,), device=device)
x.detach().square().sum().item()  # a device that is awake
start = time.perf_counter()
gnpool.norm_pool(x, index, p=1.7).sum().backward()
x.grad.sum().item()
print(json.dumps({"seconds": time.perf_counter() - start}))
"""

PEAK = """
import json, pathlib, sys
import torch, gnpool
nodes, edges, channels = map(int, sys.argv[1:])
torch.manual_seed(0)
ends = torch.randint(0, nodes, (2, edges))
p = torch.tensor(1.7, requires_grad=True)
def step(x):
    gnpool.norm_pool_neighbors(x, ends, p=p).sum().backward()
def status(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024
step(torch.rand(nodes, 1, requires_grad=True))  # compiled, and the lists once allocated
x = torch.rand(nodes, channels, requires_grad=True)
pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
before = status("VmRSS")
step(x)
print(json.dumps({"bytes": status("VmHWM") - before}))
"""


def first_call_seconds(device: str = "cpu") -> dict[str, float]:
    """Seconds of the first forward and backward of a process: with nothing compiled, then from the disk cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache}
        states = ("cold", "cached")
        return {name: float(_run(FIRST_CALL, device, environment=environment)["seconds"]) for name in states}


def peak_bytes(nodes: int, edges: int, channels: int) -> int:
    """Peak memory of a step of ``norm_pool_neighbors``, beyond its input."""
    return int(_run(PEAK, str(nodes), str(edges), str(channels))["bytes"])


def _run(code: str, *arguments: str, environment: dict[str, str] | None = None) -> dict[str, float]:
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    result: dict[str, float] = json.loads(run.stdout)
    return result
