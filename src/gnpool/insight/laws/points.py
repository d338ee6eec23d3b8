"""The points of the plane that laws are made of, and pooling by all of them at once, exactly and in float64."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POWERS = (1.0, math.inf, -math.inf, 2.0, -1.0, 0.0, 3.0)
GROWTHS = (0.0, 1.0, 0.5, -0.5, -1.0)
COMMON = {(1.0, 1.0): "sum", (1.0, 0.0): "mean", (math.inf, 0.0): "max", (-math.inf, 0.0): "min"}
KNOWN = {
    **COMMON,
    (2.0, 0.5): "l2",
    (2.0, 0.0): "rms",
    (0.0, 0.0): "geometric_mean",
    (-1.0, 0.0): "harmonic_mean",
    (-1.0, -1.0): "harmonic_sum",
    (3.0, 0.0): "cubic_mean",
    (3.0, 1 / 3): "l3",
}
MEANS = {1.0: "mean", 2.0: "rms", 3.0: "cubic_mean", 0.0: "geometric_mean", -1.0: "harmonic_mean",
         math.inf: "max", -math.inf: "min"}  # fmt: skip
LATTICE = len(POWERS) * len(GROWTHS) + 1  # the last one is the norm of p = 3, whose growth is 1/3
# Small fractions, which are tried around a good point of the lattice.
FINE_POWERS = tuple(
    sign * size for size in (1 / 3, 1 / 2, 2 / 3, 1.0, 3 / 2, 2.0, 5 / 2, 3.0, 4.0, 5.0) for sign in (1.0, -1.0)
)
FINE_GROWTHS = tuple(sorted({sign * k / d for d in (1, 2, 3, 4) for k in range(2 * d + 1) for sign in (1.0, -1.0)}))


@dataclass(frozen=True)
class Point:
    """A pooling of the lattice, :math:`n^g M_p`. With ``joined`` one element is added first, a 0, or a 1 for p = -1.

    Example:
        >>> from gnpool.insight.laws import Point
        >>> [Point(p, growth).name for p, growth in ((1.0, 1.0), (2.0, 0.0), (float("inf"), 0.0), (1.0, 0.5))]
        ['sum', 'rms', 'max', 'n^(1/2)*mean']
    """

    p: float
    growth: float
    joined: bool = False

    @property
    def name(self) -> str:
        """Its name in a formula: ``sum``, ``rms``, ``n^(1/2)*mean``, ``l4`` or ``mean_p1.5``."""
        if self.joined:
            return "mean_with_0" if self.p == 1.0 else "harmonic_sum_with_1"
        if (self.p, self.growth) in KNOWN:
            return KNOWN[self.p, self.growth]
        if self.p > 0 and math.isclose(self.p * self.growth, 1.0, rel_tol=1e-12):
            return f"l{_fraction(self.p)}"
        mean = MEANS[self.p] if self.p in MEANS else f"mean_p{_fraction(self.p)}"
        return mean if self.growth == 0 else f"n^{_exponent(self.growth)}*{mean}"

    @property
    def common(self) -> bool:
        """Whether it is a point of the lattice, and not a small fraction in between."""
        return self.joined or (self.p in POWERS and self.growth in GROWTHS) or (self.p, self.growth) in KNOWN

    @property
    def cost(self) -> float:
        """Its part of the length of a description, in nats: the negative logarithm of its prior probability.

        The four common poolings have half of the probability, the others that have a name a quarter, and the rest of
        the lattice an eighth. The two poolings with a joined element share half of the last eighth; the other half is
        divided among the means and norms of other powers and all other small fractions.
        """
        if self.joined:
            return math.log(16 * 2)
        if (self.p, self.growth) in COMMON:
            return math.log(2 * len(COMMON))
        if (self.p, self.growth) in KNOWN:
            return math.log(4 * (len(KNOWN) - len(COMMON)))
        if self.common:
            return math.log(8 * (LATTICE - len(KNOWN)))
        if self.growth == 0 or math.isclose(self.p * self.growth, 1.0, rel_tol=1e-12):
            return math.log(32 * 2 * len(FINE_POWERS))
        return math.log(32 * len(FINE_POWERS) * len(FINE_GROWTHS))


def power_of(base: str, exponent: float) -> str:
    """A power as text: ``n``, ``n^2``, ``1/n``, and ``1`` for the power 0."""
    if exponent == 0:
        return "1"
    if exponent == 1:
        return base
    return f"1/{base}" if exponent == -1 else f"{base}^{_exponent(exponent)}"


def _fraction(value: float) -> str:
    near = Fraction(value).limit_denominator(12)
    return str(near) if near.denominator <= 4 else f"{value:g}"


def _exponent(value: float) -> str:
    text = _fraction(value)
    return text if text.isdigit() else f"({text})"


POINTS = (
    *(Point(p, growth) for p in POWERS for growth in GROWTHS),
    Point(3.0, 1 / 3),
    Point(1.0, 0.0, joined=True),
    Point(-1.0, -1.0, joined=True),
)
FINE = tuple(Point(p, growth) for p in (*POWERS, *FINE_POWERS) for growth in FINE_GROWTHS)
FINE = tuple(dict.fromkeys((*POINTS, *FINE, *(Point(p, 1 / p) for p in FINE_POWERS))))


def pool(x: Floats, starts: Ints, points: Iterable[Point]) -> Floats:
    """Pools the rows of ``x`` (N, D), sorted by segment, by each of the points: (S, D, number of points).

    ``starts`` (S + 1) holds the first row of each segment, and N. Sums, maxima and minima keep the sign of the rows. A
    power that the rows do not have (0 or a negative number to the power -1 or 0) gives NaN. An empty segment gives 0.
    """
    points = tuple(points)
    counts = np.diff(starts).astype(np.float64)
    means: dict[float, Floats] = {p: _power_mean(x, starts, counts, p) for p in {point.p for point in points}}
    n = np.maximum(counts, 1.0)[:, None]
    with np.errstate(all="ignore"):
        powers = {growth: n**growth for growth in {point.growth for point in points}}
        columns = []
        for point in points:
            mean = means[point.p]
            if point.joined:
                columns.append(mean * n / (n + 1) if point.p == 1.0 else 1 / (1 + counts[:, None] / mean))
            else:
                columns.append(mean * powers[point.growth])
    return np.stack(columns, axis=-1)


def _power_mean(x: Floats, starts: Ints, counts: Floats, p: float) -> Floats:
    some = counts > 0
    result = np.zeros((len(counts), x.shape[1]))
    if not some.any():
        return result
    first = starts[:-1][some]

    def reduce(operation: np.ufunc, values: Floats) -> Floats:
        reduced: Floats = operation.reduceat(values, first, axis=0)
        return reduced

    n = counts[some][:, None]
    with np.errstate(all="ignore"):
        if math.isinf(p):
            result[some] = reduce(np.maximum if p > 0 else np.minimum, x)
        elif p == 0.0:
            result[some] = np.exp(reduce(np.add, np.log(np.where(x > 0, x, np.nan))) / n)
        elif p < 0:
            result[some] = (reduce(np.add, np.where(x > 0, x, np.nan) ** p) / n) ** (1 / p)
        elif p == 1.0:
            result[some] = reduce(np.add, x) / n
        elif p == 2.0:
            result[some] = np.sqrt(reduce(np.add, np.square(x)) / n)
        elif p == 3.0:
            result[some] = np.cbrt(reduce(np.add, x**3) / n)
        else:
            result[some] = (reduce(np.add, np.where(x >= 0, x, np.nan) ** p) / n) ** (1 / p)
    return result
