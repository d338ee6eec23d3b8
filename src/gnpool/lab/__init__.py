"""The paper as data: a declarative object for each table and figure, and what runs them."""

from gnpool.lab.cost import Estimate, estimates
from gnpool.lab.presets import PRESETS, Preset, get_preset
from gnpool.lab.reproduce import reproduce
from gnpool.lab.results import table_results, verdict
from gnpool.lab.runner import Event, Runner, choose_device
from gnpool.lab.tables import TABLES, Cell, Table, get_table, register_table

__all__ = [
    "PRESETS",
    "TABLES",
    "Cell",
    "Estimate",
    "Event",
    "Preset",
    "Runner",
    "Table",
    "choose_device",
    "estimates",
    "get_preset",
    "get_table",
    "register_table",
    "reproduce",
    "table_results",
    "verdict",
]
