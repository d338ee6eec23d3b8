"""The page on users' own data shows what ``results/fit`` holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gnpool.report import page, read_study

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "own-data.md"
FITS = sorted((ROOT / "results" / "fit").glob("*/fit.json"))
LARGEST = 100_000  # bytes


@pytest.mark.parametrize("path", FITS, ids=lambda path: path.parent.name)
def test_the_page_shows_the_stored_fit(path: Path) -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").replace("\n> ", "\n").split())
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["answer"]["text"] in text
    meta, versions = result["meta"], result["meta"]["versions"]
    assert f"{path.parent.name}.zip --out" in text
    assert f"seed {meta['seed']}" in text
    assert f"torch {versions['torch'].partition('+')[0]}, PyTorch Geometric {versions['torch-geometric']}" in text


@pytest.mark.parametrize("path", FITS, ids=lambda path: path.parent.name)
def test_the_stored_fit_is_small_and_makes_a_page(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    study = read_study(path.parent)
    assert study.trainings[0].model == "GNP"
    assert "readout" in study.trainings[0].layers
    made = page(study)
    assert '<section id="learning"' in made
    assert 'class="walk"' in made
