"""Runs tables of the arena for a limited time, and stores the results.

    python -m studies.arena good_motif_size good_motif_basis --preset paper --device cuda --seconds 170
    python -m studies.arena --collect            # write what the store has by now, and run nothing

This is ``gnpool reproduce`` with a time limit: after the given seconds it stops as after Ctrl-C, and keeps finished
work. The tables, with every seed, go to results/learned/arena.json, from which docs/arena-results.md is made. Tables
that are only in the file stay there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gnpool.lab import Scope, find_table, reproduce
from gnpool.lab.arena import TABLES
from gnpool.lab.stored import filled
from gnpool.store import Store
from studies.files import read_runs, write_runs
from studies.limit import limited, show

OUT = Path("results/learned/arena.json")


def collect(store: Path, preset: str) -> list[dict[str, Any]]:
    """Every table with at least one stored result."""
    found = [find_table(name).results(Scope(preset), Store(store, create=False)) for name in TABLES]
    return [_rounded(table) for table in found if filled(table)]


def _rounded(value: Any) -> Any:
    """Round numbers to five digits, because people read the file, too."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def keep(path: Path, found: list[dict[str, Any]]) -> None:
    """Replace older tables of the same name and preset."""
    held = {(one["table"], one["meta"]["preset"]): one for one in read_runs(path)}
    held |= {(one["table"], one["meta"]["preset"]): one for one in found}
    write_runs(path, [held[key] for key in sorted(held)])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=0, help="time limit; 0 means none")
    parser.add_argument("--store", type=Path, default=Path("results/arena"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    if not given.collect:
        options = {"preset": given.preset, "device": given.device, "jobs": given.jobs, "on_event": show}
        with limited(given.seconds):
            try:
                reproduce(given.tables, given.store, **options)
            except RuntimeError as error:  # failed studies; the others are in the store
                print(error, flush=True)
    keep(given.out, collect(given.store, given.preset))


if __name__ == "__main__":
    main()
