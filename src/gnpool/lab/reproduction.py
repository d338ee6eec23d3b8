"""One call from names of tables to their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnpool.engine import choose_device, open_engine
from gnpool.engine.opened import check_engine
from gnpool.lab.registry import find_table, table_names
from gnpool.lab.results import SCHEMA
from gnpool.lab.running.board import Event
from gnpool.lab.running.failures import FailedStudiesError, raise_failures
from gnpool.lab.running.memory import memory_problem
from gnpool.lab.running.runner import Runner
from gnpool.lab.table import AnyTable, Scope, check_options
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
    seeds: int | None = None,
    folds: int | None = None,
    datasets: Sequence[str] | None = None,
    train: bool = True,
    test: bool = True,
    engine: str = "local",
    address: str | None = None,
    data_seed: int = 0,
    on_event: Callable[[Event], None] | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> dict[str, Any]:
    r"""Reproduces tables of the paper, from data generation to mean and deviation.

    What is in ``out`` already is not done again, so that a run that was interrupted goes on where it was, and a table
    finds the models that another one has trained.

    Args:
        tables (Sequence[str]): Names of tables and figures, those that ``gnpool tables`` lists.
        out (str or Path): Folder of the raw scores and weights, and of ``results.json``.
        preset (str, optional): ``"smoke"``, ``"quick"`` or ``"paper"``. (default: ``"quick"``)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``. (default: ``"auto"``)
        search (str, optional): ``"all"``: every setting with every seed, the best mean counts; ``"point"``: every
            setting once, then the best with every seed. (default: ``"all"``)
        jobs (int, optional): Trainings side by side; no result depends on it.
        processes (bool, optional): Whether jobs on a CPU are processes. They are faster than threads, and cannot be
            used with tasks of your own. On a GPU, whether processes make the data of jobs to come. (default: ``False``)
        seeds (int, optional): Of cross-validations and of im_monstor, how many. (default: those of the preset)
        folds (int, optional): Of cross-validations, how many of the folds. (default: those of the preset)
        datasets (Sequence[str], optional): Of cross-validations, train on these data sets alone. (default: all)
        train (bool, optional): Whether to train what is missing, or to do only what stored trainings allow: to
            crystallize and to test their models. (default: ``True``)
        test (bool, optional): Whether to crystallize and to test what generated data trained, or only to train, as
            where a GPU is lent by the minute; another call does the rest, on any machine. (default: ``True``)
        engine (str, optional): ``"local"``: this machine; ``"ray"``: a Ray cluster, with the same scores.
            (default: ``"local"``)
        address (str, optional): Of a running Ray cluster. (default: one of this machine's cores is started)
        data_seed (int, optional): Of generated graphs and sets; results of each have their own place in
            ``out``. (default: ``0``)
        on_event (callable, optional): Called with an :class:`Event` as work goes on.
        on_damage (callable, optional): Called with a :class:`~gnpool.store.Damage` for every stored file that cannot be
            read any more, and is done again. (default: a warning)

    Returns:
        dict: What ``results.json`` holds.

    Raises:
        FailedStudiesError: At the end, if studies failed for reasons of their own; the others are in ``results.json``.
    """
    chosen = [find_table(name) for name in dict.fromkeys(tables)]
    asked = None if datasets is None else tuple(datasets)
    scope = Scope(preset, (search,), seeds, folds, asked, data_seed, train, test)
    check_options(chosen, scope)
    check_engine(engine, address)
    needed = [megabytes for table in chosen for megabytes in table.megabytes(scope)]
    problem = memory_problem(needed, choose_device(device), jobs, processes) if engine == "local" else None
    if problem is not None:
        raise ValueError(problem)
    store = Store(out, on_damage=on_damage)
    for table in chosen:
        table.fetch(scope, store)
    failed: list[FailedStudiesError] = []
    with open_engine(engine, address, device=device, jobs=jobs) as where:
        runner = Runner(store, where.device, jobs=jobs, processes=processes, engine=where, on_event=on_event)
        for family in families(chosen):
            try:
                runner.run([job for table in family for job in table.jobs(scope, store, where.device)])
            except FailedStudiesError as error:  # the others go on
                failed.append(error)
    results = {"schema": SCHEMA, "tables": [table.results(scope, store) for table in chosen]}
    store.publish("results.json", json.dumps(results, indent=1, allow_nan=False))
    raise_failures(store, [one for error in failed for one in error.failures], sum(error.studies for error in failed))
    return results


def families(tables: Sequence[AnyTable]) -> list[list[AnyTable]]:
    """Tables that are run together, since they may share jobs; what stands first among all tables is run first."""
    found: dict[str, list[AnyTable]] = {}
    order = table_names()
    for table in sorted(tables, key=lambda table: order.index(table.id)):
        found.setdefault(table.family, []).append(table)
    return list(found.values())
