"""The search: every law of one or two terms, ordered by the length of its description.

The description of the targets by a law is the law itself (which terms, by their prior; each fitted number, half the
logarithm of the number of targets) and then what the law leaves unexplained, as normal noise of a size that is fitted
too. Noise has one size for all targets, or a size in proportion to them; both are tried. Nothing else decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gnpool.insight.laws.points import Floats
from gnpool.insight.laws.probes import DRAWS, groups_of
from gnpool.insight.laws.space import Term

PRECISION = 1e-6  # relative: a few roundings of float32 features and targets
PARTNERS = 600  # terms that are paired with every other one, the best by themselves
KEPT = 400  # candidates whose numbers are fitted exactly
ANOTHER = math.log(4)  # nats for a second term or an intercept: most laws have one term
NICE = (1.0, 2.0, 0.5, 3.0, 4.0, 1 / 3, 0.25)  # factors that are simpler than a number: cheaper than half a logarithm
SIGN_AND_ONE = math.log(2 * 2)  # nats: half of the simple factors are 1
SIGN_AND_NICE = math.log(2 * 2 * (len(NICE) - 1))  # and the others share the other half
RANGE = math.log(8)  # nats: a fitted number may be anywhere within a few orders of magnitude
COLLINEAR = 1e-9  # a pair whose columns are nearer than this says nothing that one of them does not
MOST_RELATIVE = 0.4
NOISES = ("constant", "relative")


@dataclass
class Matrix:
    """Terms, their values (a column for each, a row for each target) and their prices; it can grow.

    ``twins`` holds, by column, the other terms with the same values up to a factor. They may part on larger graphs.
    """

    terms: list[Term]
    values: Floats
    costs: Floats
    features: int
    twins: dict[int, list[Term]] = field(default_factory=dict)

    @classmethod
    def of(cls, terms: Sequence[Term], values: Floats, features: int) -> Matrix:
        """The terms that differ on the data; of equal ones the cheapest."""
        costs = np.array([term.cost(features) for term in terms])
        groups = sorted(usable(values, costs))
        kept = [group[0] for group in groups]
        twins = {place: [terms[k] for k in group[1:]] for place, group in enumerate(groups) if len(group) > 1}
        return cls([terms[k] for k in kept], values[:, kept], costs[kept], features, twins)

    def column(self, term: Term, values: Floats) -> int:
        """The number of a term; one that is new is added."""
        if term in self.terms:
            return self.terms.index(term)
        self.terms.append(term)
        self.values = np.column_stack([self.values, values])
        self.costs = np.append(self.costs, term.cost(self.features))
        return len(self.terms) - 1


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
    def possible(self) -> bool:
        """Normal noise in proportion to the target is small against it, or the target would change its sign."""
        return self.noise == "constant" or self.scatter <= MOST_RELATIVE

    @property
    def fitted_numbers(self) -> int:
        """How many of its numbers are fitted: the others are simple."""
        return sum(error > 0 for error in self.errors)

    @property
    def form(self) -> tuple[tuple[int, ...], bool]:
        """Which terms, and whether there is a constant."""
        return self.columns, self.intercept


def usable(values: Floats, costs: Floats) -> list[list[int]]:
    """The finite columns in groups of those that are equal up to a factor; that of lowest cost is the first."""
    with np.errstate(all="ignore"):
        size = np.sqrt(np.square(values).mean(axis=0))
        good = np.isfinite(values).all(axis=0) & (size > 0) & np.isfinite(size)
        unit = np.where(good, values / size, 0.0)
    marks = np.random.default_rng(0).standard_normal((2, len(values))) @ unit / math.sqrt(len(values))
    marks = marks * np.where(marks[0] < 0, -1.0, 1.0)
    groups: dict[tuple[float, float], list[int]] = {}
    for column in sorted(np.flatnonzero(good).tolist(), key=lambda k: (costs[k], k)):
        groups.setdefault((round(marks[0, column], 9), round(marks[1, column], 9)), []).append(column)
    return list(groups.values())


def weights_of(y: Floats, noise: str) -> Floats | None:
    """What residuals are multiplied by so that their noise has one size; None where such noise cannot be."""
    if noise == "constant":
        return np.ones_like(y)
    smallest, usual = np.abs(y).min(), np.abs(y).mean()
    return None if smallest <= 1e-6 * usual else 1 / np.abs(y)


def search(values: Floats, y: Floats, costs: Floats) -> list[Candidate]:
    """Candidates in the order of their length, shortest first. ``values`` holds a column for each term."""
    found: list[tuple[float, tuple[int, ...], bool, str]] = []
    for noise in NOISES:
        weights = weights_of(y, noise)
        if weights is None:
            continue
        for intercept in (False, True):
            found += _screen(values, y, costs, weights, intercept, noise)
    found.sort(key=lambda one: one[0])
    fitted = [
        fit(values[:, list(columns)], y, float(costs[list(columns)].sum()), columns, intercept, noise)
        for _, columns, intercept, noise in found[:KEPT]
    ]
    return sorted((one for one in fitted if one.possible), key=lambda candidate: candidate.length)


def _screen(
    values: Floats, y: Floats, costs: Floats, weights: Floats, intercept: bool, noise: str
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
    shared = PRECISION**2 * power
    log_weights = float(np.log(weights).sum())

    def length(rest: Floats, numbers: int, cost: Floats) -> Floats:
        scatter = (np.maximum(rest, 0.0) + shared) / len(y)
        result: Floats = len(y) / 2 * np.log(scatter) - log_weights + (numbers + 1) / 2 * math.log(len(y)) + cost
        if noise == "relative":
            result = np.where(scatter > MOST_RELATIVE**2, math.inf, result)
        return result + (numbers - 1) * ANOTHER + numbers * RANGE

    single = length(total - explained**2, 1 + intercept, costs)
    single[~alive] = math.inf
    order = np.argsort(single)
    found: list[tuple[float, tuple[int, ...], bool, str]] = [
        (float(single[k]), (int(k),), intercept, noise) for k in order[:KEPT] if np.isfinite(single[k])
    ]
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


def screen(values: Floats, costs: Floats, others: Floats, y: Floats, like: Candidate) -> Floats:
    """The length of a law with each of the columns beside the ``others``, in the form of a candidate."""
    weights = weights_of(y, like.noise)
    assert weights is not None
    beside = np.column_stack([others * weights[:, None], *([weights] if like.intercept else [])])
    basis = np.linalg.qr(beside)[0] if beside.shape[1] else np.zeros((len(y), 0))
    with np.errstate(all="ignore"):
        weighted = values * weights[:, None]
        size = np.linalg.norm(weighted, axis=0)
        weighted = weighted - basis @ (basis.T @ weighted)
        norms = np.linalg.norm(weighted, axis=0)
        target = y * weights
        target = target - basis @ (basis.T @ target)
        explained = (weighted.T @ target) / norms
        rest = np.maximum(float(target @ target) - explained**2, 0.0)
        shared = PRECISION**2 * float(np.square(y * weights).sum())
        lengths = len(y) / 2 * np.log((rest + shared) / len(y)) + costs
    lengths[~np.isfinite(lengths) | (norms <= COLLINEAR * size)] = math.inf
    result: Floats = lengths
    return result


def fit(values: Floats, y: Floats, cost: float, columns: tuple[int, ...], intercept: bool, noise: str) -> Candidate:
    """The numbers of one law by least squares; simple factors take the place of fitted ones where that is shorter."""
    return min(with_numbers(values, y, cost, columns, intercept, noise), key=lambda one: one.length)


def fit_simply(
    values: Floats, y: Floats, cost: float, columns: tuple[int, ...], intercept: bool, noise: str, odds: float
) -> Candidate:
    """The same with as few fitted numbers as a description allows that is at most ``odds`` nats longer."""
    found = with_numbers(values, y, cost, columns, intercept, noise)
    shortest = min(one.length for one in found)
    near = [one for one in found if one.length <= shortest + odds]
    return min(near, key=lambda one: (one.fitted_numbers, one.length))


def with_numbers(
    values: Floats, y: Floats, cost: float, columns: tuple[int, ...], intercept: bool, noise: str
) -> list[Candidate]:
    """One law with every choice of which of its factors are simple and which are fitted."""
    design = _design(values, intercept)
    shared = cost + (design.shape[1] - 1) * ANOTHER + math.log(len(y)) / 2
    free = _solve(design, y, noise, {})
    near = {k: nearest_nice(free[0][k]) for k in range(values.shape[1])}
    found = []
    for count in range(len(near) + 1):
        for chosen in itertools.combinations(near, count):
            fixed = {k: near[k] for k in chosen}
            numbers = design.shape[1] - len(fixed)
            solved = free if not fixed else _solve(design, y, noise, fixed)
            tried = Candidate(columns, intercept, noise, *solved, 0.0)
            simple = sum(SIGN_AND_ONE if abs(factor) == 1 else SIGN_AND_NICE for factor in fixed.values())
            price = shared + simple + numbers * _price_of_a_number(y)
            found.append(replace(tried, length=_left(tried, values, y) + price))
    return found


def _price_of_a_number(y: Floats) -> float:
    """Half the logarithm of the number of targets says how precise it is, and the rest which range it is from."""
    return math.log(len(y)) / 2 + RANGE


def nearest_nice(factor: float) -> float:
    """The simple factor of the same sign that is nearest in proportion."""
    return math.copysign(min(NICE, key=lambda nice: abs(math.log(nice / max(abs(factor), 1e-300)))), factor)


def _design(values: Floats, intercept: bool) -> Floats:
    return np.column_stack([values, np.ones(len(values))]) if intercept else values


def _solve(
    design: Floats, y: Floats, noise: str, fixed: dict[int, float]
) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Factors, their standard errors and the scatter; relative noise by weights from the fit itself, without bias.

    ``fixed`` holds factors that stay as they are, by column; their standard error is 0.
    """
    free = [k for k in range(design.shape[1]) if k not in fixed]
    factors, errors = np.zeros(design.shape[1]), np.zeros(design.shape[1])
    for k, factor in fixed.items():
        factors[k] = factor
    rest = y - design @ factors
    weights = weights_of(y, noise)
    assert weights is not None
    for _ in range(3 if noise == "relative" else 1):
        weighted = design[:, free] * weights[:, None]
        scale = np.linalg.norm(weighted, axis=0)
        factors[free] = np.linalg.lstsq(weighted / scale, rest * weights, rcond=None)[0] / scale if free else 0.0
        fitted = design @ factors
        if noise == "constant" or np.abs(fitted).min() <= 1e-6 * np.abs(y).mean():
            break
        weights = 1 / np.abs(fitted)
    scatter = _scatter(y, fitted, weights)
    if free:
        unit = weighted / scale
        errors[free] = scatter * np.sqrt(np.diag(np.linalg.pinv(unit.T @ unit))) / scale
    return tuple(factors.tolist()), tuple(errors.tolist()), scatter


def _scatter(y: Floats, fitted: Floats, weights: Floats) -> float:
    shared = PRECISION**2 * float(np.square(y * weights).mean())
    return math.sqrt(float(np.square((y - fitted) * weights).mean()) + shared)


def _fitted_weights(candidate: Candidate, fitted: Floats, y: Floats) -> Floats:
    small = 1e-6 * np.abs(y).mean()
    return np.ones_like(y) if candidate.noise == "constant" else 1 / np.maximum(np.abs(fitted), small)


def _left(candidate: Candidate, values: Floats, y: Floats) -> float:
    """The length of what a law leaves unexplained."""
    fitted = _design(values, candidate.intercept) @ np.array(candidate.coefficients)
    weights = _fitted_weights(candidate, fitted, y)
    return len(y) * math.log(candidate.scatter) - float(np.log(weights).sum())


def predictions(candidate: Candidate, values: Floats) -> Floats:
    """What a law gives; ``values`` hold a column for each term."""
    result: Floats = _design(values[:, list(candidate.columns)], candidate.intercept) @ np.array(candidate.coefficients)
    return result


def residuals(candidate: Candidate, values: Floats, y: Floats) -> tuple[Floats, Floats]:
    """What a law leaves of the targets, in units of its noise; and its weighted design matrix."""
    design = _design(values, candidate.intercept)
    fitted = design @ np.array(candidate.coefficients)
    weights = _fitted_weights(candidate, fitted, y)
    return (y - fitted) * weights / candidate.scatter, design * weights[:, None]


def structure_left(candidate: Candidate, values: Floats, probes: Floats, terms: Floats, y: Floats) -> float:
    """The probability that pure noise is as strongly related to any quantity as what the law leaves is.

    ``values`` are the law's terms; ``probes`` and ``terms`` hold a column for each quantity. Probes, and what the law
    gives, are also cut into groups of equal size, so that a relation of any form shows. The residuals' signs are drawn
    anew for the comparison: noise of uneven size does no harm. What the law itself can fit is taken out of everything.
    """
    rest, design = residuals(candidate, values, y)
    fitted = _design(values, candidate.intercept) @ np.array(candidate.coefficients)
    weights = _fitted_weights(candidate, fitted, y)[:, None]
    plain = np.concatenate([probes, terms], axis=1)
    groups = groups_of(np.column_stack([probes, fitted]))
    basis = np.linalg.qr(design)[0]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(y), DRAWS))
    strongest, seen = np.zeros(DRAWS), 0.0
    for columns in (plain, plain * weights, groups):
        unit = _unit_outside(columns, basis)
        if unit.shape[1]:
            strongest = np.maximum(strongest, np.abs(unit.T @ (rest[:, None] * signs)).max(axis=0))
            seen = max(seen, float(np.abs(unit.T @ rest).max()))
    return (1 + int((strongest >= seen).sum())) / (1 + DRAWS)


def _unit_outside(columns: Floats, basis: Floats) -> Floats:
    """What a basis leaves of columns, each of norm 1; columns of which it leaves nothing are dropped."""
    with np.errstate(all="ignore"):
        size = np.linalg.norm(columns, axis=0)
        columns = columns[:, np.isfinite(size) & (size > 0)] / size[np.isfinite(size) & (size > 0)]
    columns = columns - basis @ (basis.T @ columns)
    norms = np.linalg.norm(columns, axis=0)
    result: Floats = columns[:, norms > 1e-6] / norms[norms > 1e-6]
    return result


def pairs_near(matrix: Matrix, y: Floats, most: int) -> list[tuple[int, int]]:
    """The pairs of terms that are linearly nearest to targets, with a constant."""
    found = _screen(matrix.values, y, matrix.costs, np.ones_like(y), True, "constant")
    found.sort(key=lambda one: one[0])
    pairs = [columns for _, columns, _, _ in found if len(columns) == 2]
    return [(a, b) for a, b in pairs[:most]]
