"""Line charts as SVG. A chart is complete as it is drawn here; the page's script only adds what the pointer shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnpool.report.page.markup import Markup, tag

WIDTH, HEIGHT = 352, 250  # of a panel, in units that are about pixels
LEFT, TOP, BOTTOM = 44, 12, 38  # more on the left where a label of the y axis is long
LABEL_GAP = 14.0  # between two labels at the ends of lines
LABEL_CHARS = 14
LABEL_WIDTH, TICK_WIDTH = 7.0, 6.4  # of a character, about
COLORS = 6  # classes c0 to c5 of the style sheet; c0 is GNP's
GREY = -1
MARKERS = ("circle", "square", "triangle", "diamond", "down", "cross")


@dataclass(frozen=True)
class Series:
    """A line.

    Args:
        name (str): Its label.
        x (Sequence): Places.
        y (Sequence): Values; None where there is none.
        low, high (Sequence): The band, or nothing.
        tips (Sequence): What the pointer shows at each place.
        color (int): Number of the colour; ``GREY`` for lines that only give context.
        label (bool): Whether the name is written at the end of the line.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    tips: Sequence[str] = ()
    color: int = 0
    label: bool = True


@dataclass(frozen=True)
class Scale:
    """A logarithmic or linear axis from values to places in the drawing."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        share = (self._inner(value) - self._inner(self.low)) / (self._inner(self.high) - self._inner(self.low))
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def _inner(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.log else value


def panel(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    x_log: bool,
    y_log: bool = True,
    x_ticks: Sequence[float] | None = None,
    y_range: tuple[float, float] | None = None,
    limit: float | None = None,
    summary: str,
) -> Markup:
    """One chart as an SVG image that has a text for those who do not see it. Without ``y_log`` it needs a ``y_range``.

    A ``limit`` is drawn as an upright line: the largest size in training.
    """
    xs = [x for one in series for x, value in zip(one.x, one.y, strict=True) if value is not None] or [1.0]
    low, high = y_range or value_range(series)
    right = 18 + LABEL_WIDTH * max([len(short(one.name)) for one in series if one.label], default=0)
    y, y_ticks = Scale(low, high, HEIGHT - BOTTOM, TOP, y_log), (log_ticks if y_log else even_ticks)(low, high)
    left = max([LEFT, *(20 + TICK_WIDTH * len(tick_text(tick)) for tick in y_ticks)])
    x = Scale(min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1, left, WIDTH - right, x_log)
    ticks = x_ticks if x_ticks is not None else even_ticks(x.low, x.high)
    ordered = sorted(series, key=lambda one: (one.color != GREY, -one.color))  # GNP is drawn last, on top
    return tag(
        "svg",
        _axes(x, y, ticks, y_ticks, x_label, y_label),
        None if limit is None or not x.low <= limit <= x.high else _limit(limit, x, y),
        *(_series(one, x, y) for one in ordered),
        *_end_labels(series, x, y),
        class_="chart",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        tabindex=0,
        aria_label=f"{title}. {summary}",
    )


def value_range(series: Sequence[Series]) -> tuple[float, float]:
    """A range for a logarithmic axis that holds every line, and the upper half of every band."""
    values = [v for one in series for v in (*one.y, *one.high) if v is not None and math.isfinite(v) and v > 0]
    if not values:
        return 0.1, 10.0
    low, high = min(values), max(values)
    return (low / 1.25, high * 1.25) if high / low > 1.3 else (low / 2, high * 2)


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two others, evenly spread on a logarithmic axis.

    Example:
        >>> from gnpool.report.page.charts import log_ticks
        >>> log_ticks(0.05, 300), log_ticks(2, 30)
        ([0.1, 1.0, 10.0, 100.0], [2.0, 5.0, 10.0, 20.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**k for k in decades for step in steps]
        inside = [tick for tick in found if low <= tick * (1 + 1e-9) and tick <= high * (1 + 1e-9)]
        if len(inside) <= most:
            break
    every = math.ceil(len(inside) / most)
    return [float(f"{tick:.3g}") for tick in inside[::every]]


def even_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two others, evenly spread.

    Example:
        >>> from gnpool.report.page.charts import even_ticks
        >>> even_ticks(0, 300), even_ticks(0, 2)
        ([0.0, 100.0, 200.0, 300.0], [0.0, 0.5, 1.0, 1.5, 2.0])
    """
    raw = (high - low) / most or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, in the same order, at least ``gap`` apart and inside the limits if they fit.

    Example:
        >>> from gnpool.report.page.charts import apart
        >>> apart([10.0, 12.0, 50.0], 10, 0, 100)
        [6.0, 16.0, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    groups: list[tuple[float, list[int]]] = []  # centre and members of labels that touch
    for k in order:
        centre, members = wanted[k], [k]
        while groups and centre - groups[-1][0] < gap * (len(members) + len(groups[-1][1])) / 2:
            before, others = groups.pop()
            centre = (centre * len(members) + before * len(others)) / (len(members) + len(others))
            members = [*others, *members]
        groups.append((centre, members))
    found = [0.0] * len(wanted)
    for centre, members in groups:
        half = gap * (len(members) - 1) / 2
        centre = min(max(centre, low + half), max(high - half, low + half))
        for place, k in enumerate(members):
            found[k] = centre - half + gap * place
    return found


def tick_text(value: float) -> str:
    """A tick, short.

    Example:
        >>> from gnpool.report.page.charts import tick_text
        >>> tick_text(0.05), tick_text(1000), tick_text(20_000), tick_text(3e6)
        ('0.05', '1,000', '20k', '3M')
    """
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if size <= value < 1e9:
            return f"{value / (1e6 if letter == 'M' else 1e3):g}{letter}"
    return f"{value:,.0f}" if 1000 <= value < 1e4 else f"{value:g}"


def fitting(ticks: Sequence[float], scale: Scale) -> list[tuple[float, float]]:
    """Those ticks that have room for their labels, and their places; the rounder a number, the sooner it is kept."""
    kept: list[tuple[float, float]] = []
    inside = [tick for tick in ticks if scale.low <= tick <= scale.high]
    for tick in sorted(inside, key=lambda tick: (len(f"{tick:.10g}".strip("0.")), -tick)):
        at = scale(tick)
        room = [3.6 * (len(tick_text(tick)) + len(tick_text(other))) + 8 for other, _ in kept]
        if all(abs(at - place) >= width for (_, place), width in zip(kept, room, strict=True)):
            kept.append((tick, at))
    return sorted(kept)


def _axes(x: Scale, y: Scale, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str) -> Markup:
    parts = []
    for tick in y_ticks:
        at = y(tick)
        parts.append(tag("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="grid"))
        parts.append(tag("text", tick_text(tick), x=x.start - 7, y=at + 4, class_="tick end"))
    parts.append(tag("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="axis"))
    for tick, at in fitting(x_ticks, x):
        parts.append(tag("line", x1=at, x2=at, y1=y.start, y2=y.start + 4, class_="axis"))
        parts.append(tag("text", tick_text(tick), x=at, y=y.start + 16, class_="tick middle"))
    parts.append(tag("text", x_label, x=(x.start + x.end) / 2, y=HEIGHT - 5, class_="name middle"))
    parts.append(
        tag("text", y_label, transform=f"translate(11 {(y.start + y.end) / 2:.0f}) rotate(-90)", class_="name middle")
    )
    return tag("g", *parts, aria_hidden="true")


def _limit(limit: float, x: Scale, y: Scale) -> Markup:
    at = x(limit)
    left = at > (x.start + x.end) / 2
    words = tag(
        "text", "largest in training", x=at + (3 if left else -3), y=y.end - 3, class_="tick end" if left else "tick"
    )
    return tag("g", tag("line", x1=at, x2=at, y1=y.start, y2=y.end, class_="limit"), words, aria_hidden="true")


def _series(one: Series, x: Scale, y: Scale) -> Markup:
    kept = [k for k, value in enumerate(one.y) if value is not None and math.isfinite(value)]
    at = {k: (x(one.x[k]), y(float(one.y[k] or 0.0))) for k in kept}
    parts = []
    if len(one.low) and len(kept) > 1:
        upper = [(at[k][0], y(_or(one.high[k], one.y[k]))) for k in kept]
        lower = [(at[k][0], y(_or(one.low[k], one.y[k]))) for k in reversed(kept)]
        parts.append(tag("path", d=_line([*upper, *lower]) + "Z", class_="band"))
    parts.append(tag("path", d=_line([at[k] for k in kept]), class_="line"))
    if one.color != GREY and len(kept) <= 14:
        draw = SHAPES[MARKERS[one.color % len(MARKERS)]]
        parts += [tag("path", d=draw(*at[k]), class_="dot") for k in kept]
    tips = "|".join(one.tips[k].replace("|", " ") for k in kept) if one.tips else None
    kind = "grey" if one.color == GREY else f"c{one.color % COLORS}"
    return tag("g", *parts, class_=f"series {kind}", data_name=one.name, data_tips=tips)


def _or(value: float | None, other: float | None) -> float:
    return float(value if value is not None else other or 0.0)


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points) if points else ""


def _end_labels(series: Sequence[Series], x: Scale, y: Scale) -> list[Markup]:
    labelled = []
    for one in series:
        ends = [k for k, value in enumerate(one.y) if value is not None and math.isfinite(value)]
        if one.label and ends:
            labelled.append((one, x(one.x[ends[-1]]), y(float(one.y[ends[-1]] or 0.0))))
    heights = apart([end for _, _, end in labelled], LABEL_GAP, TOP + 4, HEIGHT - BOTTOM - 4)
    parts = []
    for (one, across, end), height in zip(labelled, heights, strict=True):
        kind = "grey" if one.color == GREY else f"c{one.color % COLORS}"
        leader = _line([(across + 6, end), (x.end + 12, height)]) if abs(end - height) > 3 or across < x.end else None
        parts.append(
            tag(
                "g",
                tag("path", d=leader, class_="leader") if leader else None,
                tag("text", short(one.name), x=x.end + 14, y=height + 4, class_="label"),
                class_=kind,
                aria_hidden="true",
            )
        )
    return parts


def short(name: str) -> str:
    """A name that fits beside a chart."""
    return name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"


def _polygon(points: Sequence[tuple[float, float]]) -> Callable[[float, float], str]:
    return lambda a, b: _line([(a + dx, b + dy) for dx, dy in points]) + "Z"


SHAPES: dict[str, Callable[[float, float], str]] = {
    "circle": lambda a, b: f"M{a - 3.2:.1f},{b:.1f}a3.2,3.2 0 1 0 6.4,0a3.2,3.2 0 1 0 -6.4,0Z",
    "square": _polygon([(-2.9, -2.9), (2.9, -2.9), (2.9, 2.9), (-2.9, 2.9)]),
    "triangle": _polygon([(0, -3.8), (3.6, 2.7), (-3.6, 2.7)]),
    "diamond": _polygon([(0, -4), (4, 0), (0, 4), (-4, 0)]),
    "down": _polygon([(0, 3.8), (3.6, -2.7), (-3.6, -2.7)]),
    "cross": _polygon(
        [(-1.2, -3.6), (1.2, -3.6), (1.2, -1.2), (3.6, -1.2), (3.6, 1.2), (1.2, 1.2), (1.2, 3.6), (-1.2, 3.6)]
        + [(-1.2, 1.2), (-3.6, 1.2), (-3.6, -1.2), (-1.2, -1.2)]
    ),
}
