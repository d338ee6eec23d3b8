"""Shows what a store holds so far: tables, and models as modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnpool.lab.recipes.presets import PRESETS
from gnpool.lab.recipes.stored import stored_model
from gnpool.lab.registry import all_tables
from gnpool.lab.table import SEARCHES, AnyTable, Scope
from gnpool.store import Store

__all__ = ["filled", "stored_model", "stored_tables"]


def stored_tables(folder: Path) -> list[dict[str, Any]]:
    """What results.json would contain now: every table of the lab with at least one stored cell."""
    if not (folder / "units").is_dir():
        return []
    store = Store(folder, create=False)
    used = {str(record.key.get("preset") or record.meta.get("preset")) for record in store.records()}
    presets = [name for name in PRESETS if any(one == name or one.startswith(f"{name}-") for one in used)]
    found = [_fullest(table, store, presets) for table in all_tables().values()]
    return [one for one in found if one is not None and filled(one)]


def filled(table: dict[str, Any]) -> int:
    """The number of cells with a number, in a table of results.json."""
    return sum(cell["ours"] is not None for cell in table["cells"])


def _fullest(table: AnyTable, store: Store, presets: list[str]) -> dict[str, Any] | None:
    """A table by the preset with the most results, whichever way its settings were searched."""
    return max((table.results(Scope(preset, SEARCHES), store) for preset in presets), key=filled, default=None)
