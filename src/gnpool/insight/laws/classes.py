"""Laws of classes: one term, or a sum of two, is compared with cuts, and its interval decides the class."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from gnpool.insight.laws.points import Floats, Ints
from gnpool.insight.laws.probes import groups_of, permuted_relation
from gnpool.insight.laws.search import ANOTHER, RANGE, SIGN_AND_NICE, Matrix, pairs_near

SINGLES = 1000  # terms for which cuts are searched, the most related first
PAIRS = 150  # pairs of terms for which cuts are searched
NICE_RATIOS = (1.0, 2.0, 0.5)
STEPS = 25  # steps of Newton's method for the direction of a pair


@dataclass(frozen=True)
class Rule:
    """A law of classes: ``columns`` with ``factors``, the ``cuts`` of their sum, and the class of each interval."""

    columns: tuple[int, ...]
    factors: tuple[float, ...]
    cuts: tuple[float, ...]
    order: tuple[int, ...]
    wrong: int
    length: float

    def score(self, values: Floats) -> Floats:
        """The sum that is compared with the cuts."""
        result: Floats = values[:, list(self.columns)] @ np.array(self.factors)
        return result

    def predict(self, values: Floats) -> Ints:
        """The class of each row."""
        return np.array(self.order)[np.searchsorted(np.array(self.cuts), self.score(values), side="left")]


def search_classes(matrix: Matrix, y: Ints, count: int) -> list[Rule]:
    """Rules by the length of their description, shortest first; ``count`` is the number of classes."""
    related = _related(matrix.values, y, count)
    first = np.argsort(-related)[:SINGLES]
    rules = [rule_of(matrix, (int(k),), (1.0,), 0.0, y, count) for k in first if related[k] > 0]
    if count == 2:
        for columns in pairs_near(matrix, y.astype(np.float64), PAIRS):
            rules += _pair_rules(matrix, columns, y)
    return sorted(rules, key=lambda rule: rule.length)


def anything_of_classes(matrix: Matrix, y: Ints, count: int) -> float:
    """The probability that classes in random order are as strongly related to any term as these are."""
    members = np.stack([(y == k).astype(np.float64) for k in range(count)], axis=1)
    return permuted_relation(matrix.values, members)


def errors_left(rule: Rule, matrix: Matrix, probes: Floats, y: Ints) -> float:
    """The probability that errors at random are as strongly related to any quantity as those of the rule.

    Errors of a wrong rule lie near its cuts, or among large or dense graphs; wrong labels lie anywhere.
    """
    score = rule.score(matrix.values)
    near = np.abs(score[:, None] - np.array(rule.cuts)).min(axis=1)
    columns = np.column_stack([probes, groups_of(np.column_stack([probes, near, score]))])
    return permuted_relation(columns, (rule.predict(matrix.values) != y).astype(np.float64)[:, None])


def constant_length(y: Ints, count: int) -> float:
    """The length of the description that always gives the most frequent class."""
    wrong = len(y) - int(np.bincount(y, minlength=count).max())
    return math.log(count) + _noise_length(wrong, len(y), count)


def _related(values: Floats, y: Ints, count: int) -> Floats:
    """The share of the variance of each column's ranks that the classes explain, between 0 and 1."""
    ranks = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0).astype(np.float64)
    ranks -= ranks.mean(axis=0)
    between = np.zeros(values.shape[1])
    for k in range(count):
        members = y == k
        between += members.sum() * np.square(ranks[members].mean(axis=0)) if members.any() else 0.0
    result: Floats = between / np.square(ranks).sum(axis=0)
    return result


def _pair_rules(matrix: Matrix, columns: tuple[int, int], y: Ints) -> list[Rule]:
    """Rules of a sum of two terms: in the fitted direction, and in simple ones of the same sign."""
    design = matrix.values[:, list(columns)]
    a, b = _direction(design, y)
    if a == 0 or b == 0:
        return []
    fitted = math.log(len(y)) / 2 + RANGE
    sign = math.copysign(1.0, b / a)
    choices = [(abs(b / a) * sign, fitted), *((sign * nice, SIGN_AND_NICE) for nice in NICE_RATIOS)]
    return [rule_of(matrix, columns, (1.0, ratio), price + ANOTHER, y, 2) for ratio, price in choices]


def _direction(design: Floats, y: Ints) -> tuple[float, float]:
    """The direction of a logistic regression, with a little shrinkage so that separable classes have one too."""
    center, scale = design.mean(axis=0), np.maximum(design.std(axis=0), 1e-300)
    rows = np.column_stack([(design - center) / scale, np.ones(len(y))])
    weights = np.zeros(3)
    for _ in range(STEPS):
        share = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        curve = (rows * (share * (1 - share))[:, None]).T @ rows + 1e-4 * np.eye(3)
        weights = weights + np.linalg.solve(curve, rows.T @ (y - share) - 1e-4 * weights)
    a, b = (weights[:2] / scale).tolist()
    return a, b


def rule_of(
    matrix: Matrix, columns: tuple[int, ...], factors: tuple[float, ...], price: float, y: Ints, count: int
) -> Rule:
    """The rule that cuts a sum of terms in the best places; ``price`` is the length of its factors."""
    score = matrix.values[:, list(columns)] @ np.array(factors)
    present = np.unique(y)  # a class that never occurs has no interval
    means = [score[y == k].mean() for k in present]
    order = tuple(int(k) for k in present[np.argsort(means, kind="stable")])
    cuts = tuple(_cut(score, y, low, high) for low, high in itertools.pairwise(order))
    cuts = tuple(np.maximum.accumulate(np.array(cuts)).tolist())
    classes = np.array(order)[np.searchsorted(np.array(cuts), score, side="left")]
    wrong = int((classes != y).sum())
    length = sum(matrix.costs[k] for k in columns) + price + len(cuts) * math.log(len(y)) + math.lgamma(count + 1)
    return Rule(columns, factors, cuts, order, wrong, length + _noise_length(wrong, len(y), count))


def _cut(score: Floats, y: Ints, low: int, high: int) -> float:
    """Where to cut between two classes with the fewest errors; in the middle of the gap, or at a round number in it."""
    ordered, errors = _errors_of_cuts(score, y, low, high)
    places = np.flatnonzero(errors == errors.min())
    return _round_between(*_gap(ordered, int(places[len(places) // 2])))


def with_other_cuts(rule: Rule, matrix: Matrix, y: Ints, count: int, odds: float) -> list[Rule]:
    """The rule with each cut as low, and as high, as a description allows that is at most ``odds`` nats longer."""
    score, found = rule.score(matrix.values), []
    longest = _noise_length(rule.wrong, len(y), count) + odds
    more = next((k for k in range(len(y)) if _noise_length(rule.wrong + k + 1, len(y), count) > longest), 0)
    for number, (low, high) in enumerate(itertools.pairwise(rule.order)):
        ordered, errors = _errors_of_cuts(score, y, low, high)
        places = np.flatnonzero(errors <= errors.min() + more)
        lowest, highest = _gap(ordered, int(places[0]))[0], np.nextafter(_gap(ordered, int(places[-1]))[1], -math.inf)
        for cut in (lowest, float(highest)):
            cuts = np.array(rule.cuts)
            cuts[number] = cut
            found.append(replace(rule, cuts=tuple(np.maximum.accumulate(cuts).tolist())))
    return found


def _errors_of_cuts(score: Floats, y: Ints, low: int, high: int) -> tuple[Floats, Floats]:
    """The scores of two classes in order, and how many errors a cut in front of each, or behind all, makes."""
    of_two = (y == low) | (y == high)
    order = np.argsort(score[of_two], kind="stable")
    ordered, is_low = score[of_two][order], (y[of_two] == low)[order]
    below = np.concatenate([[0], np.cumsum(~is_low)])  # of the higher class, wrongly below
    above = is_low.sum() - np.concatenate([[0], np.cumsum(is_low)])
    errors = (below + above).astype(np.float64)
    errors[1:-1][ordered[1:] == ordered[:-1]] = math.inf
    return ordered, errors


def _gap(ordered: Floats, place: int) -> tuple[float, float]:
    """The scores around a place in their order."""
    left = ordered[place - 1] if place > 0 else ordered[0] - 1.0
    right = ordered[place] if place < len(ordered) else ordered[-1] + 1.0
    return float(left), float(right)


def _round_between(left: float, right: float) -> float:
    """The number with the fewest digits that is at least ``left`` and less than ``right``, near the middle."""
    middle = (left + right) / 2
    if not right > left:
        return left
    exponent = math.ceil(math.log10(right - left)) + 1
    for digits in range(-exponent, 18):
        rounded = round(middle, digits)
        if left <= rounded < right:
            return rounded
    return middle


def _noise_length(wrong: int, n: int, count: int) -> float:
    """The length of saying which items are wrong, and what they are, with a rate that is not known beforehand."""
    rate = math.lgamma(n + 1) + 2 * math.lgamma(0.5) - math.lgamma(wrong + 0.5) - math.lgamma(n - wrong + 0.5)
    return rate + wrong * math.log(max(count - 1, 1))
