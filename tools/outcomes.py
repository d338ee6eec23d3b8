"""Stores what the searches of tools/ found (results/reliability.json), and makes the tables of docs/reliability.md.

python -m tools.outcomes     # rewrite the tables of docs/reliability.md
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "results" / "reliability.json"
REASONS = ROOT / "tools" / "survivors.json"
PAGE = ROOT / "docs" / "reliability.md"


def read(file: Path) -> dict[str, Any]:
    """A JSON object; empty if the file is not there."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def kept(part: str) -> dict[str, Any]:
    """The outcome that a search has written; empty if there is none."""
    found: dict[str, Any] = read(FILE).get(part, {})
    return found


def keep(part: str, outcome: dict[str, Any]) -> None:
    """Replace the outcome of one search, and keep the others, which may run at the same time."""
    from gnpool.store.files import write

    folder = os.open(FILE.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = read(FILE) | {part: outcome}
        write(FILE, (json.dumps(dict(sorted(found.items())), indent=1) + "\n").encode(), shared=True)
    finally:
        os.close(folder)


def tables(found: dict[str, Any], reasons: dict[str, str]) -> dict[str, str]:
    """The tables of the page, by name."""
    mutants = _mutants(found["mutants"], reasons)
    return {"fuzz": _fuzz(found["fuzz"]), "kills": _kills(found["kills"]), "mutants": mutants}


def _fuzz(found: dict[str, Any]) -> str:
    rows = [(part, f"{count:,}") for part, count in found["tried"].items()]
    return _table(("part", "cases"), [*rows, ("all", f"{sum(found['tried'].values()):,}")])


def _kills(found: dict[str, Any]) -> str:
    rows = []
    for kind, asked in found["asked"].items():
        series = found["series"].get(kind, {}).values()
        other = sum(not one["same"] for one in series)
        kills = sum(one["kills"] for one in series)
        rows.append((kind, f"{asked:,}", f"{kills:,}", f"{sum(one['ends'] for one in series):,}", str(other)))
    every = [sum(int(row[place].replace(",", "")) for row in rows) for place in range(1, 5)]
    return _table(
        ("run", "kills wanted", "kills so far", "ends", "series that ended otherwise"),
        [*rows, ("all", *(f"{number:,}" for number in every))],
    )


def _mutants(found: dict[str, Any], reasons: dict[str, str]) -> str:
    rows = []
    for part, wanted in found["sample"].items():
        mine = {name: one for name, one in found["outcomes"].items() if one["part"] == part}
        killed = sum(one["outcome"] == "killed" for one in mine.values())
        alive = [name in reasons for name, one in mine.items() if one["outcome"] != "killed"]
        rows.append((part, wanted, len(mine), killed, sum(alive), len(alive) - sum(alive)))
    every = tuple(sum(row[place] for row in rows) for place in range(1, 6))
    named = [(row[0], *map(str, row[1:])) for row in [*rows, ("all", *every)]]
    return _table(("part", "wanted", "tried so far", "killed", "alive for a reason", "alive without"), named)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str) -> str:
    """The page with its tables rewritten."""
    from gnpool.report.markdown.blocks import fill

    return fill(page, tables(read(FILE), read(REASONS)), PAGE.name, family="searches")


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
