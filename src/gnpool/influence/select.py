"""Selects seeds: lazy greedy with any estimate of the influence, and simple baselines."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gnpool.influence.graph import CascadeGraph

BATCH = 20  # candidates that are evaluated together
BOUND_TOLERANCE = 1e-6  # what the last term of the bound may add, all nodes together
BOUND_TERMS = 10_000
SLACK = 1e-3  # share by which an estimate may exceed the bound before it counts as a violation


class Gains(Protocol):
    """An estimate of the influence of growing seed sets."""

    def gains(self, candidates: Sequence[int]) -> Sequence[float]:
        """What each candidate would add to the influence of the seeds so far."""

    def add(self, node: int) -> None:
        """Make a node a seed."""


@dataclass(frozen=True)
class Selection:
    """Seeds in the order of their choice.

    Args:
        seeds (list): The nodes.
        gains (list): The estimated gain of each seed when it was chosen.
        evaluations (int): Number of estimates.
        violations (int): Number of nodes whose estimated influence exceeds their upper bound, by noise of simulations.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, MonteCarloGains, lazy_greedy
        >>> chain = CascadeGraph(3, np.array([0, 1]), np.array([1, 2]), np.array([1.0, 1.0]))
        >>> found = lazy_greedy(MonteCarloGains(chain, runs=100), nodes=3, k=1)
        >>> found.seeds, found.gains, found.influence, found.evaluations
        ([0], [3.0], 3.0, 3)
    """

    seeds: list[int]
    gains: list[float]
    evaluations: int = 0
    violations: int = 0

    @property
    def influence(self) -> float:
        """Of all seeds, by the estimate."""
        return math.fsum(self.gains)


def influence_bound(graph: CascadeGraph) -> NDArray[np.float64] | None:
    r"""An upper bound of the influence of each node, or None if the series does not converge.

    .. math::
        \sigma(\{v\}) \le \Big(\sum_{k \ge 0} \mathbf{P}^k \mathbf{1}\Big)_v

    where :math:`P_{uv}` is the probability of the edge from u to v: the expected number of live walks from v. It
    converges where the spectral radius of P is below 1.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, influence_bound
        >>> chain = CascadeGraph(3, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.5]))
        >>> influence_bound(chain)
        array([1.75, 1.5 , 1.  ])
    """
    term: NDArray[np.float64] = np.ones(graph.nodes)
    bound = np.ones(graph.nodes)
    before = math.inf
    for number in range(BOUND_TERMS):
        term = np.bincount(graph.source, graph.probability * term[graph.target], graph.nodes).astype(np.float64)
        bound += term
        added = float(term.sum())
        if added < BOUND_TOLERANCE:
            return bound
        if not math.isfinite(added) or (number > 200 and added > 0.999 * before):  # hardly falls: no use as a bound
            return None
        before = added
    return None


def lazy_greedy(
    estimate: Gains,
    nodes: int,
    k: int,
    *,
    bound: NDArray[np.float64] | None = None,
    batch: int = BATCH,
    first_batch: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    r"""Chooses k seeds one by one, each with the largest gain, without estimating all gains again each time.

    Gains only shrink as seeds are added, so the gain of a node with fewer seeds is an upper bound of its gain now
    (CELF). The node with the largest bound is chosen if its gain is up to date; otherwise the ``batch`` nodes with the
    largest bounds are estimated again together. With ``bound`` (UBLF) most nodes are never estimated; without it all
    nodes are estimated once. Of nodes with equal gains the one with the smallest number is taken.

    Args:
        estimate (Gains): Estimates the gain of a candidate.
        nodes (int): Number of nodes.
        k (int): Number of seeds.
        bound (numpy.ndarray, optional): Upper bounds of the influence of each node, :func:`influence_bound`.
        batch (int, optional): Nodes estimated together. (default: ``20``)
        first_batch (int, optional): The same in the first round without ``bound``, which estimates all nodes.
        progress (callable, optional): Called with the number of seeds chosen, and of all.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, MonteCarloGains, influence_bound, lazy_greedy
        >>> source, target = np.array([0, 0, 3]), np.array([1, 2, 4])  # two stars
        >>> stars = CascadeGraph(5, source, target, np.array([0.5, 0.5, 0.5]))
        >>> found = lazy_greedy(MonteCarloGains(stars, runs=10_000), 5, 2, bound=influence_bound(stars))
        >>> found.seeds, [round(gain, 1) for gain in found.gains]
        ([0, 3], [2.0, 1.5])
    """
    check_count(k, nodes)
    evaluations = violations = 0
    if bound is None:
        size, found = first_batch or batch, []
        for begin in range(0, nodes, size):
            found += list(estimate.gains(range(begin, min(nodes, begin + size))))
        evaluations = nodes
        heap = [(-gain, node, 0) for node, gain in enumerate(found)]
    else:
        heap = [(-float(value), node, -1) for node, value in enumerate(bound)]
    heapq.heapify(heap)
    seeds: list[int] = []
    gains: list[float] = []
    while len(seeds) < k:
        value, node, when = heapq.heappop(heap)
        if when == len(seeds):
            seeds.append(node)
            gains.append(-value)
            if len(seeds) < k:
                estimate.add(node)
            if progress is not None:
                progress(len(seeds), k)
            continue
        stale = [(value, node, when)]
        while heap and len(stale) < batch:
            stale.append(heapq.heappop(heap))
        again = [entry for entry in stale if entry[2] != len(seeds)]
        for entry in stale:
            if entry[2] == len(seeds):
                heapq.heappush(heap, entry)
        fresh = estimate.gains([entry[1] for entry in again])
        evaluations += len(again)
        for (_, candidate, _), gain in zip(again, fresh, strict=True):
            if bound is not None and not seeds and gain > (1 + SLACK) * bound[candidate]:
                violations += 1
            heapq.heappush(heap, (-gain, candidate, len(seeds)))
    return Selection(seeds, gains, evaluations, violations)


def degree_seeds(graph: CascadeGraph, k: int) -> Selection:
    """The k nodes with the most edges out of them; of equal nodes, those with the smaller numbers.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, degree_seeds
        >>> graph = CascadeGraph(4, np.array([2, 2, 0]), np.array([0, 1, 3]), np.full(3, 0.5))
        >>> degree_seeds(graph, 2).seeds
        [2, 0]
    """
    check_count(k, graph.nodes)
    order = np.argsort(-graph.out_degree, kind="stable")[:k]
    return Selection(order.tolist(), [])


def random_seeds(graph: CascadeGraph, k: int, seed: int = 0) -> Selection:
    """k random nodes, each with the same probability.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, random_seeds
        >>> graph = CascadeGraph(100, np.array([0]), np.array([1]), np.array([0.5]))
        >>> seeds = random_seeds(graph, 3, seed=1).seeds
        >>> len(set(seeds)), seeds == random_seeds(graph, 3, seed=1).seeds
        (3, True)
    """
    check_count(k, graph.nodes)
    return Selection(np.random.default_rng(seed).choice(graph.nodes, k, replace=False).tolist(), [])


def check_count(k: int, nodes: int) -> None:
    """Raise a ValueError unless k seeds can be chosen."""
    if not 1 <= k <= nodes:
        raise ValueError(f"'k' must lie in [1, {nodes}], the number of nodes, got {k}")
