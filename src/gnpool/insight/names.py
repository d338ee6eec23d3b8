"""The poolings that have a name, as points of the (p, q) plane."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Named:
    """A pooling with a name; ``rank`` orders names by how simple they are, for ties."""

    name: str
    p: float
    q: float
    rank: int

    def __str__(self) -> str:
        return self.name


NAMES = tuple(
    Named(name, p, q, rank)
    for rank, (name, p, q) in enumerate(
        (
            ("sum", 1.0, 0.0),
            ("mean", 1.0, 1.0),
            ("max", math.inf, 0.0),
            ("min", -math.inf, 0.0),
            ("harmonic sum", -1.0, 0.0),
            ("harmonic mean", -1.0, -1.0),
            ("L2 norm", 2.0, 0.0),
            ("root mean square", 2.0, 0.5),
        )
    )
)
# Two that are near a point of the plane and not in it: one element joins the set first. They are what an estimate with
# a prior looks like: sum x / (n + 1), and 1 / (n + 1) for elements of 1. By the name that a reading finds near them.
JOINED = {
    near: Named(name, p, q, len(NAMES) + k)
    for k, (near, name, p, q) in enumerate(
        (("mean", "mean with a 0", 1.0, 1.0), ("harmonic sum", "harmonic sum with a 1", -1.0, 0.0))
    )
}
BY_NAME = {named.name: named for named in (*NAMES, *JOINED.values())}


def of_branch(branch: str) -> tuple[Named, ...]:
    """The names that a branch can be: those of its sign of p."""
    sign = 1 if branch == "positive" else -1
    return tuple(named for named in NAMES if named.p * sign > 0)


def parameter_distance(p: float, q: float, named: Named) -> float:
    """How far (p, q) is from a name; 1/p stands for p, so that max and min are not infinitely far."""
    return math.hypot(1 / p - 1 / named.p, q - named.q)
