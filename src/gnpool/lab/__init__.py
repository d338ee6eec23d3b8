"""The paper as data: each table and figure is a declarative object, and a runner computes its numbers."""

from __future__ import annotations

from typing import Any

from gnpool.lab.recipes.presets import PRESETS, Preset, get_preset
from gnpool.lab.recipes.table import Cell, Table, table_results
from gnpool.lab.registry import all_tables, at_hand_tables, find_table, register_table
from gnpool.lab.reproduction import reproduce
from gnpool.lab.results import verdict
from gnpool.lab.running.board import Event
from gnpool.lab.running.runner import Runner
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


def __getattr__(name: str) -> Any:
    if name != "TABLES":
        raise AttributeError(f"module 'gnpool.lab' has no attribute '{name}'")
    from gnpool.lab.synthetic.tables import TABLES  # when it is asked for: no kind of table imports another

    return TABLES
