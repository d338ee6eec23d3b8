r"""``find_law``: the formula behind targets, found and fitted without training, or the statement that there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from torch_geometric.data import Data

from gnpool.insight.laws.points import Floats
from gnpool.insight.laws.probes import probes_of
from gnpool.insight.laws.search import Candidate, anything, cost_array, fit, search, structure_left, usable
from gnpool.insight.laws.space import Level, Sample, Term, level_of, terms_and_values, values_of
from gnpool.insight.laws.trust import FACTORS, trusted_size

ROWS = {"graph": 1000, "set": 1000, "node": 3000}  # targets that the search looks at; the numbers are fitted to all
LEAST = 30  # targets, below which nothing can be said
CHANCE = 0.01  # how often pure noise may pass for something learned, and a law for none
EXACT = 1e-5  # relative scatter, below which a law leaves nothing to explain
RIVALS = 7.0  # nats: the odds of a candidate that is this much longer are 1 to 1,000
MOST_RIVALS = 30
TOLERANCE = 0.01  # relative difference between rivals, up to which a size is trusted


@dataclass(frozen=True)
class Law:
    """A formula: a sum of terms with factors, and perhaps a constant. It predicts, and prints as a formula."""

    terms: tuple[Term, ...]
    factors: tuple[float, ...]
    constant: float
    level: Level
    features: tuple[str, ...]

    def predict(self, graphs: Sequence[Data] | Sample) -> Floats:
        """The target of each graph, or of each node."""
        sample = graphs if isinstance(graphs, Sample) else Sample.of(graphs)
        parts = [factor * values_of(term, sample) for factor, term in zip(self.factors, self.terms, strict=True)]
        return self.constant + np.sum(parts, axis=0)

    def __str__(self) -> str:
        element = "i" if self.level == "set" else "v"
        parts = []
        for factor, term in zip(self.factors, self.terms, strict=True):
            text = term.describe(self.features, element)
            size = _number(abs(factor))
            sign = "-" if factor < 0 else "+"
            parts.append((sign, text if size == "1" else f"{size} * {text}"))
        if self.constant:
            parts.append(("-" if self.constant < 0 else "+", _number(abs(self.constant))))
        first = f"-{parts[0][1]}" if parts[0][0] == "-" else parts[0][1]
        return " ".join([f"y = {first}", *(f"{sign} {text}" for sign, text in parts[1:])])


@dataclass(frozen=True)
class Finding:
    """What :func:`find_law` has to say.

    Args:
        verdict (str): ``"law"``: the formula leaves nothing but noise. ``"approximate"``: the formula is the best of
            the space, but something is left that it does not explain, or noise could have made it up: it has several
            fitted numbers. ``"nothing"``: no term is related to the targets
            more than chance allows.
        law (Law, optional): The formula; None where nothing was found.
        noise (float): Standard deviation of what the formula leaves, relative to the target's mean size.
        spread (float): Standard deviation of the targets themselves, in the same unit.
        trusted_size (int): Up to this number of nodes all formulas that explain the data as well agree.
        tolerance (float): How well they agree up to there, relative.
        rivals (tuple[Law, ...]): These formulas.
        tried (int): Number of different terms of the space on this data.
    """

    verdict: str
    law: Law | None
    noise: float
    spread: float
    trusted_size: int
    tolerance: float
    rivals: tuple[Law, ...]
    tried: int
    largest: int

    @property
    def found(self) -> bool:
        """Whether there is a law."""
        return self.verdict == "law"

    def __str__(self) -> str:
        if self.law is None:
            return "Nothing was learned: no term is related to the targets more than chance allows."
        error = f"{100 * self.noise:.2g} %" if self.noise > EXACT else "0 %, to the precision of the data"
        if self.trusted_size >= self.largest * FACTORS[-1]:
            trust = f"Equally good formulas agree up to {self.trusted_size} nodes, the largest size that was tried."
        else:
            trust = (
                f"Trust it up to {self.trusted_size} nodes: beyond, formulas that fit as well differ by more than "
                f"{100 * self.tolerance:.2g} %."
            )
        if self.verdict == "law":
            return f"{self.law}. What is left is noise of {error}. {trust}"
        return f"No law was found. The nearest formula is {self.law}, with an error of {error}. {trust}"


def find_law(graphs: Sequence[Data], *, level: Level | None = None, features: Sequence[str] | None = None) -> Finding:
    r"""Finds the law behind the targets of graphs, sets or nodes, without training a network.

    The space: a feature (or the number 1), pooled over neighbours and then over nodes, each time by a pooling of the
    lattice of p and the growth, :math:`n^g M_p`; over elements for sets; over one or two hops for nodes. A law is one
    such term or a sum of two, with factors, and perhaps a constant. All of them are compared by one criterion, the
    length of the description of the targets. It holds the prior of the formula, the fitted numbers, and what is left as
    noise. What the best law leaves is then tested: is it related to anything else that can be computed from the graphs?

    Targets are numbers; classes are not for this function.

    Args:
        graphs (Sequence[Data]): Graphs with ``x`` (optional), ``edge_index`` (none: sets) and ``y``, one number for
            each graph or one for each node.
        level (str, optional): ``"graph"``, ``"set"`` or ``"node"``. (default: as the shapes of ``y`` say)
        features (Sequence[str], optional): Names of the columns of ``x`` for formulas. (default: ``x``, or ``x1``, ...)

    Returns:
        Finding: The law, what it leaves, and up to which size it can be trusted.

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
    """
    level = level or level_of(graphs)
    y = np.concatenate([graph.y.detach().cpu().double().reshape(-1).numpy() for graph in graphs])
    if not np.isfinite(y).all():
        raise ValueError("find_law: a target is not finite")
    if len(y) < LEAST:
        raise ValueError(f"find_law: {len(y)} targets are too few, {LEAST} are the least")
    part = _first(graphs, level)
    sample, whole = Sample.of(part), Sample.of(graphs)
    names = tuple(features) if features is not None else _names(sample.x.shape[1] - 1)
    every, values = terms_and_values(sample, level)
    costs = cost_array(every, len(names))
    kept = usable(values, costs)
    terms, values, costs = [every[k] for k in kept], values[:, kept], costs[kept]
    seen = y[: len(values)]
    size = float(np.abs(y).mean()) or 1.0
    spread, largest = float(y.std()) / size, int(np.diff(whole.starts).max())
    if anything(values, seen) > CHANCE:
        return Finding("nothing", None, spread, spread, largest, math.inf, (), len(terms), largest)
    candidates = search(values, seen, costs)
    best = candidates[0]
    exact = _relative(best, seen) <= EXACT
    others = np.concatenate([values, probes_of(sample, level)], axis=1)
    certain = exact or (best.simple and structure_left(best, values, others, seen) > CHANCE)
    verdict = "law" if certain else "approximate"
    odds = RIVALS if certain else 2 * RIVALS
    near = [one for one in candidates[1:] if one.length - best.length < odds]
    law = _law(best, terms, level, names, whole, y)
    rivals = tuple(_law(one, terms, level, names, whole, y) for one in near[:MOST_RIVALS])
    noise = float(np.sqrt(np.square(y - law.predict(whole)).mean())) / size
    tolerance = max(TOLERANCE, noise if verdict == "law" else 3 * noise)
    trusted, _ = trusted_size(sample, level, law.predict, [rival.predict for rival in rivals], tolerance)
    return Finding(verdict, law, noise, spread, trusted, tolerance, rivals, len(terms), largest)


def _first(graphs: Sequence[Data], level: Level) -> Sequence[Data]:
    """As many graphs, from the first, as the search looks at."""
    if level != "node":
        return graphs[: ROWS[level]]
    nodes = np.cumsum([graph.num_nodes for graph in graphs])
    return graphs[: int(np.searchsorted(nodes, ROWS[level])) + 1]


def _law(
    candidate: Candidate, terms: Sequence[Term], level: Level, names: tuple[str, ...], whole: Sample, y: Floats
) -> Law:
    """The law with its numbers fitted to all targets; simple factors stay as they are."""
    chosen = tuple(terms[k] for k in candidate.columns)
    factors = list(candidate.coefficients)
    values = np.column_stack([values_of(term, whole) for term in chosen])
    if candidate.errors and len(values) > 0:
        again = fit(values, y, 0.0, candidate.columns, candidate.intercept, candidate.noise)
        factors = list(again.coefficients)
    constant = factors.pop() if candidate.intercept else 0.0
    return Law(chosen, tuple(factors), constant, level, names)


def _relative(candidate: Candidate, y: Floats) -> float:
    return candidate.scatter / (float(np.abs(y).mean()) if candidate.noise == "constant" else 1.0)


def _names(count: int) -> tuple[str, ...]:
    return ("x",) if count == 1 else tuple(f"x{k + 1}" for k in range(count))


def _number(value: float) -> str:
    """Short: a small fraction where it is one to rounding, else four digits."""
    near = Fraction(value).limit_denominator(12)
    if near and abs(value - near) <= 1e-6 * value:
        return str(near)
    return f"{value:.4g}"
