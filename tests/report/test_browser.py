"""In a real browser the page opens without errors, shows its charts, and reacts to mouse, finger and keys."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gnpool.display.poolings import across
from gnpool.report import page, read_study
from tests.report.browser import PROGRAM, Browser
from tests.report.shared import make_study

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium or Chrome")
SPOKEN = "document.getElementById('handle').getAttribute('aria-valuetext')"
GROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(253, 253, 251)", "rgb(20, 23, 27)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_study(tmp_path_factory.mktemp("study"))
    file = folder / "report.html"
    file.write_text(page(read_study(folder)), encoding="utf-8")
    return file


def numbers(spoken: str) -> tuple[str, str]:
    """The values of p and the growth in the label of the handle."""
    p, growth = (part.replace("\N{MINUS SIGN}", "-") for part in spoken.split(", ")[:2])
    return p.removeprefix("p "), growth.removeprefix("growth ")


def place(browser: Browser, p: float, growth: float) -> tuple[float, float]:
    """Where on the screen a point of the plane is."""
    browser.middle("#plane-svg")
    found: list[float] = browser.run(
        "(() => { const box = JSON.parse(document.getElementById('plane-data').textContent).box;"
        "const frame = document.getElementById('plane-svg').getBoundingClientRect(), scale = frame.width / box.width;"
        f"const x = box.left + {(2 + across(p)) / 4} * (box.width - box.left - box.right);"
        f"const height = box.height - box.top - box.bottom, share = ({growth} - box.low) / (box.high - box.low);"
        "const y = box.height - box.bottom - share * height;"
        "return [frame.left + x * scale, frame.top + y * scale]; })()"
    )
    return found[0], found[1]


@pytest.mark.parametrize(
    "options",
    [{}, {"dark": True}, {"width": 390, "height": 844, "touch": True}, {"width": 320, "height": 600, "touch": True}],
    ids=["wide", "dark", "phone", "narrow"],
)
def test_opens_without_complaint_and_fits(browser: Browser, path: Path, options: dict[str, Any]) -> None:
    browser.open(path, **options)
    assert browser.problems == []
    assert browser.requests == [path.absolute().as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= options.get("width", 1280)  # nothing sticks out
    assert browser.run(GROUND) == (DARK if options.get("dark") else LIGHT)
    assert browser.run("typeof alert_was_called") == "undefined"


def test_a_wide_table_scrolls_by_itself_and_says_so(browser: Browser, path: Path) -> None:
    browser.open(path, width=320, height=600, touch=True)
    wide = "[...document.querySelectorAll('.scroll')].find((e) => e.scrollWidth > e.clientWidth + 20)"
    assert browser.run(f"getComputedStyle({wide}).backgroundAttachment") == "local, local, scroll, scroll"
    assert browser.run(f"(() => {{ const e = {wide}; e.scrollLeft = 30; return e.scrollLeft; }})()") > 0


def test_opens_within_a_second(browser: Browser, path: Path) -> None:
    def seconds() -> float:
        browser.open(path)
        entry = "performance.getEntriesByType('navigation')[0]"
        return float(browser.run(f"{entry}.loadEventEnd - {entry}.startTime")) / 1000

    assert min(seconds() for _ in range(3)) < 1.0
    assert path.stat().st_size < 6_000_000


def test_charts_are_drawn(browser: Browser, path: Path) -> None:
    browser.open(path)
    boxes = browser.run(
        "[...document.querySelectorAll('svg.chart .line')].map((line) => {"
        "const box = line.getBoundingClientRect(); return [box.width, line.getTotalLength()]; })"
    )
    assert len(boxes) == 2 + 2 + 2 + 1
    assert all(width > 50 and length > 50 for width, length in boxes)
    assert browser.run("document.querySelectorAll('#plane-paths .walk').length") == 6  # three seeds, two branches
    assert browser.run("document.querySelectorAll('#bars rect').length") == 6
    assert browser.run("document.querySelector('#growth .pool-line').getTotalLength()") > 50


def test_hover_shows_the_number(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.middle("svg.chart")
    x, y = browser.run(
        "(() => { const dot = [...document.querySelectorAll('svg.chart .series.c0 .dot')][1];"
        "const box = dot.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )
    browser.mouse("mouseMoved", x + 3, y - 2)
    assert browser.run("document.getElementById('tip').textContent") == (
        "GNP, 100 nodes: 2.00 ± 0.20 %, interval 1.80 to 2.20"
    )
    assert browser.run("document.getElementById('tip').hidden") is False
    assert browser.run("document.querySelectorAll('.here').length") == 1
    browser.mouse("mouseMoved", 2, 2)
    assert browser.run("document.getElementById('tip').hidden") is True


def test_charts_answer_to_keys(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.run("document.querySelector('svg.chart').focus()")
    said = "document.getElementById('said').textContent"
    browser.key("ArrowRight")
    assert browser.run(said).startswith("GNP, 50 nodes: 0.00")
    browser.key("ArrowRight")
    assert browser.run(said).startswith("GNP, 100 nodes: 2.00")
    browser.key("ArrowUp")
    assert browser.run(said).startswith("sum,max, 100 nodes: 80.00")
    browser.key("Escape")
    assert browser.run("document.getElementById('tip').hidden") is True


def test_mouse_drags_p_and_the_growth(browser: Browser, path: Path) -> None:
    browser.open(path)
    before = browser.run("document.getElementById('bars').getAttribute('aria-label')")
    browser.drag(place(browser, 1.01, 0.02), place(browser, 4.0, -0.75))
    p, growth = numbers(browser.run(SPOKEN))
    assert float(p) == pytest.approx(4.0, rel=0.06)
    assert float(growth) == pytest.approx(-0.75, abs=0.02)
    assert browser.run("document.getElementById('bars').getAttribute('aria-label')") != before
    browser.mouse("mouseMoved", *place(browser, 1.2, 0.2))  # released: it does not follow
    assert numbers(browser.run(SPOKEN)) == (p, growth)


@pytest.mark.parametrize(
    ("p", "growth", "words", "pooled"),
    [
        (1.0, 1.0, "p 1.00, growth 1.00, this is the sum", sum),
        (1.0, 0.0, "p 1.00, growth 0.00, this is the mean", lambda values: sum(values) / len(values)),
        (float("inf"), 0.0, "p ∞, growth 0.00, this is the max", max),
        (0.0, 0.0, "p 0.00, growth 0.00, this is the geometric mean", statistics.geometric_mean),
    ],
)
def test_names_attract_and_the_pooling_is_right(
    browser: Browser, path: Path, p: float, growth: float, words: str, pooled: Any
) -> None:
    browser.open(path)
    x, y = place(browser, p, growth)
    browser.drag(place(browser, 2.0, -0.5), (x - 2, y + 2))
    assert browser.run(SPOKEN) == words
    label: str = browser.run("document.getElementById('bars').getAttribute('aria-label')")
    values, result = label.removeprefix("Six values, ").split(", pooled to ")
    assert float(result) == pytest.approx(pooled([float(value) for value in values.split(", ")]), abs=0.31)


def test_finger_drags_the_handle(browser: Browser, path: Path) -> None:
    browser.open(path, width=390, height=844, touch=True)
    end = place(browser, 2.0, 0.9)
    browser.swipe(browser.middle("#handle .knob", scroll=False), end)
    p, growth = numbers(browser.run(SPOKEN))
    assert float(p) == pytest.approx(2.0, rel=0.08)
    assert float(growth) == pytest.approx(0.9, abs=0.03)
    assert browser.problems == []


def test_arrow_keys_move_the_handle(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.run("document.querySelector('[data-named=\"0\"]').click()")  # the sum
    browser.run("document.getElementById('handle').focus()")
    assert browser.run("document.activeElement.id") == "handle"
    browser.key("ArrowUp")
    assert numbers(browser.run(SPOKEN)) == ("1.00", "1.02")
    for _ in range(5):
        browser.key("ArrowRight", shift=True)
    assert numbers(browser.run(SPOKEN)) == ("2.00", "1.02")
    browser.key("ArrowDown", shift=True)
    assert numbers(browser.run(SPOKEN)) == ("2.00", "0.92")
    for _ in range(20):
        browser.key("ArrowLeft", shift=True)
    assert numbers(browser.run(SPOKEN)) == ("-0.50", "0.92")  # through p = 0


def test_sliders_and_buttons(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.change("slider-growth", "0.5")
    assert numbers(browser.run(SPOKEN))[1] == "0.50"
    browser.change("slider-p", "-200")
    assert numbers(browser.run(SPOKEN))[0] == "-∞"
    browser.run("document.getElementById('learned').click()")
    assert numbers(browser.run(SPOKEN)) == ("1.01", "0.00")
    before = browser.run("document.getElementById('bars').getAttribute('aria-label')")
    browser.run("document.getElementById('other-values').click()")
    assert browser.run("document.getElementById('bars').getAttribute('aria-label')") != before


def test_another_training_can_be_chosen(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert browser.run("document.querySelectorAll('#walk option').length") == 2
    browser.change("walk", "1", "change")
    assert browser.run("document.querySelectorAll('#plane-paths .walk').length") == 6
    assert browser.problems == []


def test_script_draws_the_walk_that_python_drew(browser: Browser, path: Path) -> None:
    browser.open(path)
    drawn = browser.run("[...document.querySelectorAll('#plane-paths .walk')].map((walk) => walk.getAttribute('d'))")
    text = path.read_text(encoding="utf-8")
    assert len(drawn) == 6
    for line in drawn:
        start = line[: line.index("L")]
        assert f'd="{start}L' in text


def test_theme_switch(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert browser.run("document.getElementById('theme').textContent") == "Dark"
    browser.run("document.getElementById('theme').click()")
    assert browser.run(GROUND) == DARK
    assert browser.run("document.getElementById('theme').getAttribute('aria-label')") == "Switch to light colours"
    browser.run("document.getElementById('theme').click()")
    assert browser.run(GROUND) == LIGHT
    browser.run("localStorage.clear()")


def test_every_control_is_reached_by_tab_and_has_a_name(browser: Browser, path: Path) -> None:
    browser.open(path)
    seen = []
    for _ in range(60):
        browser.key("Tab")
        seen.append(browser.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"theme", "handle", "walk", "slider-p", "slider-growth", "other-values"} <= set(seen)
    unnamed = browser.run(
        "[...document.querySelectorAll('button, select, input, [role=slider], [role=region], svg[role=img]')]"
        ".filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length)))"
        ".map((e) => e.outerHTML)"
    )
    assert unnamed == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_its_ground(browser: Browser, path: Path, theme: str) -> None:
    browser.open(path, dark=theme == "dark")
    colors: dict[str, str] = browser.run(
        "Object.fromEntries('ground ink soft faint c0 c1 c2 c3 better worse other matched'.split(' ')"
        ".map((name) => [name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()]))"
    )

    def luminance(color: str) -> float:
        parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for name, color in colors.items():
        if name != "ground":
            light, dark = sorted((luminance(color), luminance(colors["ground"])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= (4.5 if name != "faint" else 3.0), (name, color)


def test_names_are_not_run(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert browser.run("document.querySelectorAll('main script').length") == 1  # the data of the plane
    labels: list[str] = json.loads(
        browser.run("JSON.stringify([...document.querySelectorAll('th')].map((e) => e.textContent))")
    )
    assert "a <script>alert(1)</script>" in labels


def test_the_policy_holds(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s); })()"
    )
    assert browser.run("window.ran") is None
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_prints(browser: Browser, path: Path, tmp_path: Path) -> None:
    browser.open(path, dark=True)
    data = browser.pdf(tmp_path / "page.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert 2 <= data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") <= 12
