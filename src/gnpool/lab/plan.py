"""What a run would take here, without running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnpool.engine import choose_device
from gnpool.lab.registry import find_table
from gnpool.lab.reproduction import families
from gnpool.lab.running.memory import memory_problem, needed_megabytes
from gnpool.lab.running.runner import default_jobs
from gnpool.lab.table import AnyTable, Estimate, Machine, Scope, check_options
from gnpool.store import Store
from gnpool.training.machine import machine_megabytes


@dataclass(frozen=True)
class Plan:
    """What a run would take.

    Args:
        device (str): Where.
        jobs (int): Trainings side by side.
        tables (dict): By name, what each takes by itself.
        minutes_left (float): For all that is missing, models that tables share counted once.
        gigabytes (float, optional): The peak of the trainings on a CPU; None on a GPU, and where the tables have only
            studies that were not measured.
        gigabytes_here (float, optional): What this machine has.
        problem (str, optional): Why it would be refused, and what would not.
    """

    device: str
    jobs: int
    tables: dict[str, Estimate]
    minutes_left: float
    gigabytes: float | None
    gigabytes_here: float | None
    problem: str | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dataclasses.asdict(self)


def plan(
    names: Sequence[str],
    out: str | Path,
    *,
    preset: str = "quick",
    device: str = "auto",
    search: str = "all",
    jobs: int | None = None,
    seeds: int | None = None,
    folds: int | None = None,
    datasets: Sequence[str] | None = None,
    data_seed: int = 0,
    train: bool = True,
    test: bool = True,
) -> Plan:
    """What :func:`reproduce` would take with these arguments. Nothing is written; what ``out`` holds is taken off.

    Without ``train`` or ``test``, what the run leaves out is not counted. What it would refuse is refused here, too.
    """
    chosen = [find_table(name) for name in dict.fromkeys(names)]
    asked = None if datasets is None else tuple(datasets)
    scope = Scope(preset, (search,), seeds, folds, asked, data_seed, train, test)
    check_options(chosen, scope)
    place = choose_device(device)
    machine = Machine(place.type, jobs or default_jobs(place))
    store = Store(out, create=False) if Path(out).is_dir() else None
    megabytes = [one for table in chosen for one in table.megabytes(scope)]
    here = machine_megabytes()
    return Plan(
        device=place.type,
        jobs=machine.jobs,
        tables={table.id: table.estimate(scope, store, machine) for table in chosen},
        minutes_left=minutes_together(chosen, scope, store, machine),
        gigabytes=needed_megabytes(megabytes, machine.jobs) / 1024 if place.type == "cpu" and megabytes else None,
        gigabytes_here=None if here is None else here / 1024,
        problem=memory_problem(megabytes, place, jobs),
    )


def minutes_together(tables: Sequence[AnyTable], scope: Scope, store: Store | None, machine: Machine) -> float:
    """For all that is missing, models that tables share counted once."""
    fewer = [table for family in families(tables) for table in family[0].together(family)]
    return sum(table.estimate(scope, store, machine).minutes_left for table in fewer)
