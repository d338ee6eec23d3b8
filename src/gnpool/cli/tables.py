"""``gnpool tables``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from gnpool.cli.inputs import DeviceName, Json
from gnpool.cli.output import say, show_json
from gnpool.cli.reproduce import PresetName, default_folder, show_lines

EPILOG = "Example: gnpool tables --preset paper --out results/paper"


def tables(
    preset: Annotated[PresetName, typer.Option(help="The preset to estimate.")] = "quick",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder of results to look at.  [default: results/PRESET]")
    ] = None,
    device: DeviceName = "auto",
    json: Json = False,
) -> None:
    """List what can be reproduced, what it costs and what is done.

    Minutes are an estimate for what is missing, good to about a factor of two. Once some trainings of a table are done,
    their times correct it. Tables share models, so that several tables take less time than their sum.
    """
    from gnpool.engine import choose_device
    from gnpool.lab import Scope, all_tables
    from gnpool.lab.plan import minutes_together
    from gnpool.lab.running.runner import default_jobs
    from gnpool.lab.table import Machine
    from gnpool.store import Store

    place, scope = choose_device(device), Scope(preset)
    folder = default_folder(preset) if out is None else out
    store = Store(folder, create=False) if folder.exists() else None
    machine = Machine(place.type, default_jobs(place))
    known = all_tables()
    found = {name: table.estimate(scope, store, machine) for name, table in known.items()}
    if json:
        show_json(
            [
                {
                    "table": name,
                    "title": known[name].title,
                    "cells": len(known[name].cells),
                    **dataclasses.asdict(one),
                }
                for name, one in found.items()
            ]
        )
        return
    show_lines(
        f"Tables and figures, {preset} preset on {place.type}, {machine.jobs} trainings side by side",
        ["id", "title", "trainings", "runs", "minutes", "done"],
        [
            [
                name,
                known[name].title,
                str(one.trainings),
                f"{one.runs:,}",
                _minutes(one.minutes_left),
                _share(one.cells_done, len(known[name].cells)),
            ]
            for name, one in found.items()
        ],
    )
    left = _minutes(minutes_together(list(known.values()), scope, store, machine))
    say(f"Minutes estimate what is missing. All tables together, with shared models, take {left}.")
    say(
        f"Done counts the cells in {folder}." if store is not None else f"Nothing is done: there is no folder {folder}."
    )
    say(f"To run one: gnpool reproduce {next(iter(found))} --preset {preset}")


def _minutes(minutes: float) -> str:
    if minutes == 0:
        return "0"
    if minutes < 1:
        return "< 1"
    return f"{minutes:.0f}" if minutes < 600 else f"{minutes:,.0f}"


def _share(done: int, cells: int) -> str:
    return "all" if done == cells else f"{done} of {cells}"
