"""The curves of a training, small enough for JSON: losses and exponents over the epochs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from gnpool.training import Fit

POINTS = 100  # at most this many epochs are kept
DIGITS = 5
LOSSES = ("train", "loss")  # the second is the validation loss


def training_curves(fit: Fit, points: int = POINTS) -> dict[str, Any]:
    r"""Losses and exponents over the epochs, of all runs with the setting of the best run.

    Args:
        fit (Fit): The result of :func:`gnpool.fit_many`.
        points (int, optional): At most this many epochs are kept, always with the first and the last.

    Returns:
        dict: ``seeds``; ``losses``: the number of each kept ``epoch``, from 1, and a list for each seed of the training
        loss ``train`` and the validation loss ``loss``; ``exponents``: the same of every p and growth, or p and q, by
        layer and branch (``readout.p``, ``readout.growth``; ``readout.p_pos``, ``readout.q_pos``, ...), where epoch 0
        is the state before training. Exponents per channel are averaged, None is a value that is not finite. Without a
        GNP layer there are no exponents.
    """
    runs = fit.runs_of(fit.best().setting)
    numbers = [run.number for run in runs]
    losses = {name: fit.curve(name)[:, numbers] for name in LOSSES}
    exponents = {name: _mean(fit.curve(name)[:, numbers]) for name in fit.watched}
    found = {"seeds": [run.seed for run in runs], "losses": _thinned(losses, 1, points)}
    return {**found, "exponents": _thinned(exponents, 0, points)} if exponents else found


def _mean(values: Tensor) -> Tensor:
    return values.double().flatten(2).mean(2) if values.dim() > 2 else values.double()


def _thinned(curves: dict[str, Tensor], first: int, points: int) -> dict[str, Any]:
    length = len(next(iter(curves.values())))
    kept = np.unique(np.linspace(0, length - 1, min(length, points)).round().astype(np.int64)).tolist()
    rows = {name: [[_short(v) for v in seed] for seed in values[kept].T.tolist()] for name, values in curves.items()}
    return {"epoch": [first + k for k in kept], **rows}


def _short(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
