"""A law as an object: it predicts, prints itself as text, LaTeX and SymPy, and gives a module."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.insight.laws.network import LawNet
from gnpool.insight.laws.points import Floats, Point
from gnpool.insight.laws.space import ONE, Level, Sample, Term, values_of


@dataclass(frozen=True)
class Law:
    """A formula: a sum of terms with factors, and perhaps a constant.

    With ``cuts`` it is a law of classes: the number of cuts that the sum exceeds is looked up in ``order``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.insight.laws import Law, Point, Term
        >>> law = Law((Term(0, (Point(1.0, 1.0),)),), (2.0,), 1.0, "set", ("x",))  # twice the sum, plus 1
        >>> print(law)
        y = 2 * sum_i(x_i) + 1
        >>> law.predict([Data(x=torch.ones(3, 1)), Data(x=torch.ones(10, 1))]).tolist()
        [7.0, 21.0]
    """

    terms: tuple[Term, ...]
    factors: tuple[float, ...]
    constant: float
    level: Level
    features: tuple[str, ...]
    cuts: tuple[float, ...] = ()
    order: tuple[int, ...] = ()

    def predict(self, graphs: Sequence[Data] | Sample) -> Floats:
        """The target of each graph or of each node; for a law of classes, the class."""
        sample = graphs if isinstance(graphs, Sample) else Sample.of(graphs)
        return self.predict_from(values_of(term, sample) for term in self.terms)

    def predict_from(self, values: Iterable[Floats]) -> Floats:
        """The targets, computed from the values of the terms."""
        scores = self.constant + np.sum([f * one for f, one in zip(self.factors, values, strict=True)], axis=0)
        if not self.cuts:
            return scores
        places = np.searchsorted(np.array(self.cuts), scores, side="left")
        return np.array(self.order, dtype=np.float64)[places]

    def model(self, in_channels: int | None = None, *, loops: bool = True, outputs: int | None = None) -> LawNet:
        """The law as a module of torch, called as the networks of :mod:`gnpool.models` are.

        Args:
            in_channels (int, optional): Number of features. (default: those of the law)
            loops (bool, optional): Whether edges of a node to itself count. (default: ``True``)
            outputs (int, optional): Number of classes. (default: those of the law)

        Example:
            >>> import torch
            >>> from gnpool.insight.laws import Law, Point, Term
            >>> law = Law((Term(0, (Point(1.0, 1.0), Point(float("inf"), 0.0))),), (2.0,), 0.0, "graph", ("x",))
            >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
            >>> str(law), law.model()(torch.ones(3, 1), path).item()
            ('y = 2 * max_v(sum_u(x_u))', 4.0)
        """
        terms = [term.to_dict() for term in self.terms]
        channels = len(self.features) if in_channels is None else in_channels
        classes = outputs if self.cuts else None
        network = LawNet(channels, terms, self.level, self.cuts, self.order, classes, loops, self.features)
        network.factors.copy_(torch.tensor(self.factors, dtype=torch.float64))
        network.constant.fill_(self.constant)
        return network

    @classmethod
    def of(cls, network: LawNet) -> Law:
        """The law that a network computes, in the units of its features before they were scaled."""
        terms = tuple(Term.from_dict(term) for term in network.terms)
        factors, constant = tuple(network.factors.tolist()), float(network.constant)
        known = max((term.feature for term in terms), default=-1) + 1
        names = tuple(network.features) or tuple(f"x{k + 1}" for k in range(known))
        level: Level = network.level  # type: ignore[assignment]  # LawNet has checked it
        return cls(terms, factors, constant, level, names, tuple(network.cuts), tuple(network.order))

    def __str__(self) -> str:
        return self.text()

    def text(self, target: str = "y", classes: Sequence[str] = ()) -> str:
        """The formula as text, with the names of the target and of its classes.

        Example:
            >>> from gnpool.insight.laws import Law, Point, Term
            >>> largest = Term(0, (Point(float("inf"), 0.0),))
            >>> law = Law((largest,), (1.0,), 0.0, "set", ("mass",), cuts=(19.5,), order=(1, 0))
            >>> print(law.text("kind", ("heavy", "light")))
            kind = light if max_i(mass_i) <= 19.5, else heavy
        """
        text = self._sum(lambda term: term.describe(self.features, self._element), " * ", number)
        if not self.cuts:
            return f"{target} = {text}"
        names = [classes[k] if classes else str(k) for k in self.order]
        below = [f"{name} if {text} <= {cut:.6g}" for name, cut in zip(names, self.cuts, strict=False)]
        return f"{target} = {', '.join(below)}, else {names[-1]}"

    def latex(self) -> str:
        r"""The formula in LaTeX.

        Example:
            >>> from gnpool.insight.laws import Law, Point, Term
            >>> print(Law((Term(0, (Point(2.0, 0.5),)),), (3.0,), 1.0, "set", ("x",)).latex())
            y = 3 \, \Bigl(\sum_{i} {x_{i}}^{2}\Bigr)^{1/2} + 1
        """
        text = self._sum(lambda term: _latex(term, self.features, self._element), r" \, ", _latex_number)
        if not self.cuts:
            return f"y = {text}"
        rows = [rf"{self.order[k]} & {text} \le {cut:.6g} \\" for k, cut in enumerate(self.cuts)]
        return r"y = \begin{cases} " + " ".join(rows) + rf" {self.order[-1]} & \text{{else}} \end{{cases}}"

    def sympy(self) -> Any:
        """The sum of the terms as an expression of SymPy; poolings are functions of their inside.

        Example:
            >>> from gnpool.insight.laws import Law, Point, Term
            >>> Law((Term(0, (Point(1.0, 0.0),)),), (0.5,), 2.0, "set", ("x",)).sympy()
            mean_i(x_i)/2 + 2
        """
        import sympy  # type: ignore[import-untyped]  # torch depends on it

        def inner(term: Term) -> Any:
            names = term.places(self._element)
            around = [*names[1:], "v"]
            value = sympy.Integer(1)
            if term.feature != ONE:
                value = sympy.Symbol(f"{self.features[term.feature]}_{names[0] if names else 'v'}")
            for place, (point, name) in enumerate(zip(term.poolings, names, strict=True)):
                if value == 1 and not point.joined:
                    size = sympy.Symbol(f"degree_{around[place]}" if place < term.hops else "n")
                    value = (size + int(term.closed and place < term.hops)) ** _sympy_number(point.growth)
                else:
                    value = sympy.Function(f"{point.name}_{name}")(value)
            return value

        parts = zip(self.factors, self.terms, strict=True)
        return sum((_sympy_number(f) * inner(t) for f, t in parts), start=_sympy_number(self.constant))

    @property
    def _element(self) -> str:
        return "i" if self.level == "set" else "v"

    def _sum(self, describe: Any, times: str, show: Any) -> str:
        parts = []
        for factor, term in zip(self.factors, self.terms, strict=True):
            size = show(abs(factor))
            text = describe(term)
            if text == "1":
                text, size = size, "1"
            parts.append(("-" if factor < 0 else "+", text if size == "1" else f"{size}{times}{text}"))
        if self.constant:
            parts.append(("-" if self.constant < 0 else "+", show(abs(self.constant))))
        first = f"-{parts[0][1]}" if parts[0][0] == "-" else parts[0][1]
        return " ".join([first, *(f"{sign} {text}" for sign, text in parts[1:])])


def number(value: float) -> str:
    """A number as short text: a small fraction if it is one up to rounding, otherwise four digits."""
    near = Fraction(value).limit_denominator(12)
    if near and abs(value - near) <= 1e-6 * abs(value):
        return str(near)
    return f"{value:.4g}"


def _sympy_number(value: float) -> Any:
    import sympy

    near = Fraction(value).limit_denominator(12)
    close = abs(value - near) <= 1e-6 * abs(value)
    return sympy.Rational(near.numerator, near.denominator) if close else sympy.Float(value, 4)


def _latex_number(value: float) -> str:
    text = number(value)
    if "/" in text:
        above, below = text.split("/")
        return rf"\tfrac{{{above}}}{{{below}}}"
    if "e" in text:
        digits, power = text.split("e")
        return rf"{digits} \cdot 10^{{{int(power)}}}"
    return text


def _latex(term: Term, features: Sequence[str], element: str) -> str:
    names = term.places(element)
    inside = "1"
    if term.feature != ONE:
        inside = rf"{features[term.feature]}_{{{names[0] if names else 'v'}}}".replace(
            "_", r"\_", features[term.feature].count("_")
        )
    outer = [*names[1:], "v"]
    for place, (point, name) in enumerate(zip(term.poolings, names, strict=True)):
        if place < term.hops:
            around = rf"\bar N({outer[place]})" if term.closed else f"N({outer[place]})"
            over, size = rf"{name} \in {around}", rf"|{around}|"
        else:
            over, size = name, "n"
        if inside == "1" and not point.joined:  # pooling ones gives a power of their number
            degree = rf"d_{{{outer[place]}}}"
            size = "n" if place >= term.hops else rf"({degree} + 1)" if term.closed else degree
            inside = "1" if point.growth == 0 else size if point.growth == 1 else f"{size}^{{{number(point.growth)}}}"
        else:
            inside = _latex_pooling(point, over, size, inside)
    return inside


def _latex_pooling(point: Point, over: str, size: str, inside: str) -> str:
    inside = (
        rf"\bigl({inside}\bigr)" if inside.startswith("\\") and point.p not in (1.0, math.inf, -math.inf) else inside
    )
    if point.joined:
        if point.p == 1.0:
            return rf"\frac{{\sum_{{{over}}} {inside}}}{{{size} + 1}}"
        return rf"\Bigl(1 + \sum_{{{over}}} 1 / {inside}\Bigr)^{{-1}}"
    if math.isinf(point.p):
        text, power = rf"\{'max' if point.p > 0 else 'min'}_{{{over}}} {inside}", point.growth
    elif point.p == 0.0:
        text, power = rf"\Bigl(\prod_{{{over}}} {inside}\Bigr)^{{1/{size}}}", point.growth
    else:
        raised = inside if point.p == 1.0 else f"{{{inside}}}^{{{number(point.p)}}}"
        text = rf"\sum_{{{over}}} {raised}"
        if point.p != 1.0:
            text = rf"\Bigl({text}\Bigr)^{{{number(1 / point.p)}}}"
        power = point.growth - 1 / point.p
    return text if abs(power) < 1e-12 else rf"{size}^{{{number(power)}}} {text}"
