"""The tables and lines of the arena's pages are right and in step with the stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gnpool.lab.arena import TABLES
from gnpool.tasks.arena import published
from studies import arena, arena_figure, arena_page, arena_recipe, arena_scores
from studies.files import read_runs


@pytest.mark.parametrize("path", arena_page.FILLED, ids=lambda path: path.name)
def test_the_pages_are_in_step(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert arena_page.filled(page, arena_page.FILLED[path]()) == page


def test_a_page_without_a_block() -> None:
    with pytest.raises(ValueError, match="has no block 'parts'"):
        arena_page.filled("# The arena", {"parts": ""})


def test_published_rows() -> None:
    lines = arena_page.published_table(published("good_motif_size")).splitlines()
    assert lines[0] == "|  | covariate | concept |"
    assert lines[2] == "| ERM | 53.46 ± 4.08 | **70.83 ± 0.79** |"
    assert lines[10] == "| GSAT | 60.76 ± 5.94 | 59.00 ± 3.42 |"
    assert lines[13] == "| LECI | **71.00°** |  |"
    lines = arena_page.published_table(published("tu_size")).splitlines()
    assert lines[-1].startswith("| Oracle (IID) | 0.32 ± 0.05° | 0.37 ± 0.06° |")  # does not compete
    lines = arena_page.published_table(published("colors")).splitlines()
    assert lines[2] == "| global readout | 15 ± 7 | **100** | 62.0 | 14.8 |"  # with the three others that have 100
    assert arena_page.notes_of(published("salsa_bfs")) == (
        "RecGNN (ER 1600), RecGNN (Delaunay 1600): confirmed second-hand."
    )
    assert arena_page.published_block("salsa_dijkstra").endswith("No published number was established.")
    assert "No method can do better than 93.33." in arena_page.published_block("good_motif_size")


def cell(row: str, runs: list[float] | None, interval: tuple[float, float] = (0.0, 1.0), **more: Any) -> dict[str, Any]:
    ours = None if runs is None else {"mean": sum(runs) / len(runs), "std": 1.0, "runs": runs, "failed": 0}
    return {"row": row, "column": "covariate", "ours": ours, "interval": list(interval), "metric": "PERCENT", **more}


def table(gap: tuple[float, float], preset: str = "paper") -> dict[str, Any]:
    cells = [
        cell("GNP, rewired graphs", [90.0, 92.0]),
        cell("sum/max", [80.0, 82.0], (79.0, 83.0)),
        cell("pna/mean", None),
    ]
    pair = {"first": "sum/max", "second": "GNP, rewired graphs", "column": "covariate", "pairs": 2}
    pairs = [{**pair, "difference": 0.1, "interval": [end / 100 for end in gap]}]
    meta = {"preset": preset, "notes": f"{preset}: 20 epochs", "device": "cpu"}
    return {"table": "good_motif_size", "metric": "PERCENT", "cells": cells, "pairs": pairs, "meta": meta}


def test_the_line_of_a_benchmark() -> None:
    (found,) = arena_scores.of_ours([table((8.0, 12.0))])
    assert (found.ours, found.fixed) == (("GNP, rewired graphs", 91.0), ("sum/max", 81.0))
    assert arena_page.line_of(found) == (
        "`good_motif_size`: GNP, rewired graphs 91.0, best fixed pair sum/max 81.0. Best published: 71 (LECI). "
        "Ceiling: 93.33. Wanted 91: reached."
    )
    (found,) = arena_scores.of_ours([table((-1.0, 12.0), "quick")])
    assert arena_page.line_of(found) == (
        "`good_motif_size`: a fixed pooling is enough: sum/max 81.0, beside GNP, rewired graphs 91.0. "
        "Best published: 71 (LECI). Ceiling: 93.33. Only the `quick` preset has been run."
    )


def test_a_table_of_results() -> None:
    lines = arena_page.result_table(table((8.0, 12.0))).splitlines()
    assert lines[0] == "**`good_motif_size`**, percent. paper: 20 epochs; cpu."
    assert lines[4:6] == [
        "| GNP, rewired graphs | 91.0 ± 1.0 (0.0 to 1.0) |",
        "| sum/max | 81.0 ± 1.0 (79.0 to 83.0) |",
    ]
    assert lines[-3] == "Best published: covariate 71 (LECI)."
    assert lines[-1] == "- covariate: GNP, rewired graphs minus sum/max +10.00 (+8.00 to +12.00, 2 seeds)"


def test_the_preset_that_is_shown() -> None:
    part, whole = table((8.0, 12.0)), table((8.0, 12.0), "quick")
    assert [one["meta"]["preset"] for one in arena_scores.fullest([whole, part])] == ["paper", "quick"]
    assert [one["meta"]["preset"] for one in arena_scores.fullest([whole])] == ["quick"]
    contest = TABLES["good_motif_size"].contests[0]
    rows = [cell(one.name, [80.0]) for one in contest.amounts["paper"].contenders]
    full = {**part, "cells": rows}
    assert [one["meta"]["preset"] for one in arena_scores.fullest([whole, full])] == ["paper"]
    assert [one.preset for one in arena_scores.of_ours([full, whole])] == ["paper"]
    assert [one.preset for one in arena_scores.of_ours([part, whole])] == ["quick"]  # neither is whole


def test_tables_replace_older_ones(tmp_path: Path) -> None:
    path = tmp_path / "arena.json"
    arena.keep(path, [table((8.0, 12.0)), table((1.0, 2.0), "quick")])
    arena.keep(path, [table((3.0, 4.0), "quick")])
    found = read_runs(path)
    assert [(one["meta"]["preset"], one["pairs"][0]["interval"][0]) for one in found] == [
        ("paper", 0.08),
        ("quick", 0.03),
    ]


def test_the_picture(tmp_path: Path) -> None:
    arena_figure.draw([table((8.0, 12.0))], tmp_path / "arena.png")
    assert (tmp_path / "arena.png").read_bytes()[:4] == b"\x89PNG"
    arena_figure.draw([], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_a_variant_of_the_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TRAIN": 40, "HELD": 10, "EPOCHS": 1, "HIDDEN": 4}.items():
        monkeypatch.setattr(arena_recipe, name, value)
    graphs, tests = arena_recipe.parts("tree")
    assert {int(graph.basis) for graph in graphs} == {0, 2}
    assert {int(graph.basis) for graph in tests["left out"]} == {1}
    found = arena_recipe.study("sum/max", "rewired or cut", graphs, tests, "cpu", seeds=2)
    assert len(found["accuracy"]["left out"]) == 2
    assert 0 <= found["accuracy"]["seen"][0] <= 100
    graphs, tests = arena_recipe.parts("size")
    assert max(graph.num_nodes for graph in graphs) < max(graph.num_nodes for graph in tests["left out"])
