"""The paper as data: a declarative object for each table and figure, and what runs them."""

from gnpool.lab.catalog import DATA_TABLES, all_tables, at_hand_tables, find_table, table_estimates
from gnpool.lab.cost import Estimate, estimates
from gnpool.lab.presets import PRESETS, Preset, get_preset
from gnpool.lab.reproduce import reproduce
from gnpool.lab.results import table_results, verdict
from gnpool.lab.runner import Event, Runner
from gnpool.lab.tables import TABLES, Cell, Table, get_table, register_table

__all__ = [
    "DATA_TABLES",
    "PRESETS",
    "TABLES",
    "Cell",
    "Estimate",
    "Event",
    "Preset",
    "Runner",
    "Table",
    "all_tables",
    "at_hand_tables",
    "estimates",
    "find_table",
    "get_preset",
    "get_table",
    "register_table",
    "reproduce",
    "table_estimates",
    "table_results",
    "verdict",
]
