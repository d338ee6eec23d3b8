"""The table of docs/tasks.md is the one that the register gives."""

from __future__ import annotations

from pathlib import Path

from gnpool.tasks import STRUCTURES, distribution_table, get_task, task_names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tasks.md"


def test_the_documented_table_is_generated() -> None:
    assert f"\n\n{distribution_table()}\n\n" in PAGE.read_text(encoding="utf-8")


def test_a_row() -> None:
    head, rule, row = distribution_table([get_task("shortest")]).splitlines()
    assert head == "| task | label | train | validation | test | metric |"
    assert rule == "| --- | --- | --- | --- | --- | --- |"
    assert row == (
        "| `shortest` | distance from the target node, over 3 edges at most "
        "| 5,000 ER, 20 to 39 nodes, lengths U(0, 5) | 1,000 ER, 20 to 39 nodes, lengths U(0, 5) "
        "| 2,500 of each structure, 50 to 69 nodes, lengths U(0, 10) | MAE |"
    )


def test_the_page_names_every_structure_and_reading() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for structure in STRUCTURES:
        assert f"| `{structure}` |" in text
    for name in task_names():
        for reading in get_task(name).readings:
            assert f"`{reading}`" in text
