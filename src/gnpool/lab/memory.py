r"""What a run needs in memory on a CPU, and what there is.

A training of R runs in a work unit holds about

.. math::
    \mathrm{BASE} + \mathrm{graphs} \cdot \mathrm{DATA} + R \cdot \mathrm{RUN}

megabytes: the program itself, its training data, and weights, states and activations of the runs, by kind of network.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from gnpool.lab.cost import kind_of
from gnpool.lab.forms import candidates
from gnpool.lab.presets import Preset
from gnpool.lab.recipes import Recipe
from gnpool.lab.runner import default_jobs
from gnpool.lab.tables import Table

# Megabytes (2**20), the largest resident size of a process at batches of 16: of one that holds small data and two runs,
# of a training graph or set, and of each further run, from the difference between 2 and 24 of them.
BASE = 560
DATA = {"graph": 0.03, "node": 0.05, "set": 0.004}
RUN = {
    "graph gnp": 4.1,
    "graph": 4.7,
    "graph sort": 4.3,
    "graph set2set": 5.5,
    "sagpool": 13.0,
    "node gnp": 3.0,
    "node": 2.5,
    "weighted node gnp": 20.0,
    "weighted node": 19.0,
    "set gnp": 1.7,
    "set": 1.7,
    "set set2set": 3.6,
    "set_transformer": 23.0,
}
CGROUP = Path("/sys/fs/cgroup/memory.max")  # of a container that has less than its machine


def training_megabytes(recipe: Recipe, preset: Preset) -> float:
    """The peak of one training, on a core."""
    base = recipe.base
    runs = min(preset.unit, len(preset.settings(base.space)) * preset.seeds)
    graphs = preset.counts.get("train", base.spec.counts["train"])
    return BASE + graphs * DATA[base.spec.level] + runs * RUN[kind_of(base)]


def needed_megabytes(tables: Sequence[Table], preset: Preset, jobs: int, processes: bool = True) -> float:
    """The peak of ``jobs`` trainings side by side, the largest ones that the tables have; threads share the program."""
    recipes = {id(recipe): recipe for table in tables for recipe in table.recipes if not recipe.crystallised}
    every = [one for recipe in recipes.values() for one in candidates(recipe, preset)]
    sizes = sorted((training_megabytes(recipe, preset) for recipe in every), reverse=True)
    largest = sizes[:jobs]
    return sum(largest) - (0 if processes else BASE * max(0, len(largest) - 1))


def machine_megabytes() -> float | None:
    """Memory of this machine, or of the container; None where the system does not say."""
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20)
    with suppress(OSError, ValueError):  # "max" is no number
        found.append(int(CGROUP.read_text()) / 2**20)
    return min(found) if found else None


def check_memory(
    tables: Sequence[Table],
    preset: Preset,
    device: torch.device,
    jobs: int | None,
    processes: bool = True,
) -> None:
    """Refuse what cannot fit into the memory of this machine, and name what would."""
    held = machine_megabytes()
    if held is None or device.type != "cpu" or not tables:
        return
    jobs = jobs or default_jobs(device)
    needed = needed_megabytes(tables, preset, jobs, processes)
    if needed <= held:
        return
    fits = next((n for n in range(jobs - 1, 0, -1) if needed_megabytes(tables, preset, n, processes) <= held), None)
    way = f"use --jobs {fits}" if fits else "use --preset quick, or --engine ray with larger machines"
    raise ValueError(
        f"'jobs': {jobs} side by side need about {needed / 1024:.1f} GB of memory, and this machine has "
        f"{held / 1024:.1f} GB; {way}"
    )
