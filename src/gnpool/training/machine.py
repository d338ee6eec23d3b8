"""Where a result comes from."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import torch


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Where a result comes from."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    packages = ("torch", "torch-geometric", "numpy", "numba", "triton")
    return {"device": f"{device.type}: {name}", "python": platform.python_version(), "versions": _versions(packages)}


def _versions(packages: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found
