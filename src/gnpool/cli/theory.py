"""``gnpool theory``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnpool.cli.inputs import Json
from gnpool.cli.output import say, show_json, show_table, steps

if TYPE_CHECKING:
    from gnpool.theory import TheoryStudy

EPILOG = "Example: gnpool theory --out figures"


def theory(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the pictures; needs matplotlib.")] = None,
    json: Json = False,
    graphs: Annotated[int, typer.Option(min=1, help="Training graphs of the kernel regressions.")] = 180,
    width: Annotated[
        list[int] | None, typer.Option(min=1, help="Width of trained networks; repeat it.  [default: 16 64 256 1024]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another number, other graphs and networks.")] = 0,
) -> None:
    """Check by machine which readouts extrapolate, and why.

    Kernel regression with the tangent kernels of one-layer networks on the harmonic task, networks of growing width
    beside their kernels, a map of which pooling learns which target, and the statements of the proofs as numbers.
    Takes about a minute. The status is 1 if a check fails.
    """
    from gnpool.theory import run_study, study_steps
    from gnpool.theory.figures import new_figure, save_figures
    from gnpool.theory.study import WIDTHS

    if out is not None:
        new_figure(1.0, 1.0)  # a missing matplotlib shows now, and not after a minute
        out.mkdir(parents=True, exist_ok=True)
    with steps(study_steps()) as begin:
        study = run_study(graphs=graphs, widths=width or WIDTHS, seed=seed, progress=begin)
    pictures = save_figures(study, out) if out is not None else []
    if json:
        show_json({**study.to_dict(), "pictures": [str(path) for path in pictures]})
    else:
        _show(study)
        for path in pictures:
            say(f"wrote {path}")
    if not study.holds:
        raise typer.Exit(1)


def _show(study: TheoryStudy) -> None:
    for setting in dict.fromkeys(row.setting for row in study.regression):
        rows = [row for row in study.regression if row.setting == setting]
        show_table(
            f"Kernel regression, {setting}: mean relative error in percent",
            ["readout", "train", *rows[0].test],
            [[row.readout, *(_percent(error) for error in (row.train, *row.test.values()))] for row in rows],
        )
    show_table(
        "Networks of growing width: relative distance from the kernel",
        ["network", "width", "kernel at the start", "trained, larger graphs", "gap, flipped", "gap, others"],
        [
            [
                row.case,
                str(row.width),
                *map(_range, (row.kernel, row.function)),
                _mean(row.flipped),
                _mean(row.unflipped),
            ]
            for row in study.widths
        ],
    )
    networks = len(study.widths[0].kernel)
    say(f"Mean (least to largest) over {networks} networks. Gap: what training added beyond the first-order expansion,")
    say("from channels in which some node changed its sign, and from all others.")
    show_table(
        "Which pooling learns which target: worst error over all test sets in percent",
        ["pooling", *study.named],
        [[name, *(_percent(error) for error in errors.values())] for name, errors in study.named.items()],
    )
    show_table(
        "Checks",
        ["statement", "found", "must be", ""],
        [
            [
                check.name,
                f"{check.value:.2g}",
                f"{'>' if check.above else '<='} {check.bound:g}",
                "holds" if check.holds else "FAILS",
            ]
            for check in study.checks
        ],
    )
    failed = sum(not check.holds for check in study.checks)
    verdict = "all hold" if not failed else f"{failed} FAIL"
    say(f"{len(study.checks)} checks: {verdict}. {study.seconds:.0f} seconds.")


def _range(runs: Sequence[float]) -> str:
    return f"{_mean(runs)} ({min(runs):.3f} to {max(runs):.3f})"


def _mean(runs: Sequence[float]) -> str:
    return f"{sum(runs) / len(runs):.3f}" if runs else ""


def _percent(error: float) -> str:
    if error < 0.005:
        return f"{error:.0e}"
    return f"{error:,.2f}" if error < 100 else f"{error:,.0f}"
