"""Outcomes of the searches of tools/ in one file, results/reliability.json, the source of docs/reliability.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "results" / "reliability.json"


def kept(part: str) -> dict[str, Any]:
    """The outcome that a search has written; empty if there is none."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found.get(part, {})


def keep(part: str, outcome: dict[str, Any]) -> None:
    """Replace the outcome of one search, and keep the others."""
    from gnpool.store.files import write

    found = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    found[part] = outcome
    write(FILE, (json.dumps(dict(sorted(found.items())), indent=1) + "\n").encode(), shared=True)
