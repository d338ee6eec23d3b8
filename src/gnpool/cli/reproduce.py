"""``gnpool reproduce``."""

from __future__ import annotations

import dataclasses
import difflib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gnpool.cli.errors import FAILED, INTERRUPTED
from gnpool.cli.inputs import Address, DeviceName, EngineName, Json
from gnpool.cli.output import FILE_WIDTH, say, show_json

if TYPE_CHECKING:
    from gnpool.lab import Event

EPILOG = "Example: gnpool reproduce exp_graph_harmonic --preset quick"
ALL = "all"
PresetName = Literal["smoke", "quick", "paper"]  # those of gnpool.lab.PRESETS, whose import would import torch


def reproduce(
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE...", help="Names of tables and figures, or 'all'; 'gnpool tables' lists them."),
    ],
    preset: Annotated[
        PresetName,
        typer.Option(help="How much to do: smoke (seconds), quick (minutes on 2 cores) or paper (everything)."),
    ] = "quick",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for raw scores, weights and results.json.  [default: results/PRESET]"),
    ] = None,
    device: DeviceName = "auto",
    search: Annotated[
        Literal["all", "point"],
        typer.Option(
            help="all runs every setting with every seed; point runs each once, then the best with every seed."
        ),
    ] = "all",
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of trainings side by side.  [default: number of cores; 4 on a GPU]"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=20, help="Number of seeds of a cross-validation (graphcl_*).  [default: from the preset]"
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(min=1, max=10, help="Number of folds of a cross-validation to test.  [default: from the preset]"),
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    data_seed: Annotated[int, typer.Option(min=0, help="Seed of the generated graphs and sets.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the time and memory that it would take here, and write nothing.")
    ] = False,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Cross-validate on this data set only; can be repeated.")
    ] = None,
    train: Annotated[
        bool,
        typer.Option(
            "--train/--no-training", help="Train what is missing, or only test and crystallize stored models."
        ),
    ] = True,
    test: Annotated[
        bool,
        typer.Option("--test/--no-tests", help="Test and crystallize models of generated data, or only train them."),
    ] = True,
    json: Json = False,
) -> None:
    """Reproduce tables and figures of the paper.

    The result shows the published numbers beside ours. You can stop the command at any moment, even by a power cut: run
    it again and it resumes, with the same result. Tables that need the same models share them if they are in the same
    folder.
    """
    names = choose(tables)
    folder = default_folder(preset) if out is None else out
    if dry_run:
        part: dict[str, Any] = {"seeds": seeds, "folds": folds, "datasets": dataset, "data_seed": data_seed}
        part |= {"train": train, "test": test}
        show_plan(names, folder, preset=preset, device=device, search=search, jobs=jobs, **part, json=json)
        return
    pictures = _painters(names)
    try:
        results = run_with_progress(
            names,
            folder,
            preset=preset,
            device=device,
            search=search,
            jobs=jobs,
            seeds=seeds,
            folds=folds,
            datasets=dataset,
            train=train,
            test=test,
            engine=engine,
            address=address,
            data_seed=data_seed,
        )
    except RuntimeError as error:
        if type(error).__name__ != "FailedStudiesError":
            raise
        _note(f"Error: {error}")
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        _note(f"Stopped. Everything finished is kept in {folder}; run the same command again to resume.")
        raise typer.Exit(INTERRUPTED) from None
    drawn = [pictures[table["table"]](table, folder) for table in results["tables"] if table["table"] in pictures]
    if json:
        show_json(results)
        return
    for table in results["tables"]:
        show_result(table)
    for path in [folder / "results.json", *drawn]:
        say(f"wrote {path}")
    if not test:
        say("Models were only trained. To test them, run the same command with --no-training instead of --no-tests.")


def show_plan(names: Sequence[str], folder: Path, *, preset: str, json: bool, **options: Any) -> None:
    """Print the time and memory that a run with these options would take here; an error if it does not fit."""
    from gnpool.lab.plan import plan

    found = plan(names, folder, preset=preset, **options)
    if json:
        show_json(dataclasses.asdict(found))
    else:
        rows = [
            [name, str(one.trainings - one.done), f"{one.runs:,}", str(one.exams), f"{one.minutes_left:.1f}"]
            for name, one in found.tables.items()
        ]
        show_lines(
            f"{preset} preset on {found.device}, {found.jobs} trainings side by side",
            ["table", "trainings left", "runs", "exams", "minutes left"],
            rows,
        )
        say(f"All together, with shared models: about {_duration(60 * found.minutes_left)}.")
        if found.gigabytes is not None:
            have = "" if found.gigabytes_here is None else f" of the {found.gigabytes_here:.1f} GB here"
            say(f"Memory: about {found.gigabytes:.1f} GB{have}.")
        say(f"Nothing was written; results would go to {folder}.")
    if found.problem is not None:
        raise ValueError(found.problem)


def run_with_progress(names: Sequence[str], folder: Path, **options: Any) -> dict[str, Any]:
    """Call :func:`gnpool.lab.reproduce`, and show progress and warnings on stderr."""
    from gnpool.lab import reproduce as run

    with _progress() as show, _warnings_as_lines():
        return run(
            names,
            folder,
            processes=True,
            on_event=show,
            on_damage=lambda damage: _note(f"Warning: {damage}; it is done again"),
            **options,
        )


def choose(names: Sequence[str]) -> list[str]:
    """The names of tables, checked; ``all`` means every table whose data are at hand."""
    from gnpool.lab.registry import at_hand_tables, table_names

    known = table_names()
    chosen: list[str] = []
    for name in names:
        if name != ALL and name not in known:
            near = difflib.get_close_matches(name, [*known, ALL], n=1)
            hint = f"did you mean {near[0]!r}?" if near else "'gnpool tables' lists them."
            raise typer.BadParameter(f"there is no table {name!r}; {hint}", param_hint="'TABLE...'")
        chosen += at_hand_tables() if name == ALL else [name]
    return list(dict.fromkeys(chosen))


def default_folder(preset: str) -> Path:
    """The default folder for the results of a preset."""
    return Path("results") / preset


def show_result(table: dict[str, Any]) -> None:
    """Print a table of results.json, its comparison with the paper, and what was reduced."""
    from gnpool.report import grids, pair_lines, run_so_far, verdict_counts

    for grid in grids(table):
        show_lines(grid.title, grid.head, grid.rows)
    counts = verdict_counts(table)
    if counts:
        say(counts)
    for line in pair_lines(table.get("pairs", [])):
        say(line)
    meta = table["meta"]
    seeds = f"{len(meta['seeds'])} seeds" if len(meta["seeds"]) > 1 else "1 seed"
    say(f"{meta['preset']} preset, {seeds}, {meta.get('device', 'no device')}, {_duration(meta['seconds'])} of work")
    for line in filter(None, [meta["notes"] and f"Reduced. {meta['notes']}", run_so_far(table)]):
        say(line)
    say()


def show_lines(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first two columns are text; cells may have several lines."""
    from rich.console import Console
    from rich.table import Table

    several = any("\n" in cell for row in rows for cell in row)
    shown = Table(title_justify="left", show_lines=several)
    for place, name in enumerate(head):
        shown.add_column(name, justify="right" if place > 1 else "left")
    for row in rows:
        shown.add_row(*row)
    say(title)
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH, markup=False, highlight=False).print(shown)


def _painters(names: Sequence[str]) -> dict[str, Callable[[Mapping[str, Any], Path], Path]]:
    """Functions that draw the tables that are figures; a missing matplotlib is an error now, and not after hours."""
    from gnpool.report.figures import FIGURES, new_figure

    wanted: dict[str, Callable[[Mapping[str, Any], Path], Path]] = {n: FIGURES[n] for n in names if n in FIGURES}
    if wanted:
        new_figure(1.0, 1.0)
    return wanted


@contextmanager
def _progress() -> Iterator[Callable[[Event], None]]:
    """A function that shows events: live on a terminal, otherwise a line for each finished training."""
    if not sys.stderr.isatty():
        yield _print_event
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        overall = bar.add_task("all", total=1.0, note="")
        lines: dict[str, Any] = {}

        def show(event: Event) -> None:
            left = "" if event.seconds_left is None else f", {_duration(event.seconds_left)} left"
            bar.update(overall, completed=event.overall, note=f"{event.done} of {event.total}{left}")
            if event.label not in lines:
                lines[event.label] = bar.add_task(event.label, total=1.0, note="")
            bar.update(lines[event.label], completed=event.fraction)
            if event.error is not None:
                bar.update(lines[event.label], note=f"lowest validation error {event.error:.3g}")
            if event.finished:
                bar.remove_task(lines.pop(event.label))

        yield show


def _print_event(event: Event) -> None:
    if event.finished == "training":
        error = "" if event.error is None else f", lowest validation error {event.error:.3g}"
        left = "" if event.seconds_left is None else f"; about {_duration(event.seconds_left)} left"
        _note(f"[{event.done} of {event.total}] {event.label}: trained{error}{left}")


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _note(f"Warning: {message}")
        yield


def _note(text: str) -> None:
    typer.echo(text, err=True)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
