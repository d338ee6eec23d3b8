"""What the searches of tools/ found: one file, results/reliability.json, which docs/reliability.md is written from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "results" / "reliability.json"


def kept(part: str) -> dict[str, Any]:
    """What a search has written; empty if it has not."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found.get(part, {})


def keep(part: str, outcome: dict[str, Any]) -> None:
    """Replace what one search has written, and leave the others."""
    from gnpool.store.files import write

    found = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    found[part] = outcome
    write(FILE, (json.dumps(dict(sorted(found.items())), indent=1) + "\n").encode(), shared=True)
