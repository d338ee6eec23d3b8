"""The plane of poolings, with the way that training took; the page's script lets the reader move through it.

Along p the plane is drawn in even steps of 1/p, from -∞ over -1 and 1 to ∞: norms with p between -1 and 1 are not
learned, and so the two halves stand apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnpool.report.grids import number
from gnpool.report.markup import Markup, tag
from gnpool.report.study import Training, thin
from gnpool.report.tables import number_table

# The poolings that have a name; name, p, q, and where the label stands: side and lines up or down.
NAMES = (
    ("sum", 1.0, 0.0, "right", 1),
    ("mean", 1.0, 1.0, "right", 0),
    ("max", math.inf, 0.0, "left", 1),
    ("min", -math.inf, 0.0, "right", 1),
    ("harmonic sum", -1.0, 0.0, "left", -1),
    ("harmonic mean", -1.0, -1.0, "left", 0),
    ("L2 norm", 2.0, 0.0, "right", 1),
    ("root mean square", 2.0, 0.5, "right", 0),
)
SHORT = {"root mean square": "RMS"}
WIDTH, HEIGHT = 520, 400
LEFT, RIGHT, TOP, BOTTOM, GAP = 46, 16, 14, 44, 28
Q_LOW, Q_HIGH = -1.5, 1.5  # shown; ways that leave it are cut off
BRANCHES = (("pos", 1), ("neg", -1))  # name and sign of p
MINUS = "\N{MINUS SIGN}"
PATH_POINTS = 40
AT_ONCE = 8  # seeds that are drawn


@dataclass(frozen=True)
class Walk:
    """p and q of one layer over training.

    Args:
        label (str): What was trained.
        branches (dict): For ``"pos"`` and ``"neg"``, p and q with their signs, (epochs, seeds, 2).
    """

    label: str
    branches: dict[str, NDArray[np.float64]]


def walks(trainings: Sequence[Training]) -> list[Walk]:
    """The ways of all layers of all trainings that kept their exponents."""
    return [walk for training in trainings for walk in _walks_of(training)]


def _walks_of(training: Training) -> Iterator[Walk]:
    for layer in training.layers:
        branches = {}
        for name, sign in BRANCHES:
            prefix = f"{layer}." if layer else ""
            p, q = (training.curves.get(f"{prefix}{letter}_{name}") for letter in "pq")
            if p is not None and q is not None and p.shape == q.shape:
                branches[name] = np.stack([sign * np.abs(p), q], axis=2)[thin(len(p), PATH_POINTS)]
        if branches:
            parts = [training.task, training.data, training.model, layer]
            yield Walk(" · ".join(part for part in parts if part), branches)


def across(p: float) -> float:
    """Where p stands in the drawing."""
    half = (WIDTH - LEFT - RIGHT - GAP) / 2
    middle = LEFT + half + GAP / 2
    share = min(1.0, max(0.0, 1 - 1 / abs(p)))
    return middle + math.copysign(GAP / 2 + share * half, p)


def down(q: float) -> float:
    """Where q stands in the drawing."""
    share = (q - Q_LOW) / (Q_HIGH - Q_LOW)
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


SIDES = ((across(-math.inf), across(-1.0)), (across(1.0), across(math.inf)))


def nearest(p: float, q: float) -> tuple[str, float]:
    """The nearest pooling that has a name, and how far it is; 1/p counts for p.

    Example:
        >>> from gnpool.report.plane import nearest
        >>> nearest(1.02, 0.99)[0], nearest(-30.0, 0.01)[0]
        ('mean', 'min')
    """
    found = {name: math.hypot(1 / p - 1 / at, q - size) for name, at, size, _, _ in NAMES if p * at > 0}
    name = min(found, key=lambda one: found[one])
    return name, found[name]


def plane_svg(first: Walk | None) -> Markup:
    """The plane with its names, the way of one layer, and the handle that the script moves."""
    return tag(
        "svg",
        tag("title", "The plane of poolings: p across, q up"),
        tag("clipPath", *(tag("rect", **box) for box in _fields()), id="fields"),
        _ground(),
        tag("g", *(_path(first) if first is not None else ()), id="plane-paths", clip_path="url(#fields)"),
        _names(),
        _handle(),
        id="plane-svg",
        class_="plane",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="group",
        aria_label="Plane of poolings with a handle for p and q",
    )


def plane_data(found: Sequence[Walk], start: str | None = None) -> dict[str, Any]:
    """What the script needs to draw and to follow the pointer; ``start`` is the pooling that the handle begins at."""
    box = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "gap": GAP}
    return {
        "box": {**box, "low": Q_LOW, "high": Q_HIGH},
        "names": [
            {"name": name, "p": p if math.isfinite(p) else math.copysign(1e9, p), "q": q} for name, p, q, _, _ in NAMES
        ],
        "start": next((k for k, (name, *_) in enumerate(NAMES) if name == start), None),
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
            p, q = (float(value) for value in last.mean(axis=0))
            near, distance = nearest(p, q)
            rows.append(
                [
                    f"{walk.label}, {'p > 0' if name == 'pos' else 'p < 0'}",
                    *(f"{number(m, 2)} ({number(lo, 2)} to {number(hi, 2)})" for m, lo, hi in _spread(last)),
                    near if distance < 0.1 else f"nearest: {near}",
                ]
            )
    head = ["layer and branch", "p: mean (range over seeds)", "q: mean (range over seeds)", "name"]
    return number_table("p and q at the end of training", head, rows)


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
    return tag("details", tag("summary", "Named: what models were crystallised to"), table)


def _spread(values: NDArray[np.float64]) -> list[tuple[float, float, float]]:
    return [
        (float(values[:, k].mean()), float(values[:, k].min()), float(values[:, k].max()))
        for k in range(values.shape[1])
    ]


def _numbers(values: NDArray[np.float64]) -> list[list[float]]:
    """For each seed, p and q in turn; a seed that has a value that is not finite ends before it."""
    found = []
    for seed in range(min(values.shape[1], AT_ONCE)):
        finite = np.isfinite(values[:, seed, 0]) & np.isfinite(values[:, seed, 1])
        length = finite.size if finite.all() else int(finite.argmin())
        found.append([float(f"{value:.4g}") for value in values[:length, seed].reshape(-1)])
    return found


def _fields() -> list[dict[str, float]]:
    height = down(Q_LOW) - down(Q_HIGH)
    return [{"x": low, "y": down(Q_HIGH), "width": high - low, "height": height} for low, high in SIDES]


def _ground() -> Markup:
    left = SIDES[0]
    parts = [tag("rect", **box, class_="field") for box in _fields()]
    for low, high in SIDES:
        parts += [tag("line", x1=low, x2=high, y1=down(q), y2=down(q), class_="grid") for q in (-1.0, 0.0, 1.0)]
    for p in (-math.inf, -3.0, -1.5, -1.0, 1.0, 1.5, 3.0, math.inf):
        at, floor = across(p), down(Q_LOW)
        parts.append(tag("line", x1=at, x2=at, y1=floor, y2=floor + 4, class_="axis"))
        parts.append(tag("text", _signed(p), x=at, y=floor + 17, class_="tick middle"))
    parts += [tag("text", _signed(q), x=left[0] - 9, y=down(q) + 4, class_="tick end") for q in (-1.0, 0.0, 1.0)]
    for sign in (-1.0, 1.0):  # where q = 1/p the result does not grow with the number of elements
        end = across(math.copysign(math.inf, sign))
        parts.append(tag("line", x1=across(sign), y1=down(sign), x2=end, y2=down(0.0), class_="still"))
    width, height = left[1] - left[0], down(-1.0) - down(0.0)
    middle = f"translate({left[0] + width / 2:.0f} {down(-0.5) - 6:.0f})"
    turned = f"{middle} rotate({math.degrees(math.atan2(height, width)):.1f})"
    parts.append(tag("text", "same size for every n", transform=turned, class_="note middle"))
    parts.append(tag("text", "p", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="name middle"))
    parts.append(tag("text", "q", x=12, y=down(0.0) + 4, class_="name middle"))
    return tag("g", *parts, aria_hidden="true")


def _signed(value: float) -> str:
    return f"{value:g}".replace("inf", "∞").replace("-", MINUS)


def _names() -> Markup:
    parts = []
    for name, p, q, side, lines in NAMES:
        a, b = across(p), down(q)
        shift = 9 if side == "right" else -9
        height = b + 4 if lines == 0 else b + 17 if lines > 0 else b - 9
        parts.append(tag("circle", cx=a, cy=b, r=4, class_="named"))
        parts.append(
            tag(
                "text", SHORT.get(name, name), x=a + shift, y=height, class_="label" if side == "right" else "label end"
            )
        )
    return tag("g", *parts, aria_hidden="true")


def _path(walk: Walk) -> Iterator[Markup]:
    for name, values in walk.branches.items():
        kind = "c0" if name == "pos" else "c1"
        parts = []
        for flat in _numbers(values):
            points = [(across(p), down(q)) for p, q in zip(flat[::2], flat[1::2], strict=True)]
            if points:
                parts.append(tag("path", d="M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points), class_="walk"))
                parts.append(tag("circle", cx=points[-1][0], cy=points[-1][1], r=3.2, class_="goal"))
        yield tag("g", *parts, class_=kind)


def _handle() -> Markup:
    at = f"translate({across(1.69):.1f} {down(0.0):.1f})"
    return tag(
        "g",
        tag("circle", r=22, class_="grip"),
        tag("circle", r=8.5, class_="knob"),
        id="handle",
        class_="handle",
        transform=at,
        tabindex=0,
        role="slider",
        aria_label="p and q. Left and right change p, up and down change q, with Shift in larger steps",
        aria_valuemin=-100,
        aria_valuemax=100,
        aria_valuenow=41,
        aria_valuetext="p 1.69, q 0",
    )
