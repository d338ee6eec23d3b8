"""Quantities outside the space of laws. The residuals of a law must not be related to them either."""

from __future__ import annotations

import numpy as np

from gnpool.insight.laws.points import Floats
from gnpool.insight.laws.space import Level, Sample

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
DRAWS = 1000  # random signs or orders from which a probability is estimated
GROUPS = 6  # quantile groups into which a quantity is cut
CONSTANT = 1e-9  # a column that varies less, relatively, is constant
MOST_EDGES = 3_000_000  # with more edges than this, triangles are not counted


def probes_of(sample: Sample, level: Level) -> Floats:
    """A column for each probe: powers of the size, quantiles and spreads of features, degrees and triangles."""
    sizes = np.diff(sample.starts).astype(np.float64)
    degrees = np.diff(sample.edge_starts).astype(np.float64)[:, None]
    if level == "node":
        own = [sample.x[:, :-1], degrees, degrees**2, np.sqrt(degrees)]
        spread = np.repeat(sizes, sizes.astype(np.int64))[:, None]
        return np.concatenate([*own, spread], axis=1)
    rows = np.concatenate([sample.x[:, :-1], degrees], axis=1)
    columns = [np.stack([sizes, sizes**2, np.log(sizes), 1 / sizes], axis=1)]
    for a, b in zip(sample.starts[:-1], sample.starts[1:], strict=True):
        part = rows[a:b]
        moments = [part.std(axis=0), *np.quantile(part, QUANTILES, axis=0)]
        columns.append(np.concatenate(moments)[None])
    found = np.concatenate([columns[0], np.concatenate(columns[1:])], axis=1)
    if sample.loops and len(sample.sources) <= MOST_EDGES:
        found = np.concatenate([found, _triangles(sample)], axis=1)
    return found


def groups_of(columns: Floats) -> Floats:
    """For each column, indicators of its quantile groups, which show a relation of any form."""
    found = []
    for column in columns.T:
        if np.isfinite(column).all():
            edges = np.unique(np.quantile(column, np.linspace(0, 1, GROUPS + 1)[1:-1]))
            place = np.searchsorted(edges, column, side="right")
            found += [(place == k).astype(np.float64) for k in range(len(edges) + 1)]
    return np.stack(found, axis=1)


def permuted_relation(columns: Floats, targets: Floats) -> float:
    """The probability that ``targets`` (n, k) in random order are as strongly related to any column as they are."""
    with np.errstate(all="ignore"):
        size = np.linalg.norm(columns, axis=0)
        centred = columns - columns.mean(axis=0)
        norms = np.linalg.norm(centred, axis=0)
        alive = np.isfinite(norms) & (norms > CONSTANT * size)
        unit = centred[:, alive] / norms[alive]
    spread = targets - targets.mean(axis=0)
    spread = spread[:, np.ptp(targets, axis=0) > 0]
    if unit.shape[1] == 0 or spread.shape[1] == 0:
        return 1.0
    spread = spread / np.linalg.norm(spread, axis=0)
    random = np.random.default_rng(0)
    strongest = np.zeros(DRAWS)
    for target in spread.T:
        shuffled = np.stack([random.permutation(target) for _ in range(DRAWS)], axis=1)
        strongest = np.maximum(strongest, np.abs(unit.T @ shuffled).max(axis=0))
    seen = float(np.abs(unit.T @ spread).max())
    return (1 + int((strongest >= seen).sum())) / (1 + DRAWS)


def _triangles(sample: Sample) -> Floats:
    """Closed walks of length three of each graph, and paths of length two."""
    counts = []
    for a, b in zip(sample.starts[:-1], sample.starts[1:], strict=True):
        first, last = sample.edge_starts[a], sample.edge_starts[b]
        degrees = np.diff(sample.edge_starts[a : b + 1])
        adjacent = np.zeros((b - a, b - a))
        adjacent[sample.sources[first:last] - a, np.repeat(np.arange(b - a), degrees)] = 1.0
        counts.append([float((adjacent @ adjacent * adjacent.T).sum()), float((degrees * (degrees - 1)).sum())])
    return np.array(counts)
