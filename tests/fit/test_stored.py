"""The page on users' own data shows what ``results/fit`` holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnpool.display.measures import percent
from gnpool.report import page, read_study

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "own-data.md"
FITS = sorted((ROOT / "results" / "fit").glob("*/fit.json"))
LARGEST = 100_000  # bytes


def row_of(name: str, result: dict[str, Any]) -> str:
    """The choice and the best fixed poolings by validation, each with its errors inside the training sizes and on
    larger graphs; then what the most frequent class of the training graphs gets there, and that of the larger graphs.
    """
    chosen = next(model for model in result["models"] if model["chosen"])
    fixed = [model for model in result["models"] if model["label"] not in ("GNP", "GNP*", "law") and model["finished"]]
    best = min(fixed, key=lambda model: model["validation_loss"])
    cells = [name, *(cell for model in (chosen, best) for cell in (model["label"], errors_of(model)))]
    shares = result["class_shares"]["larger"]
    cells += [percent(result["constant"]["larger"]["error"]), percent(1 - max(shares.values()))]
    return f"| {' | '.join(cells)} |"


def errors_of(model: dict[str, Any]) -> str:
    """Inside the training sizes, and on larger graphs."""
    return " / ".join(percent(model[part]["error"]) for part in ("inside", "larger"))


@pytest.mark.parametrize("path", FITS, ids=lambda path: path.parent.name)
def test_the_page_shows_the_stored_fit(path: Path) -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").replace("\n> ", "\n").split())
    result = json.loads(path.read_text(encoding="utf-8"))
    assert row_of(path.parent.name, result) in text
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
