"""Terms that have the same values on the given graphs, and others on larger ones.

Where all sets have 30 elements, 30 times the mean is the sum. The search keeps one of such terms, since the data cannot
tell them apart. Whoever asks for larger graphs must hear of the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gnpool.insight.laws.classes import Rule, rule_of
from gnpool.insight.laws.points import Floats, Ints
from gnpool.insight.laws.search import Candidate, Matrix, fit
from gnpool.insight.laws.space import Level, Sample, Term, values_of
from gnpool.insight.laws.trust import grown, ways_of

FIRST = 5  # candidates, the shortest ones, whose terms are exchanged
MOST_TWINS = 60  # of a term that are looked at, the cheapest
FACTOR = 4  # graphs so much larger show whether two terms part
SAME = 1e-6  # relative difference


def with_twins(
    candidates: Sequence[Candidate], matrix: Matrix, sample: Sample, level: Level, y: Floats
) -> list[Candidate]:
    """The candidates and, of the shortest, all forms with twins in place of their terms; shortest first."""
    first = candidates[:FIRST]
    choices = {k: [k, *parting(matrix, k, sample, level)] for k in {k for one in first for k in one.columns}}
    found = list(candidates)
    for one in first:
        for columns in itertools.product(*(choices[k] for k in one.columns)):
            if columns != one.columns and len(set(columns)) == len(columns):
                chosen = list(columns)
                cost = float(matrix.costs[chosen].sum())
                found.append(fit(matrix.values[:, chosen], y, cost, columns, one.intercept, one.noise))
    return sorted(found, key=lambda candidate: candidate.length)


def rules_with_twins(
    rules: Sequence[Rule], matrix: Matrix, sample: Sample, level: Level, y: Ints, count: int
) -> list[Rule]:
    """The same of rules that cut a single term."""
    single = [one for one in rules[:FIRST] if len(one.columns) == 1]
    others = [k for one in single for k in parting(matrix, one.columns[0], sample, level)]
    return sorted(
        [*rules, *(rule_of(matrix, (k,), (1.0,), 0.0, y, count) for k in others)], key=lambda rule: rule.length
    )


def parting(matrix: Matrix, column: int, sample: Sample, level: Level) -> list[int]:
    """The columns of the twins of a term that part from it, and from each other, on grown graphs."""
    twins = sorted(matrix.twins.get(column, ()), key=lambda term: term.cost(matrix.features))[:MOST_TWINS]
    if not twins:
        return []
    larger = [grown(sample, FACTOR, way) for way in ways_of(sample, level, FACTOR)]
    seen = [_behaviour(matrix.terms[column], sample, larger)]
    found = []
    for term in twins:
        here = _behaviour(term, sample, larger)
        if not any(np.abs(here - other).max() <= SAME * np.abs(other).max() for other in seen):  # NaN parts, too
            seen.append(here)
            found.append(matrix.column(term, values_of(term, sample)[: len(matrix.values)]))
    return found


def _behaviour(term: Term, sample: Sample, larger: Sequence[Sample]) -> Floats:
    """The values on grown graphs, in units of those on the given ones."""
    values = values_of(term, sample)
    size = float(np.linalg.norm(values)) * (1.0 if values.sum() >= 0 else -1.0)
    result: Floats = np.concatenate([values_of(term, graphs) for graphs in larger]) / size
    return result
