"""Up to which size equally good laws agree: the laws are run on grown graphs, and no label is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnpool.insight.laws.points import Floats
from gnpool.insight.laws.space import Level, Sample

FACTORS = (2, 4, 8, 16)
GROWN = 8  # graphs of each size
MOST_NODES = 20_000  # of a grown graph
WAYS = ("degree", "density")  # what stays as it is when a graph grows


def grown(sample: Sample, factor: int, way: str, seed: int = 0) -> Sample:
    """Random graphs ``factor`` times as large: nodes drawn from the given ones, edges of the same degree or density."""
    random = np.random.default_rng([seed, factor, WAYS.index(way)])
    sizes = np.diff(sample.starts)
    chosen = random.choice(len(sizes), GROWN)
    new = np.minimum(sizes[chosen] * factor, MOST_NODES)
    starts = np.concatenate([[0], np.cumsum(new)])
    x = sample.x[random.integers(0, sample.nodes, int(starts[-1]))]
    sources, targets = [], []
    for graph, size, start in zip(chosen, new, starts[:-1], strict=True):
        first, last = sample.edge_starts[sample.starts[graph]], sample.edge_starts[sample.starts[graph + 1]]
        old = int(sizes[graph])
        wanted = (last - first) * (size / old) ** (1 if way == "degree" else 2) / 2
        pairs = random.integers(0, size, (2, int(wanted)))
        pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1) + start
        sources += [pairs[0], pairs[1]]
        targets += [pairs[1], pairs[0]]
    source, target = np.concatenate(sources), np.concatenate(targets)
    order = np.argsort(target, kind="stable")
    edge_starts = np.searchsorted(target[order], np.arange(int(starts[-1]) + 1))
    return Sample(x, starts, source[order], edge_starts, sample.loops)


def trusted_size(
    sample: Sample,
    level: Level,
    chosen: Callable[[Sample], Floats],
    rivals: Sequence[Callable[[Sample], Floats]],
    tolerance: float,
) -> tuple[int, float]:
    """The largest size up to which all rivals are within ``tolerance`` of the chosen law, and how far they are there.

    The sizes tried are 2, 4, 8 and 16 times those of the given graphs, grown with the same degrees and, unless it is a
    set, with the same density. The difference is relative, the mean over the grown graphs.
    """
    largest, apart = int(np.diff(sample.starts).max()), 0.0
    usual = float(np.diff(sample.starts).mean())
    for factor in FACTORS:
        here = 0.0
        for way in WAYS if sample.loops and level != "set" and usual * factor <= 1000 else WAYS[:1]:
            larger = grown(sample, factor, way)
            truth = chosen(larger)
            for rival in rivals:
                with np.errstate(all="ignore"):
                    far = np.abs(rival(larger) - truth).mean() / np.abs(truth).mean()
                here = max(here, float(far)) if np.isfinite(far) else np.inf
        if here > tolerance:
            break
        largest, apart = int(np.diff(sample.starts).max()) * factor, here
    return largest, apart
