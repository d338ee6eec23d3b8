"""What a run would do and cost on this machine, and whether it fits into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gnpool.engine import choose_device
from gnpool.lab.registry import find_table, table_names
from gnpool.lab.running.runner import default_jobs
from gnpool.lab.table import PROGRAM, AnyTable, Estimate, Machine, Scope
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


def plan(
    names: Sequence[str], out: str | Path, *, device: str = "auto", jobs: int | None = None, **options: Any
) -> Plan:
    """The cost of :func:`reproduce` with these arguments, without what ``out`` already holds. Nothing is written.

    With ``train=False`` or ``test=False``, the skipped work is not counted. What the run would refuse is refused here.
    """
    chosen, scope = asked(names, **options)
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


def asked(
    names: Sequence[str], *, search: str = "all", datasets: Sequence[str] | None = None, **options: Any
) -> tuple[list[AnyTable], Scope]:
    """The tables of these names, and what to do of them; an error if an option applies to none of the tables."""
    tables = [find_table(name) for name in dict.fromkeys(names)]
    scope = Scope(searches=(search,), datasets=None if datasets is None else tuple(datasets), **options)
    known = frozenset[str]().union(*(table.options for table in tables))
    if any(getattr(scope, name) is not None and name not in known for name in ("seeds", "folds")):
        raise ValueError("'seeds' and 'folds' are for tables that are cross-validated, such as graphcl_a")
    given = [table.id for table in tables if "data_seed" not in table.options]
    if scope.data_seed and given:
        raise ValueError(f"'data_seed' is for tables on generated data, but the data of {given[0]} is not generated")
    if not scope.train and not scope.test:
        raise ValueError("there is nothing to do: training and tests are both switched off")
    return tables, scope


def families(tables: Sequence[AnyTable]) -> list[list[AnyTable]]:
    """Groups of tables that run together because they may share jobs, in the order of all tables."""
    found: dict[str, list[AnyTable]] = {}
    order = table_names()
    for table in sorted(tables, key=lambda table: order.index(table.id)):
        found.setdefault(table.family, []).append(table)
    return list(found.values())


def minutes_together(tables: Sequence[AnyTable], scope: Scope, store: Store | None, machine: Machine) -> float:
    """Minutes for all that is missing; models that tables share are counted once."""
    fewer = [table for family in families(tables) for table in family[0].together(family)]
    return sum(table.estimate(scope, store, machine).minutes_left for table in fewer)


def needed_megabytes(trainings: Sequence[float], jobs: int, processes: bool = True) -> float:
    """The peak memory of the ``jobs`` largest trainings side by side; threads share the program."""
    largest = sorted(trainings, reverse=True)[:jobs]
    return sum(largest) - (0 if processes else PROGRAM * max(0, len(largest) - 1))


def memory_problem(
    trainings: Sequence[float], device: torch.device, jobs: int | None, processes: bool = True
) -> str | None:
    """A message if trainings do not fit into memory, with what would fit; None if they fit."""
    held = machine_megabytes()
    if held is None or device.type != "cpu" or not trainings:
        return None
    jobs = jobs or default_jobs(device)
    fits = [number for number in range(jobs, 0, -1) if needed_megabytes(trainings, number, processes) <= held]
    if jobs in fits:
        return None
    way = f"use --jobs {fits[0]}" if fits else "use --preset quick, or --engine ray with larger machines"
    return (
        f"'jobs': {jobs} side by side need about {needed_megabytes(trainings, jobs, processes) / 1024:.1f} GB of "
        f"memory, and this machine has {held / 1024:.1f} GB; {way}"
    )
