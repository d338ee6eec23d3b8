"""One call from names of tables to their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnpool.lab.presets import get_preset
from gnpool.lab.results import SCHEMA, table_results
from gnpool.lab.runner import Event, Runner, choose_device
from gnpool.lab.tables import get_table
from gnpool.store import Damage, Store


def reproduce(
    tables: Sequence[str],
    out: str | Path,
    *,
    preset: str = "quick",
    device: str = "auto",
    search: str = "all",
    jobs: int | None = None,
    processes: bool = False,
    on_event: Callable[[Event], None] | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> dict[str, Any]:
    r"""Reproduces tables of the paper, from data generation to mean and deviation.

    What is in ``out`` already is not done again, so that a run that was interrupted goes on where it was, and a table
    finds the models that another one has trained.

    Args:
        tables (Sequence[str]): Names of tables and figures, keys of :obj:`gnpool.lab.TABLES`.
        out (str or Path): Folder of the raw scores and weights, and of ``results.json``.
        preset (str, optional): ``"smoke"``, ``"quick"`` or ``"paper"``. (default: ``"quick"``)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``. (default: ``"auto"``)
        search (str, optional): ``"all"``: every setting with every seed, the best mean counts; ``"point"``: every
            setting once, then the best with every seed. (default: ``"all"``)
        jobs (int, optional): Trainings side by side; no result depends on it.
        processes (bool, optional): Whether jobs on a CPU are processes. They are faster than threads, and cannot be
            used with tasks of your own. (default: ``False``)
        on_event (callable, optional): Called with an :class:`Event` as work goes on.
        on_damage (callable, optional): Called with a :class:`~gnpool.store.Damage` for every stored file that cannot be
            read any more, and is done again. (default: a warning)

    Returns:
        dict: What ``results.json`` holds.
    """
    chosen = [get_table(name) for name in dict.fromkeys(tables)]
    amount = get_preset(preset)
    place = choose_device(device)
    store = Store(out, on_damage=on_damage)
    runner = Runner(store, amount, place, search=search, jobs=jobs, processes=processes, on_event=on_event)
    runner.run(chosen)
    results = {"schema": SCHEMA, "tables": [table_results(table, store, amount, search) for table in chosen]}
    store.publish("results.json", json.dumps(results, indent=1, allow_nan=False))
    return results
