"""Which graphs to train, validate and test with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnpool.data import DataError
from gnpool.data.table import Ints

SPLITS = ("size", "random")
PARTS = ("train", "validation", "inside", "larger")
LEAST = 10  # graphs
LARGER, INSIDE, VALIDATION = 0.2, 0.15, 0.15  # shares of all graphs
BARS = 30  # characters
BINS = 10


@dataclass(frozen=True)
class Split:
    """Positions of the graphs of each part, in random order but for the last, so that the first are a sample.

    ``train`` fits, ``validation`` selects, ``inside`` tests among the training sizes, ``larger`` above them (with a
    random split: a second test of the same sizes). Nothing is decided by the last two.
    """

    by: str
    train: Ints
    validation: Ints
    inside: Ints
    larger: Ints
    note: str | None = None

    def parts(self) -> dict[str, Ints]:
        """By name."""
        return {name: getattr(self, name) for name in PARTS}


def make_split(sizes: Ints, by: str = "size", seed: int = 0) -> Split:
    r"""Split graphs by their number of nodes, or at random.

    By size, the largest fifth is the test of the larger: no graph of another part is as large as any of them. The
    rest is shuffled. If all graphs have one size the split is random, and says so.
    """
    if by not in SPLITS:
        raise ValueError(f"'split' must be one of {SPLITS}, got {by!r}")
    count = len(sizes)
    if count < LEAST:
        graphs = "one graph" if count == 1 else f"{count} graphs"
        raise DataError(f"the data has {graphs}; to train, validate and test, at least {LEAST} are needed")
    note = None
    order = np.random.default_rng(seed).permutation(count)
    larger = np.zeros(count, dtype=bool)
    if by == "size":
        larger = _largest(sizes)
        if not larger.any():
            by, note = "random", f"all graphs have {int(sizes[0])} nodes: the split is random, not by size"
    if by == "random":
        larger[order[: round(LARGER * count)]] = True
    rest = order[~larger[order]]
    inside, validation = (max(1, round(share * count)) for share in (INSIDE, VALIDATION))
    if len(rest) < inside + validation + 2:
        raise DataError(
            f"only {len(rest)} graphs are smaller than {int(sizes[larger].min())} nodes, too few to train with; "
            "a random split is --split random (split='random')"
        )
    return Split(
        by,
        train=rest[inside + validation :],
        validation=rest[inside : inside + validation],
        inside=rest[:inside],
        larger=np.flatnonzero(larger),
        note=note,
    )


def _largest(sizes: Ints) -> NDArray[np.bool_]:
    """About the largest fifth: all graphs above a size, as near to a fifth as sizes allow."""
    kept, counts = np.unique(sizes, return_counts=True)
    above = counts[::-1].cumsum()[::-1]  # graphs of at least each size
    if len(kept) == 1:
        return np.zeros(len(sizes), dtype=bool)
    choice = 1 + int(np.argmin(np.abs(above[1:] / len(sizes) - LARGER)))
    return sizes >= kept[choice]


def histogram(sizes: Ints, split: Split) -> str:
    """The sizes of the graphs as text: a bar for each range, a letter for each part."""
    low, high = int(sizes.min()), int(sizes.max())
    edges = np.unique(np.round(np.geomspace(low, high + 1, BINS + 1)).astype(np.int64))
    if split.by == "size":  # no bar holds both
        edges = np.unique(np.append(edges, sizes[split.larger].min()))
    if len(edges) < 2:
        edges = np.array([low, high + 1])
    counts = {name: np.histogram(sizes[part], edges)[0] for name, part in split.parts().items()}
    most = max(1, int(np.sum(list(counts.values()), axis=0).max()))
    letters = {"train": "#", "validation": "+", "inside": "o", "larger": "*"}
    lines = [f"{'nodes':>15}  graphs"]
    for k, (first, stop) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        label = f"{first}" if stop - first == 1 else f"{first} to {stop - 1}"
        total = sum(int(count[k]) for count in counts.values())
        bar = "".join(letters[name] * round(BARS * int(count[k]) / most) for name, count in counts.items())
        lines.append(f"{label:>15}  {total:>6}  {bar}".rstrip())
    tests = "o test, same sizes, * test, larger" if split.by == "size" else "o * test"
    return "\n".join([*lines, f"{'':>15}  # train, + validation, {tests}"])
