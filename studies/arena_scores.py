"""Extracts from the arena's tables our result, the best fixed pair and the best published number of each benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnpool.lab.arena import TABLES
from gnpool.tasks.arena import published

PRESETS = ("paper", "quick")  # the first preset that was run is shown, and the next one while it has gaps
WANTED = {  # by table and column
    ("good_motif_size", "covariate"): 91.0,
    ("good_motif_basis", "covariate"): 72.0,
    ("tu_size", "NCI1"): 0.28,
    ("tu_size", "PROTEINS"): 0.40,
    ("tu_size", "DD"): 0.29,
    ("pna_multitask", "average"): -3.13,
    ("salsa_bfs", "ER 1600"): 99.95,
    ("salsa_bfs", "WS 1600"): 99.95,
    ("salsa_bfs", "Delaunay 1600"): 99.95,
    ("salsa_dijkstra", "ER 1600"): 99.95,
    ("salsa_dijkstra", "WS 1600"): 99.95,
    ("salsa_dijkstra", "Delaunay 1600"): 99.95,
    ("colors", "LargeC"): 90.0,
    ("triangles", "Large"): 48.0,
}
Place = tuple[str, float]  # a row and its mean


@dataclass(frozen=True)
class Found:
    """The result in a column of a table.

    Args:
        table, column (str): The table and its column.
        first (str): The first column of the table.
        preset (str): The preset that was run.
        ours (tuple, optional): The row of GNP, or the contender that an inner contest chose.
        fixed (tuple, optional): The fixed pair with the best mean on the test itself.
        ahead (bool): Whether ours is better than the fixed pair, by the interval of the paired difference.
        published (tuple, optional): The best published method.
        rows (dict): The means of all contenders.
        methods (dict): The means of all published methods.
        ceiling, wanted (float, optional): The best possible value, and our target.
        higher (bool): Whether more is better.
    """

    table: str
    column: str
    first: str
    preset: str
    ours: Place | None
    fixed: Place | None
    ahead: bool
    published: Place | None
    rows: dict[str, float]
    methods: dict[str, float]
    ceiling: float | None
    wanted: float | None
    higher: bool


def fullest(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order of the lab, each table of the larger preset, and of the smaller one if the larger one has gaps."""
    held = {(one["table"], one["meta"]["preset"]): one for one in tables}
    found = []
    for name in TABLES:
        mine = [held[name, preset] for preset in PRESETS if (name, preset) in held]
        whole = bool(mine) and all(_whole(mine[0], column) for _, column in main_columns(name))
        found += mine[:1] if whole else mine
    return found


def main_columns(name: str) -> list[tuple[Any, str]]:
    """The contests of a table with their main columns: the first of each contest, and those with a target."""
    return [
        (contest, column.name)
        for contest in TABLES[name].contests
        for column in contest.columns
        if column is contest.columns[0] or (name, column.name) in WANTED
    ]


def _ran(one: dict[str, Any], column: str) -> set[str]:
    """The rows that were run in a column."""
    return {cell["row"] for cell in one["cells"] if cell["column"] == column and cell["ours"] is not None}


def _whole(one: dict[str, Any], column: str) -> bool:
    """Whether every contender was run in a column."""
    contest = next(contest for contest, name in main_columns(one["table"]) if name == column)
    return {contender.name for contender in contest.amounts[one["meta"]["preset"]].contenders} <= _ran(one, column)


def of_ours(tables: list[dict[str, Any]]) -> list[Found]:
    """The main columns of all tables, each from the largest preset that has every contender, else from the last one."""
    found = []
    for name in dict.fromkeys(one["table"] for one in tables):
        mine = [one for one in tables if one["table"] == name]
        for contest, column in main_columns(name):
            ran = [one for one in mine if _ran(one, column)]
            best = next((one for one in ran if _whole(one, column)), ran[-1] if ran else None)
            if best is not None:
                found.append(_found(best, contest, column))
    return found


def _found(one: dict[str, Any], contest: Any, column: str) -> Found:
    cells = [cell for cell in one["cells"] if cell["column"] == column and cell["ours"] is not None]
    rows = {cell["row"]: cell["ours"]["mean"] for cell in cells if cell["ours"]["mean"] is not None}
    amount = contest.amounts[one["meta"]["preset"]]
    sign = 1.0 if contest.higher else -1.0
    contenders = {contender.name: contender for contender in amount.contenders}
    fixed = [(row, mean) for row, mean in rows.items() if row in contenders and contenders[row].fixed]
    best = max(fixed, key=lambda place: sign * place[1], default=None)
    chosen = next((cell for cell in cells if cell.get("choice")), None)
    name = next((contender.name for contender in amount.contenders if contender.name in rows and contender.gnp), None)
    ours = (chosen["row"], chosen["ours"]["mean"]) if chosen else None if name is None else (name, rows[name])
    ahead = False
    if best is not None and name is not None and chosen is None:
        gaps = [gap for gap in one["pairs"] if (gap["column"], gap["second"], gap["first"]) == (column, name, best[0])]
        ahead = bool(gaps) and (gaps[0]["interval"][0] > 0 if contest.higher else gaps[0]["interval"][1] < 0)
    known = published(contest.benchmark)
    where = contest.published.get(column)
    methods = {
        method: row[where].mean
        for method, row in known.rows.items()
        if where is not None and where in row and method not in known.references
    }
    return Found(
        table=one["table"],
        column=column,
        first=contest.columns[0].name if contest.id == one["table"] else "",
        preset=one["meta"]["preset"],
        ours=ours,
        fixed=best,
        ahead=ahead,
        published=max(methods.items(), key=lambda place: sign * place[1], default=None),
        rows=rows,
        methods=methods,
        ceiling=known.ceiling,
        wanted=WANTED.get((one["table"], column)),
        higher=contest.higher,
    )


def best_published(one: dict[str, Any], column: str) -> Place | None:
    """The best published method for a column of our table."""
    for contest in TABLES[one["table"]].contests:
        if column in contest.published:
            best = published(contest.benchmark).best(contest.published[column])
            return None if best is None else (best[0], best[1].mean)
    return None
