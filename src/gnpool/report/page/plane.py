"""The plane of poolings, with the way that training took; the page's script lets the reader move through it.

The growth goes up and p across: p itself between -1 and 1, and beyond them even steps of 1/p, to -∞ and ∞. What was
learned as q is drawn at the growth 1/p - q.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnpool.display.poolings import NAMES, across, parameter_distance
from gnpool.report.grids import number
from gnpool.report.page.markup import Markup, tag
from gnpool.report.page.tables import number_table
from gnpool.report.study import Training, thin

# Where the label of a name stands: its side, and lines up or down.
SIDES = {
    "sum": ("right", 0),
    "mean": ("left", 1),
    "max": ("left", 1),
    "min": ("right", 1),
    "harmonic sum": ("right", 0),
    "harmonic mean": ("middle", 1),
    "L2 norm": ("right", 0),
    "root mean square": ("middle", -1),
    "geometric mean": ("middle", 1),
}
SHORT = {"root mean square": "RMS"}
WIDTH, HEIGHT = 520, 400
LEFT, RIGHT, TOP, BOTTOM = 46, 22, 14, 44
LOW, HIGH = -1.25, 1.25  # of the growth, shown; ways that leave it are cut off
TICKS = (-math.inf, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, math.inf)
LEVELS = (-1.0, -0.5, 0.0, 0.5, 1.0)
BRANCHES = {"one": ("", 1, "c0"), "pos": ("_pos", 1, "c0"), "neg": ("_neg", -1, "c1")}  # curves, sign of p, colour
WHICH = {"one": "", "pos": ", p > 0", "neg": ", p < 0"}
MINUS = "\N{MINUS SIGN}"
PATH_POINTS = 40
AT_ONCE = 8  # seeds that are drawn


@dataclass(frozen=True)
class Walk:
    """p and the growth of one layer over training.

    Args:
        label (str): What was trained.
        branches (dict): For ``"one"``, or ``"pos"`` and ``"neg"``, p with its sign and the growth, (epochs, seeds, 2).
    """

    label: str
    branches: dict[str, NDArray[np.float64]]


def walks(trainings: Sequence[Training]) -> list[Walk]:
    """The ways of all layers of all trainings that kept their exponents."""
    return [walk for training in trainings for walk in _walks_of(training)]


def _walks_of(training: Training) -> Iterator[Walk]:
    for layer in training.layers:
        branches = {}
        for name, (end, sign, _) in BRANCHES.items():
            prefix = f"{layer}." if layer else ""
            p, q, growth = (training.curves.get(f"{prefix}{kind}{end}") for kind in ("p", "q", "growth"))
            if p is None or (q is None and growth is None):
                continue
            signed = sign * np.abs(p) if end else p
            if growth is None and q is not None and p.shape == q.shape:
                with np.errstate(divide="ignore"):
                    growth = 1 / signed - q
            if growth is not None and growth.shape == p.shape:
                branches[name] = np.stack([signed, growth], axis=2)[thin(len(p), PATH_POINTS)]
        if branches:
            parts = [training.task, training.data, training.model, layer]
            yield Walk(" · ".join(part for part in parts if part), branches)


def x_of(p: float) -> float:
    """Where p stands in the drawing."""
    return LEFT + (2 + across(p)) / 4 * (WIDTH - LEFT - RIGHT)


def y_of(growth: float) -> float:
    """Where a growth stands in the drawing."""
    share = (growth - LOW) / (HIGH - LOW)
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def nearest(p: float, growth: float) -> tuple[str, float]:
    """The nearest pooling that has a name, and how far it is in the drawing's scales.

    Example:
        >>> from gnpool.report.page.plane import nearest
        >>> nearest(1.02, 0.01)[0], nearest(-30.0, 0.01)[0], nearest(0.1, 0.0)[0]
        ('mean', 'min', 'geometric mean')
    """
    found = min(NAMES, key=lambda named: parameter_distance(p, growth, named))
    return found.name, parameter_distance(p, growth, found)


def plane_svg(first: Walk | None) -> Markup:
    """The plane with its names, the way of one layer, and the handle that the script moves."""
    return tag(
        "svg",
        tag("title", "The plane of poolings: p across, growth up"),
        tag("clipPath", tag("rect", **_field()), id="fields"),
        _ground(),
        tag("g", *(_path(first) if first is not None else ()), id="plane-paths", clip_path="url(#fields)"),
        _names(),
        _handle(),
        id="plane-svg",
        class_="plane",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="group",
        aria_label="Plane of poolings with a handle for p and the growth",
    )


def plane_data(found: Sequence[Walk], start: str | None = None) -> dict[str, Any]:
    """What the script needs to draw and to follow the pointer; ``start`` is the pooling that the handle begins at."""
    box = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    return {
        "box": {**box, "low": LOW, "high": HIGH},
        "names": [
            {"name": one.name, "p": one.p if math.isfinite(one.p) else math.copysign(1e9, one.p), "growth": one.growth}
            for one in NAMES
        ],
        "start": next((k for k, named in enumerate(NAMES) if named.name == start), None),
        "walks": [
            {"label": walk.label, **{name: _numbers(values) for name, values in walk.branches.items()}}
            for walk in found
        ],
    }


def ends_table(found: Sequence[Walk]) -> Markup:
    """Where training ended: the plane for those who do not see it."""
    rows = []
    for walk in found:
        for name, values in walk.branches.items():
            last = values[-1][np.isfinite(values[-1]).all(axis=1)]
            if not len(last):
                continue
            p, growth = (float(value) for value in last.mean(axis=0))
            near, distance = nearest(p, growth)
            rows.append(
                [
                    f"{walk.label}{WHICH[name]}",
                    *(f"{number(m, 2)} ({number(lo, 2)} to {number(hi, 2)})" for m, lo, hi in _spread(last)),
                    near if distance < 0.1 else f"nearest: {near}",
                ]
            )
    head = ["layer and branch", "p: mean (range over seeds)", "growth: mean (range over seeds)", "name"]
    return number_table("p and growth at the end of training", head, rows)


def crystals_table(crystals: Mapping[str, Mapping[str, int]]) -> Markup:
    """What models became whose learned poolings were replaced by exact ones."""
    rows = []
    for label, texts in crystals.items():
        ordered = sorted(texts.items(), key=lambda item: -item[1])
        rows.append(
            [label, "; ".join(f"{text} ({count} {'seeds' if count > 1 else 'seed'})" for text, count in ordered)]
        )
    table = number_table(
        "Exact poolings in place of the learned ones, as validation chose them", ["model", "poolings"], rows
    )
    return tag("details", tag("summary", "Named: what models were crystallized to"), table)


def _spread(values: NDArray[np.float64]) -> list[tuple[float, float, float]]:
    return [
        (float(values[:, k].mean()), float(values[:, k].min()), float(values[:, k].max()))
        for k in range(values.shape[1])
    ]


def _numbers(values: NDArray[np.float64]) -> list[list[float]]:
    """For each seed, p and the growth in turn; a seed that has a value that is not finite ends before it."""
    found = []
    for seed in range(min(values.shape[1], AT_ONCE)):
        finite = np.isfinite(values[:, seed, 0]) & np.isfinite(values[:, seed, 1])
        length = finite.size if finite.all() else int(finite.argmin())
        found.append([float(f"{value:.4g}") for value in values[:length, seed].reshape(-1)])
    return found


def _field() -> dict[str, float]:
    left, right = x_of(-math.inf), x_of(math.inf)
    return {"x": left, "y": y_of(HIGH), "width": right - left, "height": y_of(LOW) - y_of(HIGH)}


def _ground() -> Markup:
    left, right, floor = x_of(-math.inf), x_of(math.inf), y_of(LOW)
    parts = [tag("rect", **_field(), class_="field")]
    for level in LEVELS:  # where the growth is 0 the result does not grow with the number of elements
        kind = "grid" if level else "still"
        parts.append(tag("line", x1=left, x2=right, y1=y_of(level), y2=y_of(level), class_=kind))
        parts.append(tag("text", _signed(level), x=left - 9, y=y_of(level) + 4, class_="tick end"))
    for p in TICKS:
        parts.append(tag("line", x1=x_of(p), x2=x_of(p), y1=floor, y2=floor + 4, class_="axis"))
        parts.append(tag("text", _signed(p), x=x_of(p), y=floor + 17, class_="tick middle"))
    parts.append(tag("text", "same size for every n", x=x_of(-0.5), y=y_of(0.0) + 15, class_="note middle"))
    parts.append(tag("text", "p", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="name middle"))
    turned = f"translate(12 {y_of(0.0):.1f}) rotate(-90)"
    parts.append(tag("text", "growth", transform=turned, class_="name middle"))
    return tag("g", *parts, aria_hidden="true")


def _signed(value: float) -> str:
    return f"{value:g}".replace("inf", "∞").replace("0.5", "½").replace("-", MINUS)


def _names() -> Markup:
    parts = []
    for named in NAMES:
        a, b = x_of(named.p), y_of(named.growth)
        side, lines = SIDES[named.name]
        shift, kind = {"right": (8, "label"), "left": (-3, "label end"), "middle": (0, "label middle")}[side]
        height = b + 4 if lines == 0 else b - 9 if lines > 0 else b + 17
        parts.append(tag("circle", cx=a, cy=b, r=4, class_="named"))
        parts.append(tag("text", SHORT.get(named.name, named.name), x=a + shift, y=height, class_=kind))
    return tag("g", *parts, aria_hidden="true")


def _path(walk: Walk) -> Iterator[Markup]:
    for name, values in walk.branches.items():
        kind = BRANCHES[name][2]
        parts = []
        for flat in _numbers(values):
            points = [(x_of(p), y_of(growth)) for p, growth in zip(flat[::2], flat[1::2], strict=True)]
            if points:
                parts.append(tag("path", d="M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points), class_="walk"))
                parts.append(tag("circle", cx=points[-1][0], cy=points[-1][1], r=3.2, class_="goal"))
        yield tag("g", *parts, class_=kind)


def _handle() -> Markup:
    at = f"translate({x_of(1.0):.1f} {y_of(1.0):.1f})"
    return tag(
        "g",
        tag("circle", r=22, class_="grip"),
        tag("circle", r=8.5, class_="knob"),
        id="handle",
        class_="handle",
        transform=at,
        tabindex=0,
        role="slider",
        aria_label="p and growth. Left and right change p, up and down the growth, with Shift in larger steps",
        aria_valuemin=-200,
        aria_valuemax=200,
        aria_valuenow=100,
        aria_valuetext="p 1.00, growth 1.00",
    )
