"""The numbers that others published on the benchmarks, with their sources and whether they were checked."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

FILE = "published.json"
MARKS = {
    "verified": "read in the public repository of the authors",
    "reported": "not checked against the source",
}


@dataclass(frozen=True)
class Score:
    """One published number.

    Args:
        mean (float): The number; it is a mean over runs if ``std`` is given.
        std (float, optional): Standard deviation over runs.
        mark (str): ``"verified"`` or ``"reported"``, see :obj:`MARKS`.
        note (str): A remark for the reader.

    Example:
        >>> from gnpool.tasks.arena import published
        >>> score = published("good_motif_size").rows["GSAT"]["covariate"]
        >>> f"{score.mean} ± {score.std} ({score.mark})"
        '60.76 ± 5.94 (verified)'
    """

    mean: float
    std: float | None
    mark: str
    note: str


@dataclass(frozen=True)
class PublishedTable:
    """The published numbers on one benchmark.

    Args:
        id (str): The benchmark, or ``"tu_size"``.
        title (str): Its name in words.
        metric (str): The metric of the numbers.
        better (str): ``"higher"`` or ``"lower"``.
        ceiling (float, optional): The best possible number.
        source (dict): Title, year and link of the paper, and where the numbers were read.
        columns (tuple[str, ...]): Test sets or tasks.
        rows (dict): Scores by method and column; a method has no score in a column where it was not run.
        references (tuple[str, ...]): Methods outside the competition, such as an oracle.

    Example:
        >>> from gnpool.tasks.arena import published
        >>> table = published("good_motif_size")
        >>> table.metric, table.better, table.columns
        ('accuracy on the shifted test, %', 'higher', ('covariate', 'concept'))
        >>> table.best("covariate")[0]
        'LECI'
    """

    id: str
    title: str
    metric: str
    better: str
    ceiling: float | None
    source: dict[str, Any]
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Score]]
    references: tuple[str, ...]

    def best(self, column: str, mark: str | None = None) -> tuple[str, Score] | None:
        """The best method in a column and its score; with ``mark``, only among scores with that mark."""
        found = [
            (method, scores[column])
            for method, scores in self.rows.items()
            if column in scores and method not in self.references and mark in (None, scores[column].mark)
        ]
        sign = 1.0 if self.better == "higher" else -1.0
        return max(found, key=lambda pair: sign * pair[1].mean, default=None)


def published(table: str) -> PublishedTable:
    r"""The published numbers on a benchmark.

    Example:
        >>> from gnpool.tasks.arena import published
        >>> method, score = published("good_motif_size").best("covariate", mark="verified")
        >>> method, score.mean, score.std
        ('GSAT', 60.76, 5.94)
    """
    tables = _read()
    if table not in tables:
        raise ValueError(f"'table' must be one of {', '.join(tables)}, got {table!r}")
    return tables[table]


def published_tables() -> list[str]:
    """The ids of all tables of published numbers.

    Example:
        >>> from gnpool.tasks.arena import published_tables
        >>> "good_motif_size" in published_tables()
        True
    """
    return list(_read())


@functools.cache
def _read() -> dict[str, PublishedTable]:
    text = resources.files("gnpool.tasks.arena").joinpath(FILE).read_text(encoding="utf-8")
    found = json.loads(text)
    return {table["id"]: _table(table, found["sources"]) for table in found["tables"]}


def _table(found: dict[str, Any], sources: dict[str, Any]) -> PublishedTable:
    return PublishedTable(
        id=found["id"],
        title=found["title"],
        metric=found["metric"],
        better=found["better"],
        ceiling=found.get("ceiling"),
        source=sources[found["source"]],
        columns=tuple(found["columns"]),
        rows={row["method"]: _scores(row, found["mark"]) for row in found["rows"]},
        references=tuple(row["method"] for row in found["rows"] if row.get("reference")),
    )


def _scores(row: dict[str, Any], mark: str) -> dict[str, Score]:
    return {
        column: Score(
            mean=value["mean"],
            std=value.get("std"),
            mark=value.get("mark", row.get("mark", mark)),
            note=value.get("note", ""),
        )
        for column, value in row["values"].items()
    }
