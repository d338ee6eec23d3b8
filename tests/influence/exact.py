"""Computes the cascades of tiny graphs exactly, by listing all live-edge graphs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from gnpool.influence import CascadeGraph


def tiny_graph(rng: np.random.Generator, most_nodes: int = 7, most_edges: int = 9) -> CascadeGraph:
    nodes = int(rng.integers(2, most_nodes + 1))
    pairs = [(u, v) for u in range(nodes) for v in range(nodes) if u != v]
    chosen = rng.permutation(len(pairs))[: int(rng.integers(1, most_edges + 1))]
    source, target = np.array([pairs[i] for i in chosen]).T
    probability = rng.choice([0.0, 1.0, 0.5, *rng.random(6)], len(chosen))
    return CascadeGraph(nodes, source, target, probability)


def enumerated(graph: CascadeGraph, seeds: Sequence[int]) -> tuple[float, float, np.ndarray]:
    """Mean and variance of the size, and the probability of each node to be active by each step (N + 1, N)."""
    edges = list(zip(graph.source.tolist(), graph.target.tolist(), graph.probability.tolist(), strict=True))
    mean = square = 0.0
    by_step = np.zeros((graph.nodes + 1, graph.nodes))
    for live in itertools.product((False, True), repeat=len(edges)):
        chance = math.prod(p if on else 1 - p for on, (_, _, p) in zip(live, edges, strict=True))
        if chance == 0:
            continue
        active = set(seeds)
        for step in range(graph.nodes + 1):
            by_step[step, list(active)] += chance
            active |= {v for on, (u, v, _) in zip(live, edges, strict=True) if on and u in active}
        mean += chance * len(active)
        square += chance * len(active) ** 2
    return mean, max(square - mean**2, 0.0), by_step
