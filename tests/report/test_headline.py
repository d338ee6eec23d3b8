from __future__ import annotations

from typing import Any

from gnpool.report.page.headline import contests, headline
from tests.report.shared import cell, tables


def table(name: str, *cells: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"table": name, "title": "Error", "metric": "MAPE", "cells": list(cells), **fields}


def found(*tables: dict[str, Any]) -> list[tuple[str, str, float]]:
    return [(one.name, one.rival, one.gnp["ours"]["mean"]) for one in contests(tables)]


GRID = table(
    "grid",
    cell("max", "sum", 3.0, gnp=False),
    cell("max", "mean", 4.0, gnp=False),
    cell("SAGPool", "model", 5.0, gnp=False),
    cell("GNP", "model", 1.0, gnp=True),
)


def test_a_grid_is_one_contest() -> None:
    assert found(GRID) == [("grid", "sum,max", 1.0)]


def test_a_row_of_gnp_meets_others_in_each_column() -> None:
    sets = table(
        "set",
        cell("basic/sum", "a", 2.0, gnp=False),
        cell("deep/max", "a", 1.5, gnp=False),
        cell("basic/sum", "b", 3.0, gnp=False),
        cell("basic/GNP", "a", 1.0, gnp=True),
        cell("basic/GNP", "b", 4.0, gnp=True),
        cell("basic/GNP", "alone", 9.0, gnp=True),
    )
    assert found(sets) == [("set: a", "deep/max", 1.0), ("set: b", "basic/sum", 4.0)]


def test_a_column_of_gnp_meets_others_in_each_row() -> None:
    nodes = table(
        "node", *(cell(task, "max", 2.0, gnp=False) for task in "ab"), *(cell(t, "GNP", 1.0, gnp=True) for t in "ab")
    )
    assert found(nodes) == [("node: a", "max", 1.0), ("node: b", "max", 1.0)]


def test_more_may_be_better() -> None:
    cells = (cell("max", "a", 0.7, gnp=False), cell("sum", "a", 0.9, gnp=False), cell("GNP", "a", 0.8, gnp=True))
    assert found(table("t", *cells, higher_is_better=True)) == [("t: a", "sum", 0.8)]
    assert found(table("t", *cells)) == [("t: a", "max", 0.8)]


def test_the_best_rival_counts_even_if_only_the_paper_has_run_it() -> None:
    rivals = (cell("max", "a", None, 0.1, gnp=False), cell("sum", "a", 7.0, 0.05, gnp=False))
    assert found(table("t", *rivals, cell("GNP", "a", 1.0, gnp=True))) == [("t: a", "max", 1.0)]
    (only,) = contests([table("t", rivals[0], cell("GNP", "a", 1.0, gnp=True))])
    assert only.rival == "max"
    assert "max: 0.1 ± 0.1 (paper)" in str(headline([table("t", rivals[0], cell("GNP", "a", 1.0, gnp=True))]))


def test_repeated_cells_count_once_and_their_own_table_comes_first() -> None:
    repeated = table(
        "demo", cell("sum", "x", 9.0, gnp=False), cell("GNP", "x", 1.0, gnp=True, published=["grid", "GNP", "model"])
    )
    assert found(repeated, GRID) == found(GRID, repeated) == [("grid", "sum,max", 1.0)]
    assert found(repeated) == [("demo: x", "sum", 1.0)]


def test_other_forms_of_gnp_stand_beside() -> None:
    (one,) = contests([table("t", cell("sum", "a", 9.0), cell("GNP", "a", 1.0), cell("GNP*", "a", 0.5))])
    assert list(one.others) == ["GNP*"]
    text = str(headline([table("t", cell("sum", "a", 9.0), cell("GNP", "a", 1.0), cell("GNP*", "a", 0.5))]))
    assert '<th scope="col">GNP*</th>' in text
    assert "<td>0.50 ± 0.05</td>" in text


def test_tables_without_a_contest() -> None:
    assert headline(tables()[1:]) is None  # by size
    assert contests([table("t", cell("GNP", "a", 1.0), cell("GNP", "b", 1.0))]) == []
    spread = table("t", cell("BA", "a/GNP", 1.0), cell("Tree", "b/GNP", 1.0), cell("BA", "a/sum", 1.0))
    assert contests([spread]) == []  # GNP stands neither in one row nor in one column
