"""Checks whether trainings side by side fit into the memory of this machine."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gnpool.lab.running.runner import default_jobs
from gnpool.training.machine import machine_megabytes

BASE = 560  # megabytes (2**20) of the program itself, with small data and two runs


def needed_megabytes(trainings: Sequence[float], jobs: int, processes: bool = True) -> float:
    """The peak memory of the ``jobs`` largest trainings side by side; threads share the program."""
    largest = sorted(trainings, reverse=True)[:jobs]
    return sum(largest) - (0 if processes else BASE * max(0, len(largest) - 1))


def memory_problem(
    trainings: Sequence[float], device: torch.device, jobs: int | None, processes: bool = True
) -> str | None:
    """A message if trainings do not fit into memory, with what would fit; None if they fit."""
    held = machine_megabytes()
    if held is None or device.type != "cpu" or not trainings:
        return None
    jobs = jobs or default_jobs(device)
    needed = needed_megabytes(trainings, jobs, processes)
    if needed <= held:
        return None
    fits = next((n for n in range(jobs - 1, 0, -1) if needed_megabytes(trainings, n, processes) <= held), None)
    way = f"use --jobs {fits}" if fits else "use --preset quick, or --engine ray with larger machines"
    return (
        f"'jobs': {jobs} side by side need about {needed / 1024:.1f} GB of memory, and this machine has "
        f"{held / 1024:.1f} GB; {way}"
    )
