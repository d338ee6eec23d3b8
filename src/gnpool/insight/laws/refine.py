"""Tries small fractions of p and the growth near good candidates, one pooling at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gnpool.insight.laws.points import FINE, Floats
from gnpool.insight.laws.search import Candidate, Matrix, fit, screen
from gnpool.insight.laws.space import Sample, Term, values_at

SINGLE, PAIRS = 4, 4  # candidates whose neighbourhood is searched
ROUNDS = 3
TRIED = 3  # of the points tried for a pooling, this many are fitted exactly


def refined(candidates: Sequence[Candidate], matrix: Matrix, sample: Sample, y: Floats) -> list[Candidate]:
    """The candidates, and better ones near the best of them, ordered by length.

    For the last hop and the readout of each term, all points with small fractions are tried while the rest stays. The
    best of them replaces the pooling if the description gets shorter. New terms are added to the matrix.
    """
    found = list(candidates)
    for start in _starts(candidates, matrix):
        best = start
        for _ in range(ROUNDS):
            improved = _improved(best, matrix, sample, y)
            if improved is best:
                break
            best = improved
        if best is not start:
            found += [best, *_shorter(best, matrix, y)]
    unique = {(one.columns, one.intercept, one.noise): one for one in found}
    return sorted((one for one in unique.values() if one.possible), key=lambda candidate: candidate.length)


def _starts(candidates: Sequence[Candidate], matrix: Matrix) -> list[Candidate]:
    """The best candidate of each shape, where a shape is the features, depths, neighbourhoods and number of terms."""
    kept: dict[object, Candidate] = {}
    for one in candidates:
        shape = tuple(_shape(matrix.terms[k]) for k in one.columns)
        kept.setdefault(shape, one)
    ones = [one for one in kept.values() if len(one.columns) == 1][:SINGLE]
    return ones + [one for one in kept.values() if len(one.columns) > 1][:PAIRS]


def _shape(term: Term) -> tuple[object, ...]:
    return (term.feature, len(term.poolings), term.closed)


def _improved(candidate: Candidate, matrix: Matrix, sample: Sample, y: Floats) -> Candidate:
    """The candidate itself, or a shorter one that differs in one pooling."""
    best = candidate
    for number, column in enumerate(candidate.columns):
        term = matrix.terms[column]
        others = candidate.columns[:number] + candidate.columns[number + 1 :]
        # trying the poolings further inside costs too much
        for place in range(max(0, term.hops - 1), len(term.poolings)):
            values = values_at(term, place, FINE, sample)[: len(y)]
            near = [
                replace(term, poolings=(*term.poolings[:place], point, *term.poolings[place + 1 :])) for point in FINE
            ]
            costs = np.array([one.cost(matrix.features) for one in near])
            lengths = screen(values, costs, matrix.values[:, list(others)], y, candidate)
            for k in np.argsort(lengths)[:TRIED].tolist():
                if not np.isfinite(lengths[k]):
                    continue
                tried = _fitted(near[k], values[:, k], others, matrix, y, candidate)
                best = min(best, tried, key=lambda one: one.length) if tried.possible else best
    return best


def _shorter(candidate: Candidate, matrix: Matrix, y: Floats) -> list[Candidate]:
    """The candidate without its constant, and each of its terms alone, since a better pooling may need no help."""
    forms = [(candidate.columns, False), *(((k,), False) for k in candidate.columns)]
    return [_of_columns(columns, intercept, matrix, y, candidate.noise) for columns, intercept in dict.fromkeys(forms)]


def _fitted(
    term: Term, values: Floats, others: tuple[int, ...], matrix: Matrix, y: Floats, like: Candidate
) -> Candidate:
    return _of_columns((*others, matrix.column(term, values)), like.intercept, matrix, y, like.noise)


def _of_columns(columns: tuple[int, ...], intercept: bool, matrix: Matrix, y: Floats, noise: str) -> Candidate:
    cost = float(sum(matrix.costs[k] for k in columns))
    return fit(matrix.values[:, list(columns)], y, cost, columns, intercept, noise)
