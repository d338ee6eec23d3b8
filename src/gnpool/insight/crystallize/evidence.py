"""What the data say beside the losses: the law of the targets, whether errors are noise, and what larger graphs show.

All of it is what :func:`~gnpool.insight.find_law` is made of, applied to networks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.display.poolings import BY_NAME, BY_POINT, JOINED, in_branch
from gnpool.insight.crystal import names_in, together
from gnpool.insight.laws.classes import search_classes
from gnpool.insight.laws.finding import CHANCE, EXACT, LEAST, MOST_CLASSES, RIVALS
from gnpool.insight.laws.law import Law
from gnpool.insight.laws.points import Floats, Point
from gnpool.insight.laws.probes import groups_of, permuted_relation, probes_of
from gnpool.insight.laws.search import Candidate, Matrix, fit_simply, predictions, search
from gnpool.insight.laws.space import Level, Sample, Term, features_of, terms_and_values, values_of
from gnpool.insight.laws.trust import Trust, agreement, grown, largest_of, ways_of
from gnpool.insight.proposals import Poolings
from gnpool.training import Batches
from gnpool.training.batches import EDGES, TRANSPOSE
from gnpool.training.program import Forward, Loss

ROWS = {"graph": 500, "set": 500, "node": 1500}  # targets that are looked at
LARGEST = 5000  # with a graph of more nodes, computing all terms would take too long and too much memory
MOST_NODES = 100_000  # of all graphs that are looked at
LAWS = 3  # laws of the targets that are proposed
SAME = 1e-4  # relative difference up to which a formula is what a network computes
FACTOR = 4  # on graphs so much larger, too
SUM = Point(1.0, 1.0)


@dataclass(frozen=True)
class Evidence:
    """Graphs with plain features and edges, and one target for each graph or node; ``classes``: targets are classes.

    Without edge features and the like, graphs can be grown, and formulas can be computed.
    """

    data: Batches
    sample: Sample
    level: Level
    y: Floats
    classes: bool

    @classmethod
    def of(cls, data: Batches, model: torch.nn.Module, loss: Loss, call: Forward) -> Evidence | None:
        """The evidence of the first graphs, or None if they hold more than that, or are too few.

        The model must predict the targets themselves, so that they have no loss, or a score for each class.
        """
        if set(data.levels) - {"x", "y", EDGES, TRANSPOSE} or data.levels.get("x") != "node" or "y" not in data.levels:
            return None
        y, count = data.values["y"], data.count
        if not data.values["x"].is_floating_point() or y.numel() not in (count, int(data.nodes.sum())):
            return None
        classes = _of_classes(data, model, loss, call)
        if classes is None:
            return None
        if not 1 <= int(data.nodes.min()) <= int(data.nodes.max()) <= LARGEST:
            return None
        level: Level = "node" if y.numel() != count else "graph" if data.has_edges else "set"
        if level == "node":
            count = min(count, 1 + int((data.nodes.cumsum(0) < ROWS[level]).sum()))
        count = min(count, ROWS[level], int((data.nodes.cumsum(0) <= MOST_NODES).sum()))
        data = data.select(torch.arange(count, device="cpu"))
        values = data.values["y"].double().flatten().numpy()
        known = values.min() >= 0 and values.max() < MOST_CLASSES if classes else True
        if len(values) < LEAST or not np.isfinite(values).all() or not known:
            return None
        x = data.values["x"].double().flatten(1).numpy()
        edges = None
        if data.has_edges:
            edges = (data.values[EDGES] + torch.repeat_interleave(data.first_node, data.edges)).numpy()
        return cls(data, Sample.of_arrays(x, data.nodes.numpy(), edges), level, values, classes)

    @property
    def largest(self) -> int:
        """Nodes of the largest graph, or neighbours of one node if there is a single graph."""
        return largest_of(self.sample, self.level)

    def proposals(self, branches: Mapping[str, Sequence[str]], own: bool) -> list[tuple[Poolings, bool]]:
        """The poolings of the best laws of the targets, and whether the node's own value takes part in them.

        ``branches`` names the branches of each layer. A law counts if its terms have a pooling for each layer. ``own``
        says whether the model adds the node's own value to the sum over neighbours.
        """
        matrix = self._matrix(len(branches), own)
        if matrix is None:
            return []
        if self.classes:
            forms = [rule.columns for rule in search_classes(matrix, self.y.astype(np.int64), int(self.y.max()) + 1)]
        else:
            forms = [candidate.columns for candidate in search(matrix.values, self.y, matrix.costs)]
        found: list[tuple[Poolings, bool]] = []
        for columns in dict.fromkeys(forms):
            terms = [matrix.terms[k] for k in columns]
            poolings = _poolings(terms, branches)
            one = (poolings or {}, terms[0].closed or not own)
            if poolings and len({term.closed for term in terms}) == 1 and one not in found:
                found.append(one)
            if len(found) == LAWS:
                break
        return found

    def answers(self, model: torch.nn.Module, call: Forward) -> Floats:
        """What a model says about each graph or node; of classes, the likeliest."""
        return self._answers(model, self.sample, call)

    def error(self, said: Floats) -> float:
        """The size of the errors, relative to the targets; of classes, the share of wrong ones."""
        wrong = self._errors(said)
        return float(wrong.mean()) if self.classes else _size(wrong) / float(np.abs(self.y).mean() or 1.0)

    def is_noise(self, said: Floats) -> bool:
        """Whether the errors are related to nothing that can be computed from the graphs."""
        probes = probes_of(self.sample, self.level)
        columns = np.column_stack([probes, groups_of(np.column_stack([probes, said]))])
        return self.error(said) <= EXACT or permuted_relation(columns, self._errors(said)[:, None]) > CHANCE

    def _errors(self, said: Floats) -> Floats:
        errors: Floats = (said != self.y).astype(np.float64) if self.classes else self.y - said
        return errors

    def trust(
        self, chosen: torch.nn.Module, rivals: Sequence[torch.nn.Module], call: Forward, tolerance: float
    ) -> Trust:
        """Up to which size the rivals agree with the chosen model, on grown graphs without labels."""

        def differences(graphs: Sample) -> Floats:
            truth = self._answers(chosen, graphs, call)
            others = np.stack([self._answers(rival, graphs, call) for rival in rivals])
            with np.errstate(all="ignore"):
                far = others != truth if self.classes else np.abs(others - truth) / np.abs(truth).mean()
            return np.nan_to_num(far.mean(axis=1), nan=np.inf)

        return agreement(self.sample, self.level, differences if rivals else _none, len(rivals), tolerance)

    def formula(self, model: torch.nn.Module, poolings: Poolings, call: Forward) -> Law | None:
        """The law of one or two terms that the network computes, here and on larger graphs; None if it is none.

        Its numbers are fitted to the targets, which it then explains at least as well as the network does.
        """
        if self.classes or not all(poolings.values()):
            return None
        terms = self._terms_of(poolings)
        said = self._answers(model, self.sample, call)
        if not terms or not np.isfinite(said).all() or np.ptp(said) == 0:
            return None
        values = np.column_stack([values_of(term, self.sample) for term in terms])
        matrix = Matrix.of(terms, values[: len(said)], self.sample.x.shape[1] - 1)
        candidates = search(matrix.values, said, matrix.costs) if matrix.terms else []
        if not candidates or _size(said - predictions(candidates[0], matrix.values)) > SAME * _size(said):
            return None
        best = candidates[0]
        law = self._law(best, matrix)
        for way in ways_of(self.sample, self.level, FACTOR):
            larger = grown(self.sample, FACTOR, way)
            expected = law.predict(larger)
            if not _size(self._answers(model, larger, call) - expected) <= 10 * SAME * _size(expected):
                return None
        values = matrix.values[:, list(best.columns)]
        return self._law(fit_simply(values, self.y, 0.0, best.columns, best.intercept, "constant", RIVALS), matrix)

    def _law(self, candidate: Candidate, matrix: Matrix) -> Law:
        factors = list(candidate.coefficients)
        constant = factors.pop() if candidate.intercept else 0.0
        names = ("x",) if matrix.features == 1 else tuple(f"x{k + 1}" for k in range(matrix.features))
        return Law(tuple(matrix.terms[k] for k in candidate.columns), tuple(factors), constant, self.level, names)

    def _matrix(self, places: int, own: bool) -> Matrix | None:
        """The terms with a pooling for each place that a network of this kind can compute."""
        terms, values = terms_and_values(self.sample, self.level)
        fits = [
            k
            for k, term in enumerate(terms)
            if len(term.poolings) == places and (not term.closed or (own and term.poolings[0] == SUM))
        ]
        chosen = [terms[k] for k in fits]
        matrix = Matrix.of(chosen, values[:, fits], self.sample.x.shape[1] - 1) if chosen else None
        return matrix if matrix is not None and matrix.terms and np.ptp(self.y) > 0 else None

    def _terms_of(self, poolings: Poolings) -> list[Term]:
        """Every term with one of the named poolings in each place."""
        choices = [[_point(name) for text in names.values() for name in names_in(text)] for names in poolings.values()]
        readout = self.level != "node"
        hops = len(choices) - readout
        if hops < 0 or (hops and not self.sample.loops):
            return []
        return [
            Term(feature, points, closed, readout)
            for feature in features_of(self.sample)
            for points in itertools.product(*choices)
            for closed in ((False, True) if hops else (False,))
        ]

    def _answers(self, model: torch.nn.Module, graphs: Sample, call: Forward) -> Floats:
        model = model.cpu().eval()
        batches = Batches(self._graphs(graphs), 32, seed=None, sorted_edges=self.data.sorted_edges)
        with torch.no_grad():
            said = [call(model, batch).double() for batch in batches]
        rows = torch.cat([part.reshape(part.size(0) if part.dim() else 1, -1) for part in said])
        if self.classes:
            rows = rows.argmax(dim=1, keepdim=True).double()
        result: Floats = rows.flatten().numpy()
        return result

    def _graphs(self, sample: Sample) -> list[Data]:
        like = self.data.values["x"]
        x = torch.from_numpy(sample.x[:, :-1]).to(like.dtype).reshape(-1, *like.shape[1:])
        targets = np.repeat(np.arange(sample.nodes), np.diff(sample.edge_starts))
        found = []
        for first, stop in itertools.pairwise(sample.starts.tolist()):
            graph = Data(x=x[first:stop])
            if self.data.has_edges:
                part = slice(sample.edge_starts[first], sample.edge_starts[stop])
                graph.edge_index = torch.from_numpy(np.stack([sample.sources[part], targets[part]]) - first)
            found.append(graph)
        return found


@torch.no_grad()
def _of_classes(data: Batches, model: torch.nn.Module, loss: Loss, call: Forward) -> bool | None:
    """Whether the model scores classes (True) or predicts the targets (False); None if neither."""
    batch = data.cut(torch.arange(min(data.count, 8), device="cpu"))
    said, y = call(model.cpu().eval(), batch).double(), batch.fields["y"]
    if not y.is_floating_point() and said.dim() == 2 and said.size(1) > max(1, int(data.values["y"].max())):
        return True
    wide = batch.double()
    exact = said.numel() == y.numel() and bool((loss(y.double().reshape(said.shape), wide) == 0).all())
    return False if exact else None


def _none(graphs: Sample) -> Floats:
    return np.zeros(0)


def _size(values: Floats) -> float:
    return float(np.sqrt(np.square(values).mean()))


def _poolings(terms: Sequence[Term], branches: Mapping[str, Sequence[str]]) -> Poolings | None:
    """The names of a law's poolings, by layer and branch; None if a branch cannot have them."""
    found: Poolings = {}
    for place, (layer, names) in enumerate(branches.items()):
        points = dict.fromkeys(term.poolings[place] for term in terms)
        homes = [next((name for name in names if in_branch(point.p, name)), None) for point in points]
        there = {home: [_name(p) for p, h in zip(points, homes, strict=True) if h == home] for home in homes if home}
        if None in homes:
            return None
        found[layer] = {home: together(*there[home]) for home in names if home in there}
    return found


@functools.cache
def _name(point: Point) -> str:
    named = BY_POINT[point.p, point.growth]
    return JOINED[named.name].name if point.joined else named.name


def _point(name: str) -> Point:
    named = BY_NAME[name]
    return Point(named.p, named.growth, joined=name in {one.name for one in JOINED.values()})
