from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnpool.report.figures import FIGURES, draw_exponents, draw_size, exponent_figure, new_figure, size_figure

pytest.importorskip("matplotlib", reason="figures are an extra")
from matplotlib.image import imread

SIZES = (50, 100, 1000)
MODELS = {"GNP": 1.0, "sum,max": 80.0}
TASKS = ("invsize", "harmonic")


def sizes() -> dict[str, Any]:
    cells = [
        {"row": f"{task}/{model}", "column": str(size), "ours": {"mean": error * size / 50, "std": 0.5}, "paper": None}
        for task in TASKS
        for model, error in MODELS.items()
        for size in SIZES
    ]
    cells[-1]["ours"] = None  # not run
    cells[0]["ours"]["mean"] = 0.0  # has no logarithm
    return {"table": "fig_size", "cells": cells}


def exponents() -> dict[str, Any]:
    up = [[1.7, 1.7], [3.0, 5.0], [20.0, 50.0]]
    flat = [[0.0, 0.0], [0.1, -0.1], [None, 0.0]]
    curves = {"p_pos": up, "p_neg": up, "q_pos": flat, "q_neg": flat}
    places = (
        ("maxdegree", "aggregation"),
        ("maxdegree", "readout"),
        ("mu_post", "readout"),
        ("shortest", "aggregation"),
    )
    return {"table": "fig_pq", "cells": [{"row": row, "column": column, "curves": curves} for row, column in places]}


@pytest.mark.parametrize(("draw", "table"), [(draw_size, sizes()), (draw_exponents, exponents())])
def test_picture(tmp_path: Path, draw: Any, table: dict[str, Any]) -> None:
    folder = tmp_path / "new"
    path = draw(table, folder)
    assert path == folder / f"{table['table']}.png"
    pixels = imread(path)[..., :3]
    height, width, _ = pixels.shape
    assert 400 < height < width
    assert 0.01 < np.mean(pixels.min(axis=2) < 0.9) < 0.6  # drawn upon, and not all over
    assert draw(table, folder).read_bytes() == path.read_bytes()  # equal results, equal files


def test_size_lines_hold_the_means() -> None:
    panels = size_figure(sizes()).axes
    assert [panel.get_title() for panel in panels] == list(TASKS)
    lines = {line.get_label(): line for line in panels[0].lines}
    np.testing.assert_allclose(lines["GNP"].get_ydata(), [0.01, 2.0, 20.0])  # 0 is drawn at the floor
    np.testing.assert_allclose(lines["sum,max"].get_ydata(), [80.0, 160.0, 1600.0])
    np.testing.assert_array_equal(lines["GNP"].get_xdata(), SIZES)
    assert (panels[0].get_xscale(), panels[0].get_yscale()) == ("log", "log")
    assert len({line.get_label(): line for line in panels[1].lines}["sum,max"].get_xdata()) == 2


def test_exponent_lines_hold_the_means() -> None:
    panels = exponent_figure(exponents()).axes
    assert len(panels) == 8
    assert panels[0].get_title() == "maxdegree, aggregation"
    np.testing.assert_allclose(panels[0].lines[0].get_ydata(), [1.7, 4.0, 35.0])
    np.testing.assert_allclose(panels[4].lines[0].get_ydata(), [0.0, 0.0, np.nan])


def test_exponents_of_layers_that_learn_the_growth() -> None:
    table = exponents()
    table["cells"].append(
        {"row": "invsize", "column": "readout", "curves": {"p": [[1.0], [-0.5]], "growth": [[1.0], [-1.0]]}}
    )
    panels = exponent_figure(table).axes
    assert len(panels) == 10
    np.testing.assert_allclose(panels[4].lines[0].get_ydata(), [1.0, -0.5])
    np.testing.assert_allclose(panels[9].lines[0].get_ydata(), [1.0, -1.0])
    np.testing.assert_allclose(panels[5].lines[0].get_ydata(), [0.0, 0.0, np.nan])  # q, as it was learned
    assert panels[4].get_ylim()[0] < -0.5  # p below 0 has a place
    assert panels[5].get_ylabel() == "q or growth"


def test_every_figure_has_a_painter() -> None:
    assert set(FIGURES) == {"fig_size", "fig_pq"}


def test_matplotlib_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"figures need matplotlib; install it with: pip install 'gnpool\[report\]'"):
        new_figure(1.0, 1.0)
