"""What a run would take here, without running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnpool.engine import choose_device
from gnpool.lab.catalog import check_options, find_table, table_estimates
from gnpool.lab.cost import Estimate
from gnpool.lab.memory import check_memory, machine_megabytes, needed_megabytes
from gnpool.lab.presets import get_preset
from gnpool.lab.runner import default_jobs
from gnpool.lab.tables import Table
from gnpool.store import Store


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
    check_options(chosen, seeds=seeds, folds=folds, data_seed=data_seed, train=train, test=test)
    amount, place = get_preset(preset, data_seed), choose_device(device)
    side = jobs or default_jobs(place)
    store = Store(out, create=False) if Path(out).is_dir() else None
    options: dict[str, Any] = {"store": store, "search": search, "jobs": side, "train": train, "test": test}
    given: dict[str, Any] = {"seeds": seeds, "folds": folds, "datasets": datasets}
    found = table_estimates(chosen, amount, place.type, **options, **given)
    trained = [table for table in chosen if isinstance(table, Table)]
    together = Table("together", "", "", tuple(cell for table in trained for cell in table.cells))
    minutes = sum(found[table.id].minutes_left for table in chosen if not isinstance(table, Table))
    if trained:
        minutes += table_estimates([together], amount, place.type, **options)["together"].minutes_left
    here, problem = machine_megabytes(), None
    try:
        check_memory(trained, amount, place, jobs)
    except ValueError as error:
        problem = str(error)
    counted = place.type == "cpu" and bool(trained)
    return Plan(
        device=place.type,
        jobs=side,
        tables=found,
        minutes_left=minutes,
        gigabytes=needed_megabytes(trained, amount, side) / 1024 if counted else None,
        gigabytes_here=None if here is None else here / 1024,
        problem=problem,
    )
