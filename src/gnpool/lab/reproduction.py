"""Reproduces tables by name in one call."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnpool.engine import choose_device, open_engine
from gnpool.engine.opened import check_engine
from gnpool.lab.plan import asked, families, memory_problem
from gnpool.lab.results import SCHEMA
from gnpool.lab.running.board import Event
from gnpool.lab.running.failures import FailedStudiesError, raise_failures
from gnpool.lab.running.runner import Runner
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
    r"""Reproduce tables of the paper, from data generation to mean and deviation.

    Work that ``out`` already holds is not repeated. An interrupted run therefore resumes, and a table uses the models
    that another table has trained.

    Args:
        tables (Sequence[str]): Names of tables and figures, as ``gnpool tables`` lists them.
        out (str or Path): Folder for the raw scores and weights, and for ``results.json``.
        preset (str, optional): ``"smoke"``, ``"quick"`` or ``"paper"``. (default: ``"quick"``)
        device (str, optional): ``"auto"``, ``"cpu"`` or ``"cuda"``. (default: ``"auto"``)
        search (str, optional): ``"all"`` trains every setting with every seed, and the best mean counts. ``"point"``
            trains every setting once, then the best with every seed. (default: ``"all"``)
        jobs (int, optional): Trainings side by side; no result depends on it.
        processes (bool, optional): On a CPU, whether jobs are processes: they are faster than threads, but do not know
            tasks of your own. On a GPU, whether processes make the data of coming jobs. (default: ``False``)
        seeds (int, optional): Number of seeds of cross-validations and of im_monstor. (default: the preset's)
        folds (int, optional): Number of folds of cross-validations. (default: the preset's)
        datasets (Sequence[str], optional): Data sets of cross-validations to train on. (default: all)
        train (bool, optional): Whether to train missing models. Otherwise only stored models are crystallized and
            tested. (default: ``True``)
        test (bool, optional): Whether to crystallize and test models trained on generated data. Otherwise this call
            only trains, for example on a rented GPU, and another call on any machine does the rest. (default: ``True``)
        engine (str, optional): ``"local"`` for this machine, or ``"ray"`` for a Ray cluster, with the same scores.
            (default: ``"local"``)
        address (str, optional): Address of a running Ray cluster. (default: a cluster on this machine is started)
        data_seed (int, optional): Seed of generated graphs and sets; ``out`` keeps the results of each seed apart.
            (default: ``0``)
        on_event (callable, optional): Called with an :class:`Event` as work proceeds.
        on_damage (callable, optional): Called with a :class:`~gnpool.store.Damage` for every stored file that cannot be
            read and is therefore done again. (default: a warning)

    Returns:
        dict: The content of ``results.json``.

    Raises:
        FailedStudiesError: At the end, if studies failed on their own; ``results.json`` has the others.
    """
    options: dict[str, Any] = {"preset": preset, "search": search, "seeds": seeds, "folds": folds, "datasets": datasets}
    chosen, scope = asked(tables, data_seed=data_seed, train=train, test=test, **options)
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
            except FailedStudiesError as error:  # the other studies continue
                failed.append(error)
    results = {"schema": SCHEMA, "tables": [table.results(scope, store) for table in chosen]}
    store.publish("results.json", json.dumps(results, indent=1, allow_nan=False))
    raise_failures(store, [one for error in failed for one in error.failures], sum(error.studies for error in failed))
    return results
