r"""``find_law`` finds the formula behind targets without training, or states that there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch_geometric.data import Data

from gnpool.insight.laws.classes import (
    Rule,
    anything_of_classes,
    constant_length,
    errors_left,
    search_classes,
    with_other_cuts,
)
from gnpool.insight.laws.law import Law
from gnpool.insight.laws.points import Floats
from gnpool.insight.laws.probes import permuted_relation, probes_of
from gnpool.insight.laws.refine import refined
from gnpool.insight.laws.search import Candidate, Matrix, fit, fit_simply, predictions, search, structure_left
from gnpool.insight.laws.space import Level, Sample, level_of, terms_and_values, values_of
from gnpool.insight.laws.trust import FACTORS, Trust, certify, is_single, largest_of
from gnpool.insight.laws.twins import rules_with_twins, with_twins

VERSION = 3  # version of the finder; it rises when the outcomes change, so that studies do not mix them
# targets that the search uses at most; the final numbers are fitted to all targets
ROWS = {"graph": 1000, "set": 1000, "node": 3000}
LEAST = 30  # with fewer targets than this, nothing can be concluded
CHANCE = 0.01  # the probability with which a true law may be called approximate
NOTHING = 0.002  # the probability with which pure noise may pass as related to a term
EXACT = 1e-5  # relative scatter below which a law leaves nothing to explain
RIVALS = 7.0  # nats; a candidate that is this much longer has odds of 1 to 1,000
MOST_RIVALS = 40
TOLERANCE = 0.01  # relative difference between rivals up to which a size is trusted
PARTED = 0.01  # two formulas are different answers if they differ by more than this, relatively, at larger sizes
NEAR = 1.5  # if there is no law, a formula is a rival if its scatter is at most this many times the best one's
LOOSE = 3.0  # tolerance of an approximate formula, in units of its error on the given graphs
FEWEST_RIVALS = 10  # an approximate formula has at least this many
MOST_CLASSES = 20


@dataclass(frozen=True)
class Finding:
    """The result of :func:`find_law`; printed, it says the law and up to which size to trust it.

    Args:
        verdict (str): ``"law"``: the formula leaves only noise. ``"undecided"``: the formula leaves only noise and is
            the simplest that does, but other formulas explain the data as well and differ at larger sizes.
            ``"approximate"``: the formula is the best of the space, but it leaves something unexplained, or it has so
            many fitted numbers that it may fit noise. ``"nothing"``: no term is related to the targets more than
            chance allows.
        law (Law, optional): The formula; None if nothing was found.
        noise (float): Standard deviation of what the formula leaves, relative to the mean size of the targets; for
            classes, the share of wrong ones.
        spread (float): The same for the best constant.
        trusted_size (int): The number of nodes up to which all formulas that explain the data as well agree within
            ``tolerance``. For the nodes of a single graph it is a number of neighbours.
        tolerance (float): The largest relative difference that counts as agreement; for classes, a share.
        apart (float): The largest difference between these formulas up to the trusted size.
        rivals (tuple[Law, ...]): The formulas that explain the data as well.
        alternatives (tuple[Law, ...]): The rivals that give another answer at 16 times the sizes.
        tried (int): Number of different terms of the space on these data.
        largest (int): Nodes of the largest graph that was given, or neighbours of one node.
        measure (str): The unit of sizes, ``"nodes"`` or ``"neighbours"``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import find_law
        >>> _ = torch.manual_seed(0)
        >>> sets = [Data(x=torch.rand(3 + k % 9, 1)) for k in range(100)]
        >>> for one in sets:
        ...     one.y = one.x.max()
        >>> found = find_law(sets)
        >>> found.found, found.trusted_size > found.largest
        (True, True)
    """

    verdict: str
    law: Law | None
    noise: float
    spread: float
    trusted_size: int
    tolerance: float
    apart: float
    rivals: tuple[Law, ...]
    alternatives: tuple[Law, ...]
    tried: int
    largest: int
    measure: str = "nodes"

    @property
    def found(self) -> bool:
        """Whether the formula leaves only noise."""
        return self.verdict in ("law", "undecided")

    def __str__(self) -> str:
        if self.law is None:
            return "Nothing was learned: no term is related to the targets more than chance allows."
        head = str(self.law) if self.found else f"No law was found. The nearest formula is {self.law}"
        return f"{head}. {self._left()} {self.trust()}"

    def _left(self) -> str:
        assert self.law is not None
        if self.law.cuts:
            return f"It is wrong on {100 * self.noise:.2g} % of the given targets."
        if self.noise <= EXACT:
            return "It fits the given targets to the last digit."
        return f"What it leaves is {100 * self.noise:.2g} % of the targets{', which is noise' * self.found}."

    def _other_cuts(self) -> str:
        """What other cuts of a law of classes, which explain the data as well, say about larger sizes."""
        if self.trusted_size >= self.largest * FACTORS[-1]:
            return ""
        words = f"but other cuts do; up to {self.trusted_size} {self.measure} they give at most"
        if self.trusted_size <= self.largest:
            words = f"but other cuts do; beyond {self.largest} {self.measure} they give more than"
        return f", {words} {100 * self.tolerance:.2g} % of the targets another class"

    def trust(self) -> str:
        """Up to which size to trust the formula, and which other formulas are possible, in words."""
        if self.found and not self.rivals:
            return f"No other formula explains the data as well{self._other_cuts()}."
        words = []
        if self.alternatives:
            more = len(self.alternatives) - 1
            others = f" and {more} more" if more else ""
            words.append(
                f"The formula {self.alternatives[0]}{others} explain{'' if more else 's'} the data equally well."
            )
        if self.trusted_size <= self.largest:
            where = "larger graphs" if self.measure == "nodes" else "nodes with more neighbours"
            words.append(f"Do not trust it on {where}: formulas that fit as well give other results there.")
        else:
            tried = ", the largest size that was tried" if self.trusted_size >= self.largest * FACTORS[-1] else ""
            within = f"within {100 * self.tolerance:.2g} % up to {self.trusted_size} {self.measure}{tried}"
            words.append(f"Formulas that explain the data about as well agree with it {within}.")
        return " ".join(words)


def find_law(
    graphs: Sequence[Data],
    *,
    level: Level | None = None,
    classes: bool = False,
    features: Sequence[str] | None = None,
) -> Finding:
    r"""Finds the law behind the targets of graphs, sets or nodes, without training a network.

    A term is a feature (or the number 1) that is pooled over neighbours and then over nodes, each time by a pooling of
    the lattice of p and the growth, :math:`n^g M_p`. For sets it is pooled over elements, for nodes over one to three
    hops. A law is one term or a sum of two, with factors and perhaps a constant; a law of classes compares this sum
    with cuts. One criterion compares all laws, the length of the description of the targets. It counts the prior of
    the formula, the fitted numbers, and what is left as noise. Near the best laws, small fractions of p and the growth
    are tried too. Then the residuals of the best law are tested for a relation to anything else that can be computed
    from the graphs. Last, the formulas that explain the data as well are run on larger, grown graphs. The law is
    trusted up to the size where they begin to differ.

    Args:
        graphs (Sequence[Data]): Graphs with ``x`` (optional), ``edge_index`` (leave it out for sets) and ``y``, one
            number for each graph or one for each node.
        level (str, optional): ``"graph"``, ``"set"`` or ``"node"``. (default: the shapes of ``y`` decide)
        classes (bool, optional): Whether ``y`` holds classes, numbered from 0. (default: ``False``)
        features (Sequence[str], optional): Names of the columns of ``x`` for formulas. (default: ``x``, or ``x1``, ...)

    Returns:
        Finding: The law, what it leaves unexplained, and up to which size it can be trusted.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import find_law
        >>> _ = torch.manual_seed(0)
        >>> draws = [torch.rand(5 + k % 10, 1) for k in range(200)]
        >>> sets = [Data(x=x, y=2 * x.max() - x.min()) for x in draws]
        >>> found = find_law(sets)
        >>> found.verdict, str(found.law)
        ('law', 'y = 2 * max_i(x_i) - min_i(x_i)')
        >>> float(found.law.predict([Data(x=torch.linspace(0, 1, 1000).view(-1, 1) + 1)])[0])
        3.0
        >>> found = find_law([Data(x=one.x, y=torch.tensor(int(one.x.mean() > 0.5))) for one in sets], classes=True)
        >>> print(found.law)
        y = 0 if mean_i(x_i) <= 0.5, else 1
    """
    level = level or level_of(graphs)
    y = np.concatenate([graph.y.detach().cpu().double().reshape(-1).numpy() for graph in graphs])
    whole = Sample.of(graphs)
    empty = np.flatnonzero(np.diff(whole.starts) == 0)
    if len(empty):
        raise ValueError(f"find_law: graph {empty[0]} (from 0) has no nodes")
    if not np.isfinite(whole.x).all():
        raise ValueError("find_law: every feature must be finite; remove graphs whose 'x' has a NaN or infinite value")
    wanted = int(whole.starts[-1]) if level == "node" else len(graphs)
    if len(y) != wanted:
        raise ValueError(f"find_law: with level={level!r} there must be {wanted} targets, got {len(y)}")
    names = tuple(features) if features is not None else _names(whole.x.shape[1] - 1)
    return find_law_of(whole, y, level, names, classes)


def find_law_of(whole: Sample, y: Floats, level: Level, names: tuple[str, ...], classes: bool = False) -> Finding:
    """:func:`find_law` of graphs as flat arrays, with their targets ``y`` and the ``names`` of the features.

    For a single graph, ``y`` may hold the targets of the first nodes only.
    """
    if not np.isfinite(y).all():
        raise ValueError("find_law: every target must be finite; remove graphs or nodes whose 'y' is NaN or infinite")
    if len(y) < LEAST:
        raise ValueError(f"find_law: at least {LEAST} targets are needed, got {len(y)}")
    if len(names) != whole.x.shape[1] - 1:
        raise ValueError(f"find_law: 'x' has {whole.x.shape[1] - 1} columns, but 'features' has {len(names)} names")
    sample = _first(whole, level)
    most = min(len(y), ROWS[level]) if is_single(sample, level) else None
    terms, values = terms_and_values(sample, level, most)
    matrix = Matrix.of(terms, values, len(names))
    probes = probes_of(sample, level)[: len(values)]
    problem = _Problem(whole, sample, level, names, matrix, y, y[: len(values)], probes)
    return _find_classes(problem) if classes else _find_numbers(problem, values)


@dataclass(frozen=True)
class _Problem:
    """The problem: all graphs, the graphs that the search uses, and the terms on these."""

    whole: Sample
    sample: Sample
    level: Level
    names: tuple[str, ...]
    matrix: Matrix
    y: Floats  # all targets
    seen: Floats  # the targets that the search uses
    probes: Floats

    @property
    def largest(self) -> int:
        return largest_of(self.whole, self.level)

    @property
    def measure(self) -> str:
        """The unit of sizes."""
        return "neighbours" if is_single(self.whole, self.level) else "nodes"

    def predicted(self, law: Law) -> Floats:
        """The predictions of a law for the given targets."""
        return law.predict(self.whole)[: len(self.y)]

    def nothing(self, spread: float) -> Finding:
        """The finding that nothing was found."""
        tried = len(self.matrix.terms)
        return Finding(
            "nothing", None, spread, spread, self.largest, math.inf, 0.0, (), (), tried, self.largest, self.measure
        )

    def finding(self, certain: bool, law: Law, rivals: list[Law], noise: float, spread: float, trust: Trust,
                tolerance: float) -> Finding:  # fmt: skip
        """The finding of a law and its rivals."""
        parted = tuple(one for one, far in zip(rivals, trust.parted, strict=False) if far > PARTED)
        verdict = "approximate" if not certain else "undecided" if parted else "law"
        return Finding(
            verdict, law, noise, spread, max(trust.size, self.largest), tolerance, trust.apart, tuple(rivals),
            parted if certain else (), len(self.matrix.terms), self.largest, self.measure,
        )  # fmt: skip


def _find_numbers(problem: _Problem, values: Floats) -> Finding:
    y, matrix, level = problem.seen, problem.matrix, problem.level
    size = float(np.abs(y).mean()) or 1.0
    spread = float(y.std()) / size
    if permuted_relation(matrix.values, y[:, None]) > NOTHING:
        return problem.nothing(spread)
    candidates = search(matrix.values, y, matrix.costs)
    if _relative(candidates[0], y) > EXACT:
        candidates = refined(candidates, matrix, problem.sample, y)
    candidates = with_twins(candidates, matrix, problem.sample, level, y)
    best = candidates[0]
    exact = _relative(best, y) <= EXACT
    terms = matrix.values[:, list(best.columns)]
    certain = exact or (_simple(best, matrix) and structure_left(best, terms, problem.probes, values, y) > CHANCE)
    law = _law(best, problem, RIVALS if certain else 0.0)
    rivals = [_law(one, problem) for one in _rivals(candidates, matrix, y, certain)]
    left = problem.y - problem.predicted(law)
    noise = float(np.sqrt(np.square(left).mean())) / size
    error, slope = (0.0, 0.0) if certain else _drift(best, problem)
    tolerance = max(TOLERANCE, noise if certain else LOOSE * error)
    if not certain and tolerance >= _mean_error(y, np.full_like(y, np.median(y))):
        error = math.inf  # a constant is as near: there is nothing to be trusted
    trust = certify(problem.sample, level, law, rivals, tolerance, error, slope)
    return problem.finding(certain, law, rivals, noise, spread, trust, tolerance)


def _find_classes(problem: _Problem) -> Finding:
    y = problem.seen.astype(np.int64)
    count = int(problem.y.max()) + 1
    if (problem.y != np.floor(problem.y)).any() or problem.y.min() < 0 or count > MOST_CLASSES:
        raise ValueError(f"find_law: classes must be numbered from 0, at most {MOST_CLASSES} of them")
    spread = 1 - float(np.bincount(problem.y.astype(np.int64)).max()) / len(problem.y)
    if len(np.unique(y)) < 2 or anything_of_classes(problem.matrix, y, count) > NOTHING:
        return problem.nothing(spread)
    rules = search_classes(problem.matrix, y, count)
    rules = rules_with_twins(rules, problem.matrix, problem.sample, problem.level, y, count)
    best = rules[0]
    if best.length >= constant_length(y, count):
        return problem.nothing(spread)
    certain = best.wrong == 0 or errors_left(best, problem.matrix, problem.probes, y) > CHANCE
    near = [one for one in rules[1:] if certain and one.length - best.length < RIVALS][:MOST_RIVALS]
    near = near or rules[1 : 1 + FEWEST_RIVALS] if not certain else near
    law, *rivals = [_law_of_rule(one, problem) for one in (best, *near)]
    noise = float((problem.predicted(law) != problem.y).mean())
    tolerance = max(TOLERANCE, noise)
    shifted = [_law_of_rule(one, problem) for one in with_other_cuts(best, problem.matrix, y, count, RIVALS)]
    trust = certify(problem.sample, problem.level, law, [*rivals, *shifted], tolerance)
    return problem.finding(certain, law, rivals, noise, spread, trust, tolerance)


def _simple(candidate: Candidate, matrix: Matrix) -> bool:
    """Whether it is too simple to fit noise: it has one term, or simple factors and no small fractions."""
    if candidate.intercept:
        return False
    lattice = all(point.common for k in candidate.columns for point in matrix.terms[k].poolings)
    return len(candidate.columns) == 1 or (candidate.fitted_numbers == 0 and lattice)


def _rivals(candidates: Sequence[Candidate], matrix: Matrix, y: Floats, certain: bool) -> list[Candidate]:
    """Other forms that explain the data as well; if there is no law, those that come near the best formula."""
    best = candidates[0]
    forms: dict[object, Candidate] = {best.form: best}
    for one in candidates:
        forms.setdefault(one.form, one)
    others = list(forms.values())[1:]
    if certain:
        return [one for one in others if one.length - best.length < RIVALS][:MOST_RIVALS]
    scatter = [float(np.sqrt(np.square(y - predictions(one, matrix.values)).mean())) for one in others]
    usual = float(np.sqrt(np.square(y - predictions(best, matrix.values)).mean()))
    near = [one for one, rest in zip(others, scatter, strict=True) if rest <= NEAR * usual]
    return (near if len(near) >= FEWEST_RIVALS else others[:FEWEST_RIVALS])[:MOST_RIVALS]


def _drift(candidate: Candidate, problem: _Problem) -> tuple[float, float]:
    """The mean relative error of a formula, and the power of the size with which the error grows.

    For the power, the numbers are fitted to the smaller half of the graphs, and the errors on both halves are compared.
    """
    y, sizes = problem.seen, np.diff(problem.sample.starts)
    values = problem.matrix.values[:, list(candidate.columns)]
    error = _mean_error(y, predictions(candidate, problem.matrix.values))
    nodes = np.repeat(sizes, sizes) if problem.level == "node" else sizes
    small = nodes <= np.median(nodes)
    if small.all() or small.sum() < LEAST:
        return error, 0.0
    refit = fit(values[small], y[small], 0.0, candidate.columns, candidate.intercept, candidate.noise)
    fitted = predictions(refit, problem.matrix.values)
    inside, outside = _mean_error(y[small], fitted[small]), _mean_error(y[~small], fitted[~small])
    ratio = float(nodes[~small].mean() / nodes[small].mean())
    return error, max(0.0, math.log(max(outside, 1e-300) / max(inside, 1e-300)) / math.log(ratio))


def _mean_error(y: Floats, fitted: Floats) -> float:
    return float(np.abs(y - fitted).mean() / np.abs(y).mean())


def _first(whole: Sample, level: Level) -> Sample:
    """The first graphs, as many as the search uses."""
    sizes = np.diff(whole.starts)
    count = ROWS[level] if level != "node" else int(np.searchsorted(np.cumsum(sizes), ROWS[level])) + 1
    return whole if count >= len(sizes) else whole.select(np.arange(count))


def _law(candidate: Candidate, problem: _Problem, odds: float = 0.0) -> Law:
    """The law with its numbers fitted to all targets; simple ones stand for fitted ones up to these odds, in nats."""
    chosen = tuple(problem.matrix.terms[k] for k in candidate.columns)
    factors = list(candidate.coefficients)
    if candidate.fitted_numbers or len(problem.y) > len(problem.seen):
        values = np.column_stack([values_of(term, problem.whole)[: len(problem.y)] for term in chosen])
        form = candidate.columns, candidate.intercept, candidate.noise
        factors = list(fit_simply(values, problem.y, 0.0, *form, odds).coefficients)
    constant = factors.pop() if candidate.intercept else 0.0
    return Law(chosen, tuple(factors), constant, problem.level, problem.names)


def _law_of_rule(rule: Rule, problem: _Problem) -> Law:
    chosen = tuple(problem.matrix.terms[k] for k in rule.columns)
    return replace(Law(chosen, rule.factors, 0.0, problem.level, problem.names), cuts=rule.cuts, order=rule.order)


def _relative(candidate: Candidate, y: Floats) -> float:
    return candidate.scatter / (float(np.abs(y).mean()) if candidate.noise == "constant" else 1.0)


def _names(count: int) -> tuple[str, ...]:
    return ("x",) if count == 1 else tuple(f"x{k + 1}" for k in range(count))
