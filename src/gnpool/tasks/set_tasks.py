"""Tasks with one label per set of numbers: estimates of the distribution that the elements come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from gnpool.tasks.losses import mape, mean_nll, squared_error, variance_nll
from gnpool.tasks.streams import Floats, Stream
from gnpool.tasks.task import PerItem, Request, Task, register

KNOWN_MEAN = 5.0  # the mean of the elements of sigma2_map
ALPHA, BETA = 1.0, 15.0  # parameters of the prior of its variance


@dataclass(frozen=True, kw_only=True)
class SetTask(Task):
    r"""A task with one label per set of numbers.

    Args:
        draw (callable): ``draw(n, reading, stream)`` returns n elements.
        label (callable): ``label(elements)`` returns the label of (n,) elements.
        statistics (callable, optional): ``statistics(elements)`` returns the numbers that the loss needs beside the
            label, by their names in the batch. (default: ``None``)
        **rest: See :class:`Task`; all but ``name`` and ``target`` default to what the paper's set tasks share.

    Example:
        >>> from gnpool.tasks import SetTask
        >>> def draw(n, reading, stream):
        ...     return stream.uniform(n)
        >>> task = SetTask(name="my_max", target="max", draw=draw, label=lambda elements: elements.max())
        >>> for split in ("train", "test"):
        ...     (one,) = task.dataset(split, count=1)
        ...     print(len(one.x), bool(one.x.max() == one.y))
        37 True
        79 True
    """

    level: ClassVar[Literal["set"]] = "set"
    options: ClassVar[tuple[str, ...]] = ()

    draw: Callable[[int, str | None, Stream], Floats]
    label: Callable[[Floats], float]
    statistics: Callable[[Floats], dict[str, float]] | None = None
    loss: PerItem = squared_error
    metric: PerItem = mape
    sizes: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: {"train": (20, 40), "val": (20, 40), "test": (50, 100)}
    )
    counts: Mapping[str, int] = field(default_factory=lambda: {"train": 4000, "val": 500, "test": 500})
    epochs: int = 300
    batch_size: int = 64

    def examples(self, request: Request) -> Iterator[dict[str, Any]]:
        stream = request.stream("elements")
        for _ in range(request.count):
            elements = self.draw(stream.integer(*request.sizes), request.reading, stream)
            # Labels belong to the elements in single precision, since networks see them so.
            elements = elements.astype(np.float32).astype(np.float64)
            statistics = {} if self.statistics is None else self.statistics(elements)
            yield {
                "x": elements[:, None],
                "y": [self.label(elements)],
                **{name: [value] for name, value in statistics.items()},
            }


def unknown_mean(n: int, _: str | None, stream: Stream) -> Floats:
    """n elements of N(m, 1) with m of N(0, 1)."""
    normal = stream.normal(n + 1)
    return normal[0] + normal[1:]


def unknown_variance(n: int, reading: str | None, stream: Stream) -> Floats:
    r"""n elements of N(5, s).

    The paper says "sigma of InvGamma(1, 15)". Taken literally this does not fit its numbers: sigma would span orders of
    magnitude, and GNP, which is of degree 1, cannot square it. There are four readings. ``"gamma"`` draws s from
    Gamma(1) at rate 15, which fits all numbers. ``"swapped"`` is s = 1 / Gamma(15), ``"literal_sigma"`` is
    :math:`\sqrt{s}` = 15 / Exp(1), and ``"literal_sigma2"`` is s = 15 / Exp(1).
    """
    if reading == "swapped":
        sigma = math.sqrt(1.0 / stream.gamma(int(BETA)))
    elif reading == "gamma":
        sigma = math.sqrt(stream.gamma(int(ALPHA)) / BETA)
    else:
        inverse_gamma = BETA / stream.gamma(int(ALPHA))
        sigma = inverse_gamma if reading == "literal_sigma" else math.sqrt(inverse_gamma)
    return KNOWN_MEAN + sigma * stream.normal(n)


def posterior_mean(elements: Floats) -> float:
    """Posterior mean, which is the MAP estimate too, of the mean of N(m, 1) with the prior N(0, 1)."""
    return float(elements.sum() / (elements.size + 1))


def posterior_variance(elements: Floats) -> float:
    """Posterior variance of that mean."""
    return 1.0 / (elements.size + 1)


def map_variance(elements: Floats) -> float:
    """MAP estimate of the variance of N(5, s) with an inverse gamma prior of parameters 1 and 15."""
    return (BETA + 0.5 * float(np.square(elements - KNOWN_MEAN).sum())) / (ALPHA + 0.5 * elements.size + 1.0)


def posterior_precision(elements: Floats) -> dict[str, float]:
    """The statistics for :func:`mean_nll`: one over the posterior variance."""
    return {"precision": elements.size + 1.0}


def map_concentration(elements: Floats) -> dict[str, float]:
    """The statistics for :func:`variance_nll`: the power of 1/s in the posterior density."""
    return {"concentration": ALPHA + 0.5 * elements.size + 1.0}


register(
    SetTask(
        name="mu_post",
        target="posterior mean, sum(x) / (n + 1)",
        draw=unknown_mean,
        label=posterior_mean,
        readout="mean",
    )
)
register(
    SetTask(
        name="sigma2_post",
        target="posterior variance, 1 / (n + 1)",
        draw=unknown_mean,
        label=posterior_variance,
        readout="harmonic",
    )
)
register(
    SetTask(
        name="mu_map",
        target="MAP mean, sum(x) / (n + 1)",
        draw=unknown_mean,
        label=posterior_mean,
        statistics=posterior_precision,
        loss=mean_nll,
        readout="mean",
    )
)
register(
    SetTask(
        name="sigma2_map",
        target="MAP variance, (15 + sum((x - 5)²) / 2) / (n/2 + 2)",
        draw=unknown_variance,
        label=map_variance,
        statistics=map_concentration,
        loss=variance_nll,
        readout="harmonic",
        readings=("gamma", "swapped", "literal_sigma", "literal_sigma2"),
    )
)
