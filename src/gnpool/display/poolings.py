"""The poolings that have a name, as points of the plane of p and the growth, where they form a lattice."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Named:
    """A pooling with a name; ``rank`` orders names by simplicity, which decides ties.

    Example:
        >>> from gnpool.insight import NAMES
        >>> [(named.name, named.p, named.growth) for named in NAMES[:3]]
        [('sum', 1.0, 1.0), ('mean', 1.0, 0.0), ('max', inf, 0.0)]
    """

    name: str
    p: float
    growth: float
    rank: int

    @property
    def q(self) -> float:
        """The exponent of the size in published coordinates; NaN if p is 0."""
        return published_q(self.p, self.growth)

    def __str__(self) -> str:
        return self.name


def published_q(p: float, growth: float) -> float:
    """q = 1/p - growth; NaN at p = 0, where q has no value.

    Example:
        >>> from gnpool.display.poolings import published_q
        >>> published_q(2.0, 0.5), published_q(0.0, 0.0)
        (0.0, nan)
    """
    return 1 / p - growth if p else math.nan


PLAIN = tuple(
    Named(name, p, growth, rank)
    for rank, (name, p, growth) in enumerate(
        (
            ("sum", 1.0, 1.0),
            ("mean", 1.0, 0.0),
            ("max", math.inf, 0.0),
            ("min", -math.inf, 0.0),
            ("harmonic sum", -1.0, -1.0),
            ("harmonic mean", -1.0, 0.0),
            ("L2 norm", 2.0, 0.5),
            ("root mean square", 2.0, 0.0),
        )
    )
)
# Two poolings that add one element to the set first, and so lie near a point of the plane but not on it. They look like
# an estimate with a prior: sum x / (n + 1), and 1 / (n + 1) for elements of 1. The keys are the names of those points.
JOINED = {
    near: Named(name, p, growth, len(PLAIN) + k)
    for k, (near, name, p, growth) in enumerate(
        (("mean", "mean with a 0", 1.0, 0.0), ("harmonic sum", "harmonic sum with a 1", -1.0, -1.0))
    )
}
# The geometric mean comes last in rank, so that the other ranks stay as they were when the record was made.
NAMES = (*PLAIN, Named("geometric mean", 0.0, 0.0, len(PLAIN) + len(JOINED)))
MEANS = {
    1.0: "mean", 2.0: "root mean square", 3.0: "cubic mean", 0.0: "geometric mean", -1.0: "harmonic mean",
    math.inf: "max", -math.inf: "min",
}  # fmt: skip
"""The name of each power mean, which has growth 0."""
GROWTHS = {1.0: "n", 0.5: "n^(1/2)", -0.5: "n^(-1/2)", -1.0: "n^-1"}
L3 = "L3 norm"


def _lattice() -> tuple[Named, ...]:
    """The points of the lattice of p and the growth that :data:`NAMES` lacks, and the norm of p = 3."""
    known = {(named.p, named.growth) for named in NAMES}
    points = [("cubic mean", 3.0, 0.0), (L3, 3.0, 1 / 3)]
    points += [(f"{power} {mean}", p, growth) for p, mean in MEANS.items() for growth, power in GROWTHS.items()]
    free = [(name, p, growth) for name, p, growth in points if (p, growth) not in known]
    return tuple(Named(name, p, growth, len(NAMES) + len(JOINED) + k) for k, (name, p, growth) in enumerate(free))


# A reading does not use these names; crystals do.
LATTICE = _lattice()
BY_NAME = {named.name: named for named in (*NAMES, *JOINED.values(), *LATTICE)}
BY_POINT = {(named.p, named.growth): named for named in (*NAMES, *LATTICE)}


def adjacent(name: str) -> list[Named]:
    """The points of the lattice one step away: the next p, or the next growth.

    Example:
        >>> from gnpool.display.poolings import adjacent
        >>> [named.name for named in adjacent("L2 norm")]
        ['n^(1/2) mean', 'n^(1/2) cubic mean', 'root mean square', 'n root mean square']
    """
    here = BY_NAME[name]
    powers, growths = sorted(MEANS), sorted([0.0, *GROWTHS])
    if name in {one.name for one in JOINED.values()} or here.growth not in growths:
        return []
    row, column = powers.index(here.p), growths.index(here.growth)
    steps = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    inside = [(r, c) for r, c in steps if 0 <= r < len(powers) and 0 <= c < len(growths)]
    return [BY_POINT[powers[r], growths[c]] for r, c in inside]


def of_branch(branch: str) -> tuple[Named, ...]:
    """The names that a branch can get: those with its sign of p, or all of them for a branch of any sign."""
    return tuple(named for named in NAMES if in_branch(named.p, branch))


def in_branch(p: float, branch: str) -> bool:
    """Whether a branch can have this p: any in the branch ``"one"``, otherwise its sign decides."""
    return branch == "one" or p * (1 if branch == "positive" else -1) > 0


def across(p: float) -> float:
    """p on a scale from -2 to 2: p itself between -1 and 1, and even steps of 1/p beyond.

    Example:
        >>> from gnpool.display.poolings import across
        >>> [across(p) for p in (float("-inf"), -1.0, 0.0, 1.0, 2.0, float("inf"))]
        [-2.0, -1.0, 0.0, 1.0, 1.5, 2.0]
    """
    return p if abs(p) <= 1 else math.copysign(2 - 1 / abs(p), p)


def parameter_distance(p: float, growth: float, named: Named) -> float:
    """The distance of a point from a name, with p on the scale of :func:`across`, on which max and min are finite."""
    return math.hypot(across(p) - across(named.p), growth - named.growth)
