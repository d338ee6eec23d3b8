"""The search: every law of one or two terms, ordered by the length of its description.

The description of the targets by a law is the law itself (which terms, by their prior; each fitted number, half the
logarithm of the number of targets) and then what the law leaves unexplained, as normal noise of a size that is fitted
too. Noise has one size for all targets, or a size in proportion to them; both are tried. Nothing else decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gnpool.insight.laws.points import Floats
from gnpool.insight.laws.space import Term

PRECISION = 1e-6  # relative: a few roundings of float32 features and targets
PARTNERS = 600  # terms that are paired with every other one, the best by themselves
KEPT = 400  # candidates whose numbers are fitted exactly
ANOTHER = math.log(4)  # nats for a second term or an intercept: most laws have one term
NICE = (1.0, 2.0, 0.5, 3.0, 4.0, 1 / 3, 0.25)  # factors that are simpler than a number: cheaper than half a logarithm
SIGN_AND_NICE = math.log(2 * len(NICE))
RANGE = math.log(8)  # nats: a fitted number may be anywhere within a few orders of magnitude
COLLINEAR = 1e-9  # a pair whose columns are nearer than this says nothing that one of them does not
NOISES = ("constant", "relative")


@dataclass(frozen=True)
class Candidate:
    """A law with its fitted numbers; ``columns`` are its terms in the matrix, ``length`` is in nats."""

    columns: tuple[int, ...]
    intercept: bool
    noise: str
    coefficients: tuple[float, ...]  # of the terms, then the intercept
    errors: tuple[float, ...]  # standard errors of these
    scatter: float  # standard deviation of the noise: of the target, or of its relative error
    length: float

    @property
    def simple(self) -> bool:
        """Whether it is one term alone, or has simple factors only: then noise cannot have made it up from others."""
        nice = all(factor == nearest_nice(factor) for factor in self.coefficients)
        return not self.intercept and (len(self.columns) == 1 or nice)


def usable(values: Floats, costs: Floats) -> list[int]:
    """The columns that differ from each other, finite ones; of equal ones (up to a factor) that of lowest cost."""
    with np.errstate(all="ignore"):
        size = np.sqrt(np.square(values).mean(axis=0))
        good = np.isfinite(values).all(axis=0) & (size > 0) & np.isfinite(size)
        unit = np.where(good, values / size, 0.0)
    marks = np.random.default_rng(0).standard_normal((2, len(values))) @ unit / math.sqrt(len(values))
    marks = marks * np.where(marks[0] < 0, -1.0, 1.0)
    best: dict[tuple[float, float], int] = {}
    for column in sorted(np.flatnonzero(good).tolist(), key=lambda k: (costs[k], k)):
        best.setdefault((round(marks[0, column], 9), round(marks[1, column], 9)), column)
    return sorted(best.values())


def weights_of(y: Floats, noise: str) -> Floats | None:
    """What residuals are multiplied by so that their noise has one size; None where such noise cannot be."""
    if noise == "constant":
        return np.ones_like(y)
    smallest, usual = np.abs(y).min(), np.abs(y).mean()
    return None if smallest <= 1e-6 * usual else 1 / np.abs(y)


def search(values: Floats, y: Floats, costs: Floats, most_terms: int = 2) -> list[Candidate]:
    """Candidates in the order of their length, shortest first. ``values`` holds a column for each term."""
    found: list[tuple[float, tuple[int, ...], bool, str]] = []
    for noise in NOISES:
        weights = weights_of(y, noise)
        if weights is None:
            continue
        for intercept in (False, True):
            found += _screen(values, y, costs, weights, intercept, noise, most_terms)
    found.sort(key=lambda one: one[0])
    return sorted(
        (fit(values[:, list(columns)], y, float(costs[list(columns)].sum()), columns, intercept, noise)
         for _, columns, intercept, noise in found[:KEPT]),
        key=lambda candidate: candidate.length,
    )  # fmt: skip


def _screen(
    values: Floats, y: Floats, costs: Floats, weights: Floats, intercept: bool, noise: str, most_terms: int
) -> list[tuple[float, tuple[int, ...], bool, str]]:
    """One or two terms by the normal equations: fast, and exact enough to choose what is fitted properly."""
    weighted, target = values * weights[:, None], y * weights
    power = float(np.square(target).sum())
    if intercept:
        one = weights / np.linalg.norm(weights)
        weighted = weighted - np.outer(one, one @ weighted)
        target = target - one * (one @ target)
    norms = np.linalg.norm(weighted, axis=0)
    alive = norms > COLLINEAR * np.linalg.norm(values * weights[:, None], axis=0)
    unit = np.where(alive, weighted / np.where(alive, norms, 1.0), 0.0)
    explained, total = unit.T @ target, float(target @ target)
    shared = len(y) * PRECISION**2 * power / len(y)
    log_weights = float(np.log(weights).sum())

    def length(rest: Floats, numbers: int, cost: Floats) -> Floats:
        scatter = (np.maximum(rest, 0.0) + shared) / len(y)
        result: Floats = len(y) / 2 * np.log(scatter) - log_weights + (numbers + 1) / 2 * math.log(len(y)) + cost
        return result + (numbers - 1) * ANOTHER + numbers * RANGE

    single = length(total - explained**2, 1 + intercept, costs)
    single[~alive] = math.inf
    order = np.argsort(single)
    found: list[tuple[float, tuple[int, ...], bool, str]] = [
        (float(single[k]), (int(k),), intercept, noise) for k in order[:KEPT] if np.isfinite(single[k])
    ]
    if most_terms < 2:
        return found
    first = order[:PARTNERS]
    products = unit[:, first].T @ unit
    rest = 1 - products**2
    with np.errstate(all="ignore"):
        both = (
            explained[first][:, None] ** 2 + explained**2 - 2 * explained[first][:, None] * explained * products
        ) / rest
        lengths = length(total - both, 2 + intercept, costs[first][:, None] + costs)
    lengths[(rest < COLLINEAR) | ~np.isfinite(lengths) | ~alive] = math.inf
    best = np.argpartition(lengths, KEPT, axis=None)[:KEPT] if lengths.size > KEPT else np.arange(lengths.size)
    for place in best.tolist():
        a, b = int(first[place // lengths.shape[1]]), place % lengths.shape[1]
        if np.isfinite(lengths.flat[place]):
            found.append((float(lengths.flat[place]), (min(a, b), max(a, b)), intercept, noise))
    return list({(columns, i, n): (size, columns, i, n) for size, columns, i, n in found}.values())


def fit(values: Floats, y: Floats, cost: float, columns: tuple[int, ...], intercept: bool, noise: str) -> Candidate:
    """The numbers of one law by least squares; simple factors take the place of fitted ones where that is shorter."""
    free = _solve(values, y, intercept, noise)
    numbers = values.shape[1] + intercept
    shared = cost + (numbers - 1) * ANOTHER + math.log(len(y)) / 2
    best = Candidate(columns, intercept, noise, *free, 0.0)
    best = replace(best, length=_left(best, values, y) + shared + numbers * _price_of_a_number(y))
    if intercept:
        return best
    near = tuple(nearest_nice(factor) for factor in best.coefficients)
    for choice in itertools.product(*({factor, nice} for factor, nice in zip(best.coefficients, near, strict=True))):
        simple = [nice for nice, factor in zip(choice, best.coefficients, strict=True) if nice != factor]
        if not simple:
            continue
        tried = _with_factors(best, choice, values, y)
        price = len(simple) * SIGN_AND_NICE + (numbers - len(simple)) * _price_of_a_number(y)
        tried = replace(tried, length=_left(tried, values, y) + shared + price)
        best = min(best, tried, key=lambda candidate: candidate.length)
    return best


def _price_of_a_number(y: Floats) -> float:
    """Half the logarithm of the number of targets says how precise it is, and the rest which range it is from."""
    return math.log(len(y)) / 2 + RANGE


def nearest_nice(factor: float) -> float:
    """The simple factor of the same sign that is nearest in proportion."""
    return math.copysign(min(NICE, key=lambda nice: abs(math.log(nice / max(abs(factor), 1e-300)))), factor)


def _design(values: Floats, intercept: bool) -> Floats:
    return np.column_stack([values, np.ones(len(values))]) if intercept else values


def _solve(
    values: Floats, y: Floats, intercept: bool, noise: str
) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Factors, their standard errors and the scatter; relative noise by weights from the fit itself, without bias."""
    design, weights = _design(values, intercept), weights_of(y, noise)
    assert weights is not None
    for _ in range(3 if noise == "relative" else 1):
        weighted = design * weights[:, None]
        scale = np.linalg.norm(weighted, axis=0)
        solved = np.linalg.lstsq(weighted / scale, y * weights, rcond=None)[0] / scale
        fitted = design @ solved
        if noise == "constant" or np.abs(fitted).min() <= 1e-6 * np.abs(y).mean():
            break
        weights = 1 / np.abs(fitted)
    scatter = _scatter(y, fitted, weights)
    spread = scatter * np.sqrt(np.diag(np.linalg.pinv((weighted / scale).T @ (weighted / scale)))) / scale
    return tuple(solved.tolist()), tuple(spread.tolist()), scatter


def _scatter(y: Floats, fitted: Floats, weights: Floats) -> float:
    shared = PRECISION**2 * float(np.square(y * weights).mean())
    return math.sqrt(float(np.square((y - fitted) * weights).mean()) + shared)


def _fitted_weights(candidate: Candidate, fitted: Floats, y: Floats) -> Floats:
    small = 1e-6 * np.abs(y).mean()
    return np.ones_like(y) if candidate.noise == "constant" else 1 / np.maximum(np.abs(fitted), small)


def _with_factors(candidate: Candidate, factors: tuple[float, ...], values: Floats, y: Floats) -> Candidate:
    fitted = _design(values, candidate.intercept) @ np.array(factors)
    scatter = _scatter(y, fitted, _fitted_weights(candidate, fitted, y))
    return replace(candidate, coefficients=tuple(factors), scatter=scatter)


def _left(candidate: Candidate, values: Floats, y: Floats) -> float:
    """The length of what a law leaves unexplained."""
    fitted = _design(values, candidate.intercept) @ np.array(candidate.coefficients)
    weights = _fitted_weights(candidate, fitted, y)
    return len(y) * math.log(candidate.scatter) - float(np.log(weights).sum())


def residuals(candidate: Candidate, values: Floats, y: Floats) -> tuple[Floats, Floats]:
    """What a law leaves of the targets, in units of its noise; and its weighted design matrix."""
    design = _design(values[:, list(candidate.columns)], candidate.intercept)
    fitted = design @ np.array(candidate.coefficients)
    weights = _fitted_weights(candidate, fitted, y)
    return (y - fitted) * weights / candidate.scatter, design * weights[:, None]


def structure_left(candidate: Candidate, values: Floats, probes: Floats, y: Floats, draws: int = 400) -> float:
    """The probability that pure noise is as strongly related to any probe as what the law leaves is.

    ``probes`` holds a column for each. The residuals' signs are drawn anew for the comparison, so that noise of uneven
    size does no harm. What the law itself can fit is taken out of probes and residuals alike.
    """
    rest, design = residuals(candidate, values, y)
    basis = np.linalg.qr(design)[0]
    with np.errstate(all="ignore"):
        unit = probes / np.sqrt(np.square(probes).mean(axis=0))
    unit = unit[:, np.isfinite(unit).all(axis=0)]
    unit = unit - basis @ (basis.T @ unit)
    norms = np.linalg.norm(unit, axis=0)
    unit = unit[:, norms > 1e-6 * math.sqrt(len(y))] / norms[norms > 1e-6 * math.sqrt(len(y))]
    if unit.shape[1] == 0:
        return 1.0
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(y), draws))
    strongest = np.abs(unit.T @ (rest[:, None] * signs)).max(axis=0)
    seen = float(np.abs(unit.T @ rest).max())
    return (1 + int((strongest >= seen).sum())) / (1 + draws)


def anything(values: Floats, y: Floats, draws: int = 400) -> float:
    """The probability that targets in random order are as strongly related to any term as these are."""
    centred = values - values.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    alive = norms > COLLINEAR * np.linalg.norm(values, axis=0)
    if not alive.any() or np.ptp(y) == 0:
        return 1.0
    unit = centred[:, alive] / norms[alive]
    random = np.random.default_rng(0)
    shuffled = np.stack([random.permutation(y) for _ in range(draws)], axis=1)
    strongest = np.abs(unit.T @ (shuffled - y.mean())).max(axis=0)
    return (1 + int((strongest >= np.abs(unit.T @ (y - y.mean())).max()).sum())) / (1 + draws)


def cost_array(terms: Sequence[Term], features: int) -> Floats:
    """The prices of the terms."""
    return np.array([term.cost(features) for term in terms])
