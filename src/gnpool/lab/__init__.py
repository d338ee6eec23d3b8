"""The paper as data: each table and figure is a declarative object, and a runner computes its numbers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnpool.lab.recipes.presets import PRESETS, Preset, get_preset
    from gnpool.lab.recipes.results import table_results
    from gnpool.lab.recipes.table import Cell, Table
    from gnpool.lab.registry import all_tables, at_hand_tables, find_table, register_table
    from gnpool.lab.reproduction import reproduce
    from gnpool.lab.results import verdict
    from gnpool.lab.running.board import Event
    from gnpool.lab.running.runner import Runner
    from gnpool.lab.synthetic.tables import TABLES
    from gnpool.lab.table import AnyTable, Estimate, Scope

__all__ = [
    "PRESETS",
    "TABLES",
    "AnyTable",
    "Cell",
    "Estimate",
    "Event",
    "Preset",
    "Runner",
    "Scope",
    "Table",
    "all_tables",
    "at_hand_tables",
    "find_table",
    "get_preset",
    "register_table",
    "reproduce",
    "table_results",
    "verdict",
]

# Each name is loaded on first use, so that one kind of table does not import the others.
_LAZY = {
    **dict.fromkeys(("AnyTable", "Estimate", "Scope"), "table"),
    **dict.fromkeys(("Cell", "Table"), "recipes.table"),
    **dict.fromkeys(("PRESETS", "Preset", "get_preset"), "recipes.presets"),
    **dict.fromkeys(("all_tables", "at_hand_tables", "find_table", "register_table"), "registry"),
    "Event": "running.board",
    "Runner": "running.runner",
    "TABLES": "synthetic.tables",
    "reproduce": "reproduction",
    "table_results": "recipes.results",
    "verdict": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'gnpool.lab' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"gnpool.lab.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
