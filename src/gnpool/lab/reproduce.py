"""One call from names of tables to their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gnpool.engine import choose_device, open_engine
from gnpool.engine.opened import check_engine
from gnpool.lab.catalog import StatisticsTable, check_options, fetch_data, find_table, recipe_results
from gnpool.lab.classify import Amount, ClassificationTable, get_amount
from gnpool.lab.classify_results import classification_results
from gnpool.lab.classify_runner import ClassificationRunner
from gnpool.lab.failures import FailedStudiesError, raise_failures
from gnpool.lab.influence import InfluenceTable, influence_amount
from gnpool.lab.influence_results import influence_results
from gnpool.lab.influence_runner import InfluenceRunner
from gnpool.lab.memory import check_memory
from gnpool.lab.presets import Preset, get_preset
from gnpool.lab.results import SCHEMA
from gnpool.lab.runner import Event, Runner
from gnpool.lab.tables import Table
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
            crystallise and to test their models. (default: ``True``)
        test (bool, optional): Whether to crystallise and to test what generated data trained, or only to train, as
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
    amount, part = get_preset(preset, data_seed), get_amount(preset, seeds, folds, datasets)
    runs = influence_amount(preset, seeds)
    check_options(chosen, seeds=seeds, folds=folds, data_seed=data_seed, train=train, test=test)
    classified = [table for table in chosen if isinstance(table, ClassificationTable)]
    spread = [table for table in chosen if isinstance(table, InfluenceTable)]
    check_engine(engine, address)
    trained = [table for table in chosen if isinstance(table, Table)]
    if engine == "local":
        check_memory(trained, amount, choose_device(device), jobs, processes)
    store = Store(out, on_damage=on_damage)
    fetch_data(chosen, store, amount, part, runs, search=search, train=train, test=test)
    failed: list[FailedStudiesError] = []
    with open_engine(engine, address, device=device, jobs=jobs) as where:
        options: dict[str, Any] = {"jobs": jobs, "engine": where, "on_event": on_event}
        runner = Runner(
            store, amount, where.device, search=search, processes=processes, train=train, test=test, **options
        )
        todo: list[Callable[[], None]] = [lambda: runner.run(trained)]
        todo += [partial(table.run, store) for table in chosen if isinstance(table, StatisticsTable)]
        if classified and train:
            todo.append(lambda: ClassificationRunner(store, part, where.device, **options).run(classified))
        if spread and train:
            todo.append(InfluenceRunner(store, runs, where.device, **options).run)
        for work in todo:
            try:
                work()
            except FailedStudiesError as error:  # the others go on
                failed.append(error)
    tables_found = [
        influence_results(table, store, runs)
        if isinstance(table, InfluenceTable)
        else _results(table, store, amount, part, search)
        for table in chosen
    ]
    results = {"schema": SCHEMA, "tables": tables_found}
    store.publish("results.json", json.dumps(results, indent=1, allow_nan=False))
    raise_failures(store, [one for error in failed for one in error.failures], sum(error.studies for error in failed))
    return results


def _results(
    table: Table | ClassificationTable | StatisticsTable, store: Store, preset: Preset, amount: Amount, search: str
) -> dict[str, Any]:
    if isinstance(table, ClassificationTable):
        return classification_results(table, store, amount)
    if isinstance(table, StatisticsTable):
        return table.results(store, preset.name)
    return recipe_results(table, store, preset, search)
