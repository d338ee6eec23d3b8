"""Turns the columns of a user into features of a network, by rules from the training graphs that are saved with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnpool.data import Column, DataError, GraphTable

MOST_CATEGORIES = 256
WIDE = 1000.0  # if the largest value of a column is this many times its median, the logarithm is taken
KINDS = ("scale", "log", "one-hot", "constant")


@dataclass(frozen=True)
class Rule:
    """How one column becomes features.

    Args:
        name (str): The column.
        kind (str): ``"scale"`` is x / scale. ``"log"`` is sign(x) log(1 + |x| / scale). ``"one-hot"`` is a feature for
            each category; an unknown category has none. ``"constant"`` leaves the column out.
        scale (float): For numbers, their root mean square, or for ``"log"`` the median of their absolute values.
        fill (float): Replaces a missing number; it is the median.
        missing (bool): Whether a feature marks missing values.
        categories (tuple[str, ...]): The categories of a categorical column.
        of (str): Whether ``"node"`` or ``"edge"`` has the column.
    """

    name: str
    kind: str
    scale: float = 1.0
    fill: float = 0.0
    missing: bool = False
    categories: tuple[str, ...] = ()
    of: str = "node"

    @property
    def width(self) -> int:
        """The number of features."""
        if self.kind == "constant":
            return 0
        return (len(self.categories) if self.kind == "one-hot" else 1) + self.missing


@dataclass(frozen=True)
class Preprocessing:
    """The rules of all columns. Numbers are scaled but never shifted, so that 0 stays 0 and sums keep their meaning.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.data import from_list
        >>> from gnpool.fit import Preprocessing
        >>> table = from_list([Data(x=torch.tensor([[3.0], [-3.0], [0.0], [0.0]]))], labelled=False)
        >>> rules = Preprocessing.learn(table)
        >>> rules.describe()
        ["'x0': numbers, divided by 2.121"]
        >>> features, notes = rules.apply(table)
        >>> features.flatten()
        tensor([ 1.4142, -1.4142,  0.0000,  0.0000])
    """

    rules: tuple[Rule, ...]

    @classmethod
    def learn(cls, table: GraphTable) -> Preprocessing:
        """Decide on the columns of the training graphs."""
        edges = (replace(_rule(column), of="edge") for column in table.edge_attr)
        return cls((*(_rule(column) for column in table.features), *edges))

    def of(self, what: str) -> tuple[Rule, ...]:
        """The rules of the nodes or of the edges."""
        return tuple(rule for rule in self.rules if rule.of == what)

    @property
    def width(self) -> int:
        """The number of features of a node; without any, all nodes have the feature 1."""
        return sum(rule.width for rule in self.of("node")) or 1

    @property
    def edge_width(self) -> int:
        """The number of features of an edge."""
        return sum(rule.width for rule in self.of("edge"))

    def apply(self, table: GraphTable) -> tuple[Tensor, list[str]]:
        """The features of all nodes, (N, width) in float32, and notes for the user."""
        x, notes = self._features("node", table.features, int(table.sizes.sum()))
        return (x if sum(rule.width for rule in self.of("node")) else torch.ones(len(x), 1)), notes

    def apply_edges(self, table: GraphTable) -> tuple[Tensor | None, list[str]]:
        """The features of all edges, (E, edge width) in float32, if any, and notes for the user."""
        if self.edge_width == 0 or table.edge_index is None:
            return None, []
        return self._features("edge", table.edge_attr, table.edge_index.shape[1])

    def _features(self, what: str, given: Sequence[Column], rows: int) -> tuple[Tensor, list[str]]:
        rules, columns = self.of(what), {column.name: column for column in given}
        found = np.zeros((rows, sum(rule.width for rule in rules)), dtype=np.float32)
        notes, place = [], 0
        for rule in rules:
            if rule.name not in columns:
                raise DataError(f"the column {rule.name!r}, which the model was trained with, is missing")
            if rule.width:
                notes += _fill(rule, columns[rule.name], found[:, place : place + rule.width])
                place += rule.width
        known = {rule.name for rule in rules}
        unused = [name for name in columns if name not in known]
        if unused:
            notes.append(f"columns that the model was not trained with are not used: {', '.join(map(repr, unused))}")
        return torch.from_numpy(found), notes

    def to_dict(self) -> list[dict[str, Any]]:
        """The rules in a form that JSON can hold."""
        return [asdict(rule) for rule in self.rules]

    @classmethod
    def from_dict(cls, rules: Any) -> Preprocessing:
        """The rules that :meth:`to_dict` gave."""
        if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
            raise ValueError("'preprocessing' must be a list of rules")
        try:
            made = [Rule(**{**rule, "categories": tuple(rule.get("categories", ()))}) for rule in rules]
        except TypeError as error:
            raise ValueError(f"'preprocessing' has an invalid rule ({error})") from error
        for rule in made:
            _check_types(rule)
        if any(rule.kind not in KINDS or rule.of not in ("node", "edge") or not rule.scale > 0 for rule in made):
            raise ValueError(f"every rule in 'preprocessing' must have a kind among {KINDS}")
        return cls(tuple(made))

    def describe(self) -> list[str]:
        """A line for each column."""
        lines = []
        for rule in self.rules:
            words = {
                "scale": f"numbers, divided by {rule.scale:.4g}",
                "log": f"numbers far apart, sign(x) log(1 + |x| / {rule.scale:.4g})",
                "one-hot": f"{len(rule.categories)} categories, one-hot",
                "constant": "the same everywhere, left out",
            }[rule.kind]
            if rule.missing:
                fill = "" if rule.kind == "one-hot" else f", {rule.fill:.4g} in their place"
                words += f"; a feature marks missing values{fill}"
            whose = "of edges, " if rule.of == "edge" else ""
            lines.append(f"{rule.name!r}: {whose}{words}")
        return lines


def _check_types(rule: Rule) -> None:
    """Raise an error if a rule from a file has values of wrong types."""
    numbers = all(isinstance(value, (int, float)) and math.isfinite(value) for value in (rule.scale, rule.fill))
    words = all(isinstance(word, str) for word in (rule.name, rule.kind, *rule.categories))
    if not numbers or not words or not isinstance(rule.missing, bool) or len(rule.categories) > MOST_CATEGORIES:
        raise ValueError("'preprocessing' has a rule with values of wrong types")


def _rule(column: Column) -> Rule:
    values = column.values
    if column.categories is not None:
        seen = np.bincount(values[values >= 0], minlength=len(column.categories)) > 0
        kept = tuple(name for name, there in zip(column.categories, seen, strict=True) if there)
        if len(kept) > MOST_CATEGORIES:
            raise DataError(
                f"the column {column.name!r} has {len(kept)} categories, but at most {MOST_CATEGORIES} can be used; "
                "leave it out by --ignore (ignore=)"
            )
        missing = bool((values < 0).any())
        if len(kept) + missing < 2:
            return Rule(column.name, "constant")
        return Rule(column.name, "one-hot", missing=missing, categories=kept)
    if np.isinf(values).any():
        raise DataError(f"the column {column.name!r} has an infinite value")
    known = values[~np.isnan(values)]
    missing = len(known) < len(values)
    if len(known) == 0 or (not missing and known.min() == known.max()):
        return Rule(column.name, "constant")
    fill = float(np.median(known))
    size = np.abs(known[known != 0])
    if len(size) == 0:
        return Rule(column.name, "scale", 1.0, fill, missing)
    largest, median = float(size.max()), float(np.median(size))
    if largest > WIDE * median:
        return Rule(column.name, "log", median, fill, missing)
    scale = largest * math.sqrt(float(np.mean(np.square(known / largest))))  # squares of huge numbers would overflow
    return Rule(column.name, "scale", scale, fill, missing)


def _fill(rule: Rule, column: Column, out: NDArray[np.float32]) -> list[str]:
    values = column.values
    if rule.kind == "one-hot":
        words = column.categories
        if words is None:  # the same numbers, which were read as words in training
            absent = np.isnan(values)
            kept, values = np.unique(np.where(absent, 0.0, values), return_inverse=True)
            values = np.where(absent, -1, values)
            words = tuple(f"{value:.15g}" for value in kept.tolist())
        places = {name: k for k, name in enumerate(rule.categories)}
        at = np.array([*(places.get(word, -1) for word in words), -2])[values]
        rows = np.flatnonzero(at >= 0)
        out[rows, at[rows]] = 1.0
        if rule.missing:
            out[at == -2, -1] = 1.0
        unseen = int((at == -1).sum())
        return [f"{unseen} {rule.of}s have a category of {rule.name!r} that was not seen in training"] if unseen else []
    if column.categories is not None:
        raise DataError(f"the column {rule.name!r} held numbers in training, but holds categories here")
    if np.isinf(values).any():
        raise DataError(f"the column {rule.name!r} has an infinite value")
    absent = np.isnan(values)
    values = np.where(absent, rule.fill, values) / rule.scale
    if rule.kind == "log":
        values = np.sign(values) * np.log1p(np.abs(values))
    out[:, 0] = np.clip(values, np.finfo(np.float32).min, np.finfo(np.float32).max)
    if rule.missing:
        out[:, 1] = absent
    elif absent.any():
        return [
            f"{int(absent.sum())} values of {rule.name!r} are missing, which none was in training; the median stands"
        ]
    return []
