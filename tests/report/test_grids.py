from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from gnpool.lab import TABLES
from gnpool.lab.paper import paper_cells
from gnpool.report import grids, number, verdict_counts


def cell(row: str, column: str, mean: float | None, **fields: Any) -> dict[str, Any]:
    ours = {"mean": mean, "std": None if mean is None else 0.25, "runs": [mean] * 2, "failed": 2 * (mean is None)}
    return {"row": row, "column": column, "ours": ours, "paper": None, "metric": "MAPE", "verdict": "", **fields}


def result(*cells: dict[str, Any], name: str = "t") -> dict[str, Any]:
    return {"table": name, "title": "Error", "metric": "MAPE", "cells": list(cells), "meta": {}}


PAPER = {"mean": 1.1, "std": 0.8}


def test_ours_paper_and_verdict_stand_one_below_the_other() -> None:
    (grid,) = grids(result(cell("GNP", "a", 1.234, paper=PAPER, verdict="matched"), cell("sum", "a", 0.5)))
    assert grid.title == "t: Error (MAPE)"
    assert grid.head == ("", "", "a")
    assert grid.rows == (
        ("GNP", "ours\npaper\n", "1.23 ± 0.25\n1.1 ± 0.8\nmatched"),
        ("sum", "ours", "0.50 ± 0.25"),
    )


def test_title_says_what_rows_and_columns_are() -> None:
    table = {**result(cell("sum", "max", 1.0)), "rows_are": "readout", "columns_are": "aggregation"}
    assert grids(table)[0].title == "t: Error (MAPE); rows: readout; columns: aggregation"


def test_absolute_errors_have_three_digits() -> None:
    (grid,) = grids(result(cell("bfs", "GNP", 0.1234, metric="MAE", paper=PAPER, verdict="better")))
    assert grid.rows[0][2] == "0.123 ± 0.250\n1.100 ± 0.800\nbetter"


def test_missing_and_failed() -> None:
    missing = {**cell("b", "a", 1.0), "ours": None}
    some = cell("c", "a", 1.0)
    some["ours"]["failed"] = 1
    (grid,) = grids(result(cell("a", "a", None), missing, some))
    assert [row[2] for row in grid.rows] == ["all 2 failed", "-", "1.00 ± 0.25 (1 failed)"]


def test_columns_with_other_rows_get_a_grid_of_their_own() -> None:
    cells = [cell("a", "x", 1.0), cell("b", "x", 2.0), cell("a", "y", 3.0), cell("b", "y", 4.0), cell("b", "z", 5.0)]
    first, second = grids(result(*cells))
    assert (first.head[2:], [row[0] for row in first.rows]) == (("x", "y"), ["a", "b"])
    assert (second.title, second.head[2:], [row[0] for row in second.rows]) == ("t, continued", ("z",), ["b"])


def test_models_beside_the_grid_become_columns() -> None:
    inside, beside = grids(result(cell("sum", "max", 1.0), cell("GNP", "model", 2.0), cell("SortPool", "model", 3.0)))
    assert inside.rows == (("sum", "ours", "1.00 ± 0.25"),)
    assert beside.head == ("", "", "GNP", "SortPool")
    assert beside.rows == (("", "ours", "2.00 ± 0.25", "3.00 ± 0.25"),)


def test_exponents_are_shown_at_the_end_of_training() -> None:
    curves = {"p_pos": [[1.0, 1.0], [2.0, 4.0]], "q_pos": [[0.0, 0.0], [None, 0.5]]}
    (grid,) = grids(result(cell("maxdegree", "readout", 1.0, curves=curves)))
    assert grid.head == ("", "", "p_pos", "q_pos")
    assert grid.rows == (("maxdegree, readout", "mean\nrange", "3.00\n2.00 to 4.00", "0.50\n0.50 to 0.50"),)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.004, "0.00"), (99.994, "99.99"), (100.04, "100.0"), (1234.5, "1,234"), (1e6, "1e+06"), (float("inf"), "inf")],
)
def test_number(value: float, text: str) -> None:
    assert number(value, 2) == text


def test_verdicts_are_counted() -> None:
    compared = [
        cell("a", str(k), 1.0, paper=PAPER, verdict=word) for k, word in enumerate(["matched", "worse", "matched"])
    ]
    assert verdict_counts(result(*compared, cell("b", "0", 1.0))) == "3 published cells: 2 matched, 1 worse"
    assert verdict_counts(result(cell("b", "0", 1.0))) == ""


@pytest.mark.parametrize("name", TABLES)
def test_every_table_fits_into_120_columns(name: str) -> None:
    cells = []
    for planned in TABLES[name].cells:
        filled = cell(planned.row, planned.column, 123.45)
        filled["ours"]["std"] = 100.4
        if (planned.row, planned.column) in paper_cells(name) or planned.published:
            filled |= {"paper": {"mean": 123.4, "std": 100.4}, "verdict": "both fail"}
        if TABLES[name].curves:
            filled["curves"] = {curve: [[10.0, 50.0]] for curve in TABLES[name].curves}
        cells.append(filled)
    for grid in grids(result(*cells, name=name)):
        table = Table(*grid.head)
        for row in grid.rows:
            table.add_row(*row)
        stream = io.StringIO()
        Console(file=stream, width=400).print(table)
        assert max(map(cell_len, stream.getvalue().splitlines())) <= 120
