from __future__ import annotations

import colorsys
import math
import re

import numpy as np
import pytest

from gnpool.display.palette import COLORS
from gnpool.display.poolings import NAMES
from gnpool.report.page.charts import Series, apart, even_ticks, log_ticks, panel, short, value_range
from gnpool.report.page.learning import learning_figures
from gnpool.report.page.page import asset
from gnpool.report.page.plane import SIDES, ends_table, nearest, plane_data, plane_svg, walks, x_of, y_of
from gnpool.report.page.sizes import size_figures, size_lines
from gnpool.report.study import Training
from tests.report.shared import tables


def points(svg: str, name: str) -> list[tuple[float, float]]:
    group = re.search(rf'data-name="{re.escape(name)}".*?</g>', svg)
    assert group is not None
    line = re.search(r'd="M([^"Z]*)" class="line"', group[0])
    assert line is not None
    return [(float(x), float(y)) for x, y in (place.split(",") for place in line[1].split("L"))]


def draw(*series: Series, x_log: bool = False, **options: object) -> str:
    return panel("t", series, x_label="x", y_label="y", x_log=x_log, summary="s", **options)  # type: ignore[arg-type]


def test_lines_are_straight_where_powers_are() -> None:
    svg = draw(Series("a", [1, 10, 100], [1.0, 10.0, 100.0], tips=["1", "2", "3"]), x_log=True)
    (x0, y0), (x1, y1), (x2, y2) = points(svg, "a")
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert y2 < y0  # up
    assert 'data-tips="1|2|3"' in svg


def test_what_is_missing_or_not_finite_is_left_out() -> None:
    svg = draw(Series("a", [1, 2, 3, 4], [1.0, None, math.inf, 2.0], tips=["p", "q", "r", "s"]))
    assert len(points(svg, "a")) == 2
    assert 'data-tips="p|s"' in svg


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0], [None, None], [1e-12, 1e12], [5.0, 5.01]])
def test_odd_values_are_drawn(values: list[float | None]) -> None:
    svg = draw(Series("a", list(range(len(values))), values))
    assert "nan" not in svg
    assert "inf" not in svg


def test_labels_do_not_touch() -> None:
    series = [Series(f"model {k}", [1, 2], [1.0, 1.0 + 0.01 * k], color=k) for k in range(5)]
    svg = draw(*series)
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)" class="label"', svg))
    assert len(heights) == 5
    assert min(np.diff(heights)) >= 13.9


@pytest.mark.parametrize("wanted", [[0.0], [5.0, 5.0, 5.0], [99.0, 98.0, 97.0, 1.0], []])
def test_apart(wanted: list[float]) -> None:
    found = apart(wanted, 10.0, 0.0, 100.0)
    assert sorted(range(len(wanted)), key=lambda k: (wanted[k], found[k])) == sorted(
        range(len(found)), key=lambda k: found[k]
    )
    assert all(b - a >= 10 - 1e-9 for a, b in zip(sorted(found), sorted(found)[1:], strict=False))
    assert all(0 <= place <= 100 for place in found)


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.02), (0.3, 70), (1, 1e9), (99, 101)])
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    found = log_ticks(low, high)
    assert len(found) <= 6
    assert all(low * 0.999 <= tick <= high * 1.001 for tick in found)
    assert len(even_ticks(low, high)) <= 7


@pytest.mark.parametrize(("values", "start"), [([1.0, 50.0], 44.0), ([0.002, 0.05], 52.0)])
def test_long_numbers_have_room_beside_the_name_of_the_axis(values: list[float], start: float) -> None:
    text = panel("t", [Series("GNP", [1.0, 2.0], values)], x_label="x", y_label="y", x_log=False, summary="")
    (line,) = re.findall(r'd="M([\d.]+),[^"]*" class="line"', text)
    assert float(line) == start


def test_gnp_has_one_colour_whatever_else_is_there() -> None:
    cells = [
        {"row": f"/{model}", "column": str(size), "ours": {"mean": 1.0, "std": None}, "gnp": gnp}
        for model, gnp in (("GNP* (sum)", True), ("sum", False), ("GNP", True))
        for size in (1, 2, 3)
    ]
    (figure,) = size_figures(size_lines({"cells": cells}))
    assert re.findall(r'class="series (c\d)" data-name="([^"]*)"', figure)[-1] == ("c0", "GNP")


def test_short_names() -> None:
    assert short("sum,max") == "sum,max"
    assert short("a very long name indeed") == "a very long n…"


def test_a_range_holds_bands() -> None:
    low, high = value_range([Series("a", [1, 2], [1.0, 2.0], [0.1, 0.1], [9.0, 30.0])])
    assert low < 1.0
    assert high > 30.0
    assert value_range([]) == (0.1, 10.0)


def test_sizes() -> None:
    lines = size_lines(tables()[1])
    assert [(line.task[:7], line.model, sorted(line.cells)) for line in lines[:2]] == [
        ("invsize", "GNP", [50, 100, 1000]),
        ("invsize", "sum,max", [50, 100, 1000]),
    ]
    assert size_lines(tables()[0]) == []
    first, second = size_figures(lines)
    assert len(points(first, "GNP")) == 3
    assert len(points(second, "sum,max")) == 2  # the largest was not run
    assert "1,000 nodes: 20.00 ± 2.00 %, interval 18.00 to 22.00" in first
    assert "<td>20.00 ± 2.00</td>" in first


def test_learning_curves() -> None:
    values = np.array([[10.0, 30.0, 20.0], [1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [4.0, 4.0, np.inf]])
    gnp = Training("harmonic", "", "gnp", curves={"metric": values, "readout.p_pos": values})
    others = [Training("harmonic", "", f"m{k}", curves={"metric": values + k}) for k in range(6)]
    (figure,), other = learning_figures(
        [*others, gnp, Training("harmonic", "tree", "gnp", curves={"loss": values})], {"m1": 5}
    )
    assert len(other) == 1
    assert "validation loss" in other[0]
    assert len(points(figure, "gnp")) == 3  # an epoch without any value is left out
    assert figure.count('class="series grey"') == 3  # those beyond the first four
    assert "epoch 1: 20|epoch 2: 2|epoch 4: 4" in figure
    assert re.search(r'class="series c5" data-name="m1"', figure)  # its colour elsewhere on the page


def test_every_name_has_a_place_for_its_label() -> None:
    assert list(SIDES) == [named.name for named in NAMES]


def hue(color: str) -> float:
    """Where a colour stands on the wheel, from 0 to 1."""
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return colorsys.rgb_to_hsv(red, green, blue)[0]


def test_the_page_has_the_colours_of_pictures() -> None:
    """Lighter or darker as the theme wants it: light, dark by the system, dark by choice, and paper."""
    for number, color in enumerate(COLORS):
        found = re.findall(rf"--c{number}: (#[0-9a-f]{{6}});", asset("page.css"))
        assert len(found) == 4
        assert [hue(one) for one in found] == pytest.approx([hue(color)] * 4, abs=0.02)


def test_the_plane_runs_from_minus_to_plus_infinity() -> None:
    places = [x_of(p) for p in (-math.inf, -50.0, -2.0, -1.0, -0.3, 0.0, 0.5, 1.0, 1.5, 3.0, math.inf)]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    assert x_of(2.0) - x_of(1.0) == pytest.approx(x_of(math.inf) - x_of(2.0))  # even steps of 1/p
    assert x_of(1.0) - x_of(0.0) == pytest.approx(x_of(0.0) - x_of(-1.0))  # and of p
    assert y_of(1.0) < y_of(0.0) < y_of(-1.0)


def test_labels_stand_apart() -> None:
    """No name of the plane is written over another, or over another's point."""
    svg = plane_svg(None)
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="label ?(\w*)">([^<]+)</text>', svg)
    boxes = []
    for x, y, kind, words in found:
        width = 7.0 * len(words)  # of 12 pixels, generously
        left = float(x) - {"": 0.0, "end": width, "middle": width / 2}[kind]
        boxes.append((left, left + width, float(y) - 11, float(y) + 3))
    assert len(boxes) == len(NAMES)
    for k, (left, right, top, floor) in enumerate(boxes):
        for other in boxes[:k]:
            assert right <= other[0] or other[1] <= left or floor <= other[2] or other[3] <= top
        for named in NAMES:
            inside = left < x_of(named.p) < right and top < y_of(named.growth) < floor
            assert not inside


def walk() -> Training:
    epochs = np.arange(1.0, 202.0)[:, None] * np.ones(2)
    curves = {
        "a.readout.p_pos": 1 + 1 / epochs,
        "a.readout.q_pos": 1 - 1 / epochs,
        "a.readout.p_neg": epochs.copy(),
        "a.readout.q_neg": 0 * epochs,
        "loss": epochs,
    }
    curves["a.readout.p_neg"][100:, 1] = np.nan
    return Training("harmonic", "", "gnp", curves=curves)


def test_walks() -> None:
    (found,) = walks([walk(), Training("x", "", "sum", curves={"loss": np.ones((3, 1))})])
    assert found.label == "harmonic · gnp · a.readout"
    assert (plane_data([], "max")["start"], plane_data([], "learned")["start"]) == (2, None)
    data = plane_data([found])["walks"][0]
    assert len(data["pos"]) == 2
    assert data["pos"][0][:2] == [2.0, 0.5]  # q = 0 there
    assert data["pos"][0][-2:] == pytest.approx([1.005, 0.0], abs=1e-3)
    assert data["neg"][0][:2] == [-1.0, -1.0]
    assert len(data["neg"][1]) < len(data["neg"][0])  # ends where it is not finite any more
    svg = plane_svg(found)
    assert svg.count('class="walk"') == 4
    table = ends_table([found])
    assert "harmonic · gnp · a.readout, p &gt; 0" in table
    assert "<td>mean</td>" in table
    assert "<td>min</td>" in table


def test_walks_of_layers_that_learn_the_growth() -> None:
    epochs = np.arange(1.0, 102.0)[:, None] * np.ones(3)
    one = {"aggr.p": 1 - 2 * epochs / 101, "aggr.growth": epochs / 101, "loss": epochs}
    two = {"p_pos": 1 + epochs, "growth_pos": 0 * epochs, "p_neg": epochs, "growth_neg": -epochs / 101}
    first, second = walks([Training("a", "", "gnpg", curves=one), Training("b", "", "gnp", curves=two)])
    assert (first.label, second.label) == ("a · gnpg · aggr", "b · gnp")
    data = plane_data([first, second])["walks"]
    assert set(data[0]) == {"label", "one"}
    assert data[0]["one"][2][-2:] == [-1.0, 1.0]  # as it was learned, through p = 0
    assert data[1]["pos"][0][-2:] == [102.0, 0.0]
    assert data[1]["neg"][0][-2:] == [-101.0, -1.0]
    assert plane_svg(first).count('class="walk"') == 3
    table = ends_table([first, second])
    assert '<th scope="row">a · gnpg · aggr</th>' in table
    assert "b · gnp, p &gt; 0" in table


@pytest.mark.parametrize(
    ("p", "growth", "name"),
    [
        (1.0, 0.9, "sum"),
        (300.0, 0.0, "max"),
        (-300.0, 0.0, "min"),
        (1.9, 0.1, "root mean square"),
        (-1.1, 0.1, "harmonic mean"),
        (-0.3, 0.1, "geometric mean"),
    ],
)
def test_nearest(p: float, growth: float, name: str) -> None:
    assert nearest(p, growth)[0] == name
