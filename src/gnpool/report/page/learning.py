"""Learning curves: the validation error over training, a panel for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gnpool.report.page.charts import COLORS, GREY, Series, panel
from gnpool.report.page.markup import Markup, tag
from gnpool.report.page.tables import number_table
from gnpool.report.study import Training, thin

SHOWN = ("metric", "loss")  # the first of these that a training kept
COLORED = 4  # lines with a colour of their own; the others are context
LEAST = 1e-12  # a logarithmic axis has no place for 0


def learning_figures(trainings: Sequence[Training], colors: Mapping[str, int]) -> tuple[list[Markup], list[Markup]]:
    """Figures of the trainings on standard data, and those of the others; ``colors`` are those that models have
    elsewhere on the page.
    """
    panels: dict[tuple[str, str], list[Training]] = {}
    for training in trainings:
        if any(name in training.curves for name in SHOWN):
            panels.setdefault((training.data, training.task), []).append(training)
    plain = [_figure(task, members, colors) for (data, task), members in panels.items() if not data]
    other = [_figure(f"{task}, {data}", members, colors) for (data, task), members in panels.items() if data]
    return plain, other


def _colors(names: Sequence[str], known: Mapping[str, int]) -> list[int]:
    """A colour for each of the first models: its own, or one that no other has; grey for the rest.

    Example:
        >>> from gnpool.report.page.learning import _colors
        >>> _colors(["GNP", "max", "sum", "mean", "min"], {"GNP": 0, "sum": 1, "min": 2})
        [0, 2, 1, 3, -1]
    """
    shown = names[:COLORED]
    free = iter([color for color in range(COLORS) if color not in {known.get(name) for name in shown}])
    found = {name: known[name] if name in known else next(free, GREY) for name in shown}
    return [found.get(name, GREY) for name in names]


def _figure(title: str, members: Sequence[Training], known: Mapping[str, int]) -> Markup:
    name = next(name for name in SHOWN if any(name in training.curves for training in members))
    members = sorted(
        (training for training in members if name in training.curves), key=lambda one: (not one.gnp, _end(one, name))
    )
    colors = _colors([one.model for one in members], known)
    series = [_series(one, name, color) for one, color in zip(members, colors, strict=True)]
    ends = "; ".join(f"{one.model}: {_end(one, name):.3g}" for one in members[:COLORED])
    rest = f"; {len(members) - COLORED} more" if len(members) > COLORED else ""
    drawn = panel(
        title,
        series,
        x_label="epoch",
        y_label=f"validation {'error (%)' if name == 'metric' else 'loss'}",
        x_log=False,
        summary=f"Validation over epochs, lowest values: {ends}{rest}",
    )
    rows = [
        [one.model, *(f"{value:.3g}" for value in (_middle(one, name)[0], _end(one, name), _middle(one, name)[-1]))]
        for one in members
    ]
    numbers = number_table(f"{title}: median over seeds", ["model", "first epoch", "lowest", "last epoch"], rows)
    return tag("figure", tag("figcaption", title), drawn, tag("details", tag("summary", "Numbers"), numbers))


def _middle(training: Training, name: str) -> NDArray[np.float64]:
    """The median over the seeds that have a value, since single epochs go astray; NaN where none has."""
    values = training.curves[name]
    finite = np.isfinite(values)
    rows = finite.any(axis=1)
    found = np.full(len(values), np.nan)
    found[rows] = np.nanmedian(np.where(finite, values, np.nan)[rows], axis=1)
    return found


def _end(training: Training, name: str) -> float:
    mean = _middle(training, name)
    good = mean[np.isfinite(mean)]
    return float(good.min()) if len(good) else float("inf")


def _series(training: Training, name: str, color: int) -> Series:
    values = training.curves[name]
    kept = thin(len(values))
    mean = _middle(training, name)[kept]
    finite = np.where(np.isfinite(values[kept]), values[kept], np.nan)
    there = np.isfinite(mean)
    lows = np.nanmin(np.where(there[:, None], finite, 0.0), axis=1)
    highs = np.nanmax(np.where(there[:, None], finite, 0.0), axis=1)
    epochs = [float(training.epochs[k] if training.epochs is not None else k + 1) for k in kept]
    y = [max(float(value), LEAST) if good else None for value, good in zip(mean, there, strict=True)]
    tips = [f"epoch {epoch:.0f}: {value:.3g}" for epoch, value in zip(epochs, mean, strict=True)]
    if color == GREY:
        return Series(training.model, epochs, y, tips=tips, color=GREY, label=False)
    if values.shape[1] == 1:
        return Series(training.model, epochs, y, tips=tips, color=color)
    low, high = ([max(float(value), LEAST) for value in side] for side in (lows, highs))
    return Series(training.model, epochs, y, low, high, tips, color)
