"""The machine: where a result comes from, and what memory there is."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

COMMIT = "GNPOOL_COMMIT"  # tells it to a copy of the source without its history
ROOT = Path(__file__).parents[3]  # of the source tree; of an installed package anything
GIT_SECONDS = 20.0
CGROUP = Path("/sys/fs/cgroup/memory.max")  # of a container that has less than its machine


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Where a result comes from: device, versions and, in a source tree, the commit."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    packages = ("torch", "torch-geometric", "numpy", "numba", "triton")
    found = {"device": f"{device.type}: {name}", "python": platform.python_version(), "versions": _versions(packages)}
    here = commit()
    return found if here is None else {**found, "commit": here}


def machine_megabytes() -> float | None:
    """Memory of this machine, or of the container; None where the system does not say."""
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20)
    with suppress(OSError, ValueError):  # "max" is no number
        found.append(int(CGROUP.read_text()) / 2**20)
    return min(found) if found else None


@functools.cache
def commit() -> str | None:
    """The commit of the source that runs, with a plus where it was changed since; None where nobody knows."""
    told = os.environ.get(COMMIT)
    git = shutil.which("git")
    if told or git is None or not (ROOT / ".git").exists() or not (ROOT / "src" / "gnpool").is_dir():
        return told or None
    try:
        head = _git(git, "rev-parse", "--short=7", "HEAD")
        changed = _git(git, "status", "--porcelain", "--", "src")
    except (OSError, subprocess.SubprocessError):  # no history, or one of another user
        return None
    return f"{head}+" if changed else head


def _git(git: str, *words: str) -> str:
    command = [git, "-C", str(ROOT), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=GIT_SECONDS)  # noqa: S603 -- fixed words
    return done.stdout.strip()


def _versions(packages: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found
