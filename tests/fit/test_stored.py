"""The page on users' own data shows what ``results/fit`` holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnpool.fit.result import table_rows
from gnpool.report import page, read_study

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "own-data.md"
FITS = sorted((ROOT / "results" / "fit").glob("*/fit.json"))
LARGEST = 100_000  # bytes


def table_of(result: dict[str, Any]) -> str:
    """The competitors that were trained to the end, as Markdown."""
    sizes = [
        f"{result['split'][part]['smallest']} to {result['split'][part]['largest']}" for part in ("inside", "larger")
    ]
    rows = [row for row in table_rows(result) if not row[0].endswith("(first look)")]
    head = ["poolings", "validation loss", *(f"wrong, {size} nodes" for size in sizes)]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *([row[0].replace("<-", "←"), *row[1:]] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@pytest.mark.parametrize("path", FITS, ids=lambda path: path.parent.name)
def test_the_page_shows_the_stored_fit(path: Path) -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").replace("\n> ", "\n").split())
    result = json.loads(path.read_text(encoding="utf-8"))
    assert " ".join(table_of(result).split()) in text
    assert result["answer"]["text"] in text
    meta, versions = result["meta"], result["meta"]["versions"]
    assert f"{path.parent.name}.zip --out" in text
    assert f"seed {meta['seed']}" in text
    assert f"torch {versions['torch'].partition('+')[0]}, PyTorch Geometric {versions['torch-geometric']}" in text


def test_both_are_stored() -> None:
    assert [path.parent.name for path in FITS] == ["NCI1", "PROTEINS"]


@pytest.mark.parametrize("path", FITS, ids=lambda path: path.parent.name)
def test_the_stored_fit_is_small_and_makes_a_page(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    study = read_study(path.parent)
    assert study.trainings[0].model == "GNP"
    assert study.trainings[0].layers == ["aggr", "readout"]
    made = page(study)
    assert '<section id="learning"' in made
    assert 'class="walk"' in made
