"""Estimates the cost of a run on this machine, without running it."""

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
    """The estimated cost of a run.

    Args:
        device (str): The device that it would use.
        jobs (int): Trainings side by side.
        tables (dict): For each table, the cost of running it alone.
        minutes_left (float): Time for all that is missing; models that tables share are counted once.
        gigabytes (float, optional): Peak memory of the trainings on a CPU; None on a GPU, or if the tables have no
            measured study.
        gigabytes_here (float, optional): Memory of this machine, if known.
        problem (str, optional): Why the run would be refused, and what would be accepted.
    """

    device: str
    jobs: int
    tables: dict[str, Estimate]
    minutes_left: float
    gigabytes: float | None
    gigabytes_here: float | None
    problem: str | None

    def to_dict(self) -> dict[str, Any]:
        """The plan as a JSON object."""
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
    """The cost of :func:`reproduce` with these arguments, without what ``out`` already holds. Nothing is written.

    With ``train=False`` or ``test=False``, the skipped work is not counted. What the run would refuse is refused here.
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
    """Minutes for all that is missing; models that tables share are counted once."""
    fewer = [table for family in families(tables) for table in family[0].together(family)]
    return sum(table.estimate(scope, store, machine).minutes_left for table in fewer)
