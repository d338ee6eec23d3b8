"""Which graphs, or which nodes of one large graph, to train, validate and test with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gnpool.data import DataError, GraphTable
from gnpool.data.table import Ints
from gnpool.fit.words import counted

SPLITS = ("size", "random")
PARTS = ("train", "validation", "inside", "larger")
GIVEN = ("train", "validation", "test")  # the parts that a user can give
LEAST = 10  # the fewest graphs or nodes that can be split
LARGER, INSIDE, VALIDATION = 0.2, 0.15, 0.15  # shares of all graphs
BARS = 30  # the length of the longest bar, in characters
BINS = 10


@dataclass(frozen=True)
class Split:
    """Positions of the graphs, or of the nodes of one graph, in each part.

    All parts but the last are in random order, so that their first items are a random sample. ``train`` fits and
    ``validation`` selects. ``inside`` tests on training sizes, and ``larger`` on larger ones (with a random split it is
    a second test of the same sizes). The two tests decide nothing.

    Args:
        by (str): ``"size"``, ``"random"``, or ``"given"`` by the user.
        sizes (array): The size of each item: the nodes of a graph, or the neighbours of a node.
        unit (str): The kind of the items, ``"graph"`` or ``"node"``.

    Example:
        >>> import numpy as np
        >>> from gnpool.fit import make_split
        >>> split = make_split(np.arange(10, 30))
        >>> {name: len(graphs) for name, graphs in split.parts().items()}
        {'train': 10, 'validation': 3, 'inside': 3, 'larger': 4}
    """

    by: str
    train: Ints
    validation: Ints
    inside: Ints
    larger: Ints
    note: str | None
    sizes: Ints
    unit: str = "graph"

    def parts(self) -> dict[str, Ints]:
        """By name."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def measure(self) -> str:
        """The unit of the sizes."""
        return "nodes" if self.unit == "graph" else "neighbours"


def split_table(
    table: GraphTable, by: str = "size", seed: int = 0, train_up_to: int | None = None, test_from: int | None = None
) -> Split:
    """The split of a table: by given parts, by the degrees of the nodes of a single graph, or by size."""
    unit = "node" if table.level == "node" and (len(table.sizes) == 1 or table.part is not None) else "graph"
    sizes = table.sizes
    if unit == "node":
        assert table.edge_index is not None
        sizes = np.bincount(table.edge_index[1], minlength=int(table.sizes.sum()))
    if table.part is not None:
        found = _given(sizes, table.part, unit, seed)
    else:
        found = make_split(sizes, by, seed, train_up_to, test_from, unit)
    if unit == "graph":
        return found
    # in the order of the networks' outputs
    train, validation, inside, larger = (np.sort(part) for part in found.parts().values())
    return replace(found, train=train, validation=validation, inside=inside, larger=larger)


def make_split(
    sizes: Ints,
    by: str = "size",
    seed: int = 0,
    train_up_to: int | None = None,
    test_from: int | None = None,
    unit: str = "graph",
) -> Split:
    r"""Split graphs by their number of nodes, nodes by their number of neighbours, or both at random.

    A split by size tests on the largest fifth: no graph of another part is as large as any of these. The rest is
    shuffled. With ``train_up_to`` no larger graph is used for training or validation; with ``test_from`` no smaller
    graph is in the test on larger graphs. Graphs between the two are left out. If all graphs have the same size, the
    split is random and has a ``note`` that says so.

    Example:
        >>> import numpy as np
        >>> from gnpool.fit import make_split
        >>> sizes = np.repeat([5, 10, 20, 100], 10)
        >>> split = make_split(sizes)
        >>> int(sizes[split.train].max()), int(sizes[split.larger].min())
        (20, 100)
        >>> make_split(np.full(40, 7)).note
        'all graphs have 7 nodes: the split is random, not by size'
    """
    if by not in SPLITS:
        raise ValueError(f"'split' must be one of {SPLITS}, got {by!r}")
    count, note = len(sizes), None
    if count < LEAST:
        raise DataError(
            f"the data has {counted(count, unit)}; to train, validate and test, at least {LEAST} are needed"
        )
    order = np.random.default_rng(seed).permutation(count)
    larger, left_out = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    told = train_up_to is not None or test_from is not None
    if told:
        if by != "size":
            raise ValueError("'train_up_to' and 'test_from' need a split by size; leave them out or use split='size'")
        larger, left_out = _gap(sizes, train_up_to, test_from, unit)
        note = f"{int(left_out.sum())} {unit}s of sizes between the two are left out" if left_out.any() else None
    elif by == "size":
        larger = _largest(sizes)
        if not larger.any():
            every = f"all {unit}s have {counted(int(sizes[0]), 'node' if unit == 'graph' else 'neighbour')}"
            by, note = "random", f"{every}: the split is random, not by size"
    if by == "random":
        larger[order[: round(LARGER * count)]] = True
    rest = order[~(larger | left_out)[order]]
    # the shares refer to all graphs, of which the larger ones are taken to be a fifth
    whole = len(rest) / (1 - LARGER) if told else count
    inside, validation = (max(1, round(share * whole)) for share in (INSIDE, VALIDATION))
    if len(rest) < inside + validation + 2:
        raise DataError(
            f"only {counted(len(rest), unit)} below {int(sizes[larger].min())} "
            f"{'nodes' if unit == 'graph' else 'neighbours'}, too few to train with; "
            "a random split is --split random (split='random')"
        )
    return Split(
        by,
        train=rest[inside + validation :],
        validation=rest[inside : inside + validation],
        inside=rest[:inside],
        larger=np.flatnonzero(larger),
        note=note,
        sizes=sizes,
        unit=unit,
    )


def _gap(
    sizes: Ints, train_up_to: int | None, test_from: int | None, unit: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which items are the test on larger ones, and which are left out, if the user gives sizes."""
    limit = test_from - 1 if train_up_to is None and test_from is not None else train_up_to
    assert limit is not None
    first = limit + 1 if test_from is None else test_from
    if first <= limit:
        raise ValueError(f"'test_from' must be above 'train_up_to', got {first} and {limit}")
    larger = sizes >= first
    if not larger.any():
        raise DataError(f"no {unit} is as large as {first} (test_from); the largest has {int(sizes.max())}")
    if not (sizes <= limit).any():
        raise DataError(f"no {unit} is as small as {limit} (train_up_to); the smallest has {int(sizes.min())}")
    return larger, ~larger & (sizes > limit)


def _given(sizes: Ints, part: Ints, unit: str, seed: int) -> Split:
    """The parts that the user named; the test is cut by size, so that both tests can be compared."""
    order = np.random.default_rng(seed).permutation(len(sizes))
    train, validation, test = (order[part[order] == number] for number in range(len(GIVEN)))
    for name, items in zip(GIVEN, (train, validation, test), strict=True):
        if len(items) < (1 if name == "validation" else 2):
            raise DataError(f"the part {name!r} has only {counted(len(items), unit)}; give it more")
    large = _largest(sizes[test])
    if not large.any():
        large[: max(1, len(test) // 2)] = True
    left = int((part < 0).sum())
    note = f"{counted(left, unit)} of no part {'is' if left == 1 else 'are'} left out" if left else None
    return Split("given", train, validation, test[~large], np.sort(test[large]), note, sizes, unit)


def _largest(sizes: Ints) -> NDArray[np.bool_]:
    """The largest graphs: all above a size, as near to a fifth of them as the sizes allow."""
    kept, counts = np.unique(sizes, return_counts=True)
    above = counts[::-1].cumsum()[::-1]  # the number of graphs that have at least each size
    if len(kept) == 1:
        return np.zeros(len(sizes), dtype=bool)
    choice = 1 + int(np.argmin(np.abs(above[1:] / len(sizes) - LARGER)))
    return sizes >= kept[choice]


def histogram(split: Split) -> str:
    """The sizes of the graphs as text, with a bar for each range and a character for each part.

    Example:
        >>> import numpy as np
        >>> from gnpool.fit import histogram, make_split
        >>> print(histogram(make_split(np.arange(10, 30), train_up_to=25, test_from=26)).splitlines()[-1].strip())
        # train, + validation, o test, same sizes, * test, larger
    """
    sizes = split.sizes
    low, high = int(sizes.min()), int(sizes.max())
    edges = np.unique(np.round(np.geomspace(max(1, low), high + 1, BINS + 1)).astype(np.int64))
    if split.by == "size":  # no bar may hold both training and larger sizes
        edges = np.unique(np.append(edges, sizes[split.larger].min()))
    edges = np.unique(np.append(edges, low))
    if len(edges) < 2:
        edges = np.array([low, high + 1])
    counts = {name: np.histogram(sizes[part], edges)[0] for name, part in split.parts().items()}
    most = max(1, int(np.sum(list(counts.values()), axis=0).max()))
    letters = {"train": "#", "validation": "+", "inside": "o", "larger": "*"}
    lines = [f"{split.measure:>15}  {split.unit}s"]
    for k, (first, stop) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        label = f"{first}" if stop - first == 1 else f"{first} to {stop - 1}"
        total = sum(int(count[k]) for count in counts.values())
        bar = "".join(letters[name] * round(BARS * int(count[k]) / most) for name, count in counts.items())
        lines.append(f"{label:>15}  {total:>6}  {bar}".rstrip())
    tests = "o test, same sizes, * test, larger" if split.by == "size" else "o * test"
    return "\n".join([*lines, f"{'':>15}  # train, + validation, {tests}"])
