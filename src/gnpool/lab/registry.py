"""All tables by name. A lab folder with a ``kind.json`` is a kind of table, and is imported when first needed."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Mapping
from importlib import resources

from gnpool.lab.table import AnyTable

KIND = "kind.json"  # place: the position among kinds; tables: the names, in order
_OWN: dict[str, AnyTable] = {}  # tables that users have registered


@functools.cache
def kinds() -> dict[str, tuple[str, ...]]:
    """The names of the tables of each kind in the package, by folder, in the order in which they are shown."""
    found = [folder / KIND for folder in resources.files("gnpool.lab").iterdir()]
    told = {file: json.loads(file.read_text(encoding="utf-8")) for file in found if file.is_file()}
    order = sorted(told, key=lambda file: told[file]["place"])
    return {file.parent.name: tuple(told[file]["tables"]) for file in order}  # type: ignore[attr-defined]


def tables_of(kind: str) -> Mapping[str, AnyTable]:
    """The tables of a kind, which its folder calls ``TABLES``."""
    found: Mapping[str, AnyTable] = importlib.import_module(f"gnpool.lab.{kind}").TABLES
    return found


def table_names() -> list[str]:
    """The names of all tables. No kind is imported."""
    return [*(name for names in kinds().values() for name in names), *_OWN]


def find_table(name: str) -> AnyTable:
    """The table or figure called ``name``, of any kind.

    Example:
        >>> from gnpool.lab import find_table
        >>> find_table("exp_graph_harmonic").title
        'All 19 competitors and GNP on large ER graphs, harmonic'
    """
    for kind, names in kinds().items():
        if name in names:
            return tables_of(kind)[name]
    if name in _OWN:
        return _OWN[name]
    raise ValueError(f"there is no table {name!r}; choose one of {', '.join(table_names())}")


def all_tables() -> dict[str, AnyTable]:
    """Every table and figure by name.

    Example:
        >>> from gnpool.lab import all_tables
        >>> tables = all_tables()
        >>> "exp_graph_harmonic" in tables, all(name == table.id for name, table in tables.items())
        (True, True)
    """
    return {name: find_table(name) for name in table_names()}


def at_hand_tables() -> list[str]:
    """Names of the tables that need no download; ``all`` stands for them.

    Example:
        >>> from gnpool.lab import at_hand_tables
        >>> "exp_graph_harmonic" in at_hand_tables()
        True
    """
    return [name for name, table in all_tables().items() if table.at_hand()]


def register_table(table: AnyTable) -> AnyTable:
    """Register a table of your own with :func:`gnpool.lab.reproduce` and, by ``--load``, with the command line."""
    if table.id in table_names():
        raise ValueError(f"there is a table {table.id!r} already")
    _OWN[table.id] = table
    return table
