"""Stores raw outcomes of a study as one JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnpool.store.files import write


def read_runs(path: Path) -> list[dict[str, Any]]:
    """The stored runs of a study; none if there is no file."""
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_runs(path: Path, found: list[dict[str, Any]]) -> None:
    """Write all runs at once or not at all; one line for each run keeps diffs readable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in found)
    write(path, f"[\n{lines}\n]\n".encode())
