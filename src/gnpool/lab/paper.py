"""The published numbers, as data."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from gnpool.display.models import MODEL_COLUMN


@functools.cache
def paper_tables() -> dict[str, dict[str, Any]]:
    """Every table of the paper by id: title, metric, unit, labels and cells."""
    text = resources.files("gnpool.lab").joinpath("paper.json").read_text(encoding="utf-8")
    return {table["id"]: table for table in json.loads(text)["tables"]}


@functools.cache
def paper_cells(table: str) -> dict[tuple[str, str], dict[str, float | None]]:
    """The published cells of a table by (row, column); empty for a table that is not in the paper."""
    published = paper_tables().get(table)
    if published is None:
        return {}
    cells = {
        (row["label"], column): cell
        for row in published["rows"]
        for column, cell in zip(published["columns"], row["cells"], strict=True)
    }
    cells |= {(model["label"], MODEL_COLUMN): model for model in published.get("other_models", [])}
    return {place: {"mean": cell["mean"], "std": cell["std"]} for place, cell in cells.items()}
