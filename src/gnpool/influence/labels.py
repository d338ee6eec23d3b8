"""Cascades as training data: seed sets, and the probability that each node is active by each step."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnpool.engine import Caller, Engine
from gnpool.influence.cascades import simulate
from gnpool.influence.graph import CascadeGraph
from gnpool.store.files import replacing, write
from gnpool.store.regular import open_regular

KINDS = ("uniform", "degree")
SHARE = 0.02  # share of the nodes in the largest seed set
PUBLISHED_SETS, PUBLISHED_RUNS = 2000, 10_000  # sets of each kind, simulations of each set
STEPS = 50  # no pair begins after this step
GROWTH = 0.001  # once the influence grows by less than this share, the rest of a cascade holds no pairs
CHUNK = 25  # sets in a file
MOST_RUNS = 2**15 - 1  # counts are kept in 16 bits


@dataclass(frozen=True, eq=False)
class Labels:
    """Simulated cascades of many seed sets on one graph.

    Row r of ``table`` says in how many of ``runs`` cascades each node was active by some step; row 0 is all zeros.

    Args:
        runs (int): Cascades of each set.
        table (Tensor): Counts, int16 (R, N).
        first (Tensor): The row of step 0 of each set, int64 (S).
        pairs (Tensor): Steps of each set from which the next step is predicted, int64 (S): 0, 1, ..., pairs - 1.
        last (Tensor): The row of the end of each set, int64 (S).
        kinds (list): How the seeds of each set were drawn.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, make_labels
        >>> ring = CascadeGraph(60, np.arange(60), np.roll(np.arange(60), -1), np.full(60, 0.5))
        >>> labels = make_labels(ring, sets=2, runs=64)
        >>> len(labels), labels.kinds, labels.influence().shape
        (4, ['uniform', 'uniform', 'degree', 'degree'], torch.Size([4]))
    """

    runs: int
    table: Tensor
    first: Tensor
    pairs: Tensor
    last: Tensor
    kinds: list[str]

    def history(self, sets: Sequence[int]) -> Tensor:
        """For every pair of these sets the rows of steps i - 3, ..., i + 1, int64 (P, 5)."""
        found = []
        for number in sets:
            steps = torch.arange(int(self.pairs[number]))[:, None] + torch.arange(-3, 2)
            found.append(torch.where(steps >= 0, steps + self.first[number], 0))
        return torch.cat(found) if found else torch.empty((0, 5), dtype=torch.long)

    def influence(self) -> Tensor:
        """Of each set, float64 (S)."""
        return self.table[self.last].double().sum(1) / self.runs

    def __len__(self) -> int:
        return len(self.kinds)


def draw_seeds(graph: CascadeGraph, kind: str, rng: np.random.Generator) -> NDArray[np.int64]:
    r"""A seed set of random size, at most 2 % of the nodes.

    Its size is :math:`\lfloor U (0.02 n - 1) + 1 \rfloor` with U uniform in [0, 1). ``"uniform"`` draws nodes with
    equal chances, ``"degree"`` with chances proportional to the number of edges out of them.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, draw_seeds
        >>> star = CascadeGraph(1000, np.zeros(999, dtype=int), np.arange(1, 1000), np.full(999, 0.1))
        >>> rng = np.random.default_rng(0)
        >>> len(draw_seeds(star, "uniform", rng)) <= 20, draw_seeds(star, "degree", rng).tolist()
        (True, [0])
    """
    size = max(1, int(rng.random() * (SHARE * graph.nodes - 1) + 1))
    if kind == "uniform":
        return rng.choice(graph.nodes, min(size, graph.nodes), replace=False)
    if kind != "degree":
        raise ValueError(f"'kind' must be one of {', '.join(KINDS)}, got {kind!r}")
    ends = rng.permutation(graph.source)  # each node as often as edges leave it; the first of each counts
    nodes, first = np.unique(ends, return_index=True)
    return nodes[np.argsort(first)][:size]


def make_labels(
    graph: CascadeGraph,
    *,
    sets: int = PUBLISHED_SETS,
    runs: int = PUBLISHED_RUNS,
    seed: int = 0,
    device: torch.device | str = "cpu",
    folder: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    check: Callable[[], None] | None = None,
    engine: Engine | None = None,
) -> Labels:
    r"""Simulates ``sets`` uniform seed sets and as many in proportion to the degree.

    With a folder, every 25 sets are stored in a compressed file there, and existing files are not simulated again. The
    defaults are those of the paper. Fewer sets or runs are a reduced setting, which should be stated with the results.
    Set number i of a kind is the same for every value of ``sets``.

    Args:
        graph (CascadeGraph): The graph.
        sets (int, optional): Seed sets of each kind. (default: ``2000``)
        runs (int, optional): Simulations of each set, at most 32,767. (default: ``10_000``)
        seed (int, optional): Seed of the sets and the cascades. (default: ``0``)
        device (torch.device or str, optional): Where to simulate. (default: ``"cpu"``)
        folder (str or Path, optional): Where to keep them.
        progress (callable, optional): Called with the number of sets done, and of all.
        check (callable, optional): Called before each file's sets; may raise to stop.
        engine (Engine, optional): Runs the simulations, with 25 sets in a unit. (default: this process)

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, make_labels
        >>> ring = CascadeGraph(60, np.arange(60), np.roll(np.arange(60), -1), np.full(60, 1.0))
        >>> labels = make_labels(ring, sets=1, runs=64)
        >>> labels.influence().tolist()  # with probability 1 the seeds activate the whole ring
        [60.0, 60.0]
    """
    if sets < 1:
        raise ValueError(f"'sets' must be at least 1, got {sets}")
    if not 1 <= runs <= MOST_RUNS:
        raise ValueError(f"'runs' must lie in [1, {MOST_RUNS}], got {runs}")
    place = None if folder is None else Path(folder) / _digest(graph, runs, seed)
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
        about = {"nodes": graph.nodes, "edges": graph.edges, "runs": runs, "seed": seed}
        write(place / "about.json", json.dumps(about).encode(), shared=True)
    engine = engine or Engine(device)
    chunks = [(k, begin) for k in range(len(KINDS)) for begin in range(0, sets, CHUNK)]
    files = [None if place is None else place / f"{KINDS[k]}-{begin:05d}.npz" for k, begin in chunks]
    contents = [None if file is None else _load(file, graph.nodes, runs) for file in files]
    # Whole chunks, so that a longer list begins with a shorter one; the last may be cut off afterwards.
    ends = [begin + CHUNK if place is not None else min(begin + CHUNK, sets) for _, begin in chunks]
    todo = [number for number, content in enumerate(contents) if content is None]
    shared, where = engine.share(graph), torch.device(device)
    work = [(shared, *chunks[number], ends[number], runs, seed, where) for number in todo]
    caller = Caller() if check is None else Caller(tell=lambda begin: check())  # which every unit does first
    for done, (place_of, content) in enumerate(engine.each(chunk_unit, work, caller), start=1):
        number = todo[place_of]
        contents[number] = content
        file = files[number]
        if file is not None:
            _save(file, content)
        if progress is not None:
            progress(len(KINDS) * sets * (len(chunks) - len(todo) + done) // len(chunks), len(KINDS) * sets)
    pieces = [
        (KINDS[k], _cut(content, min(CHUNK, sets - begin)))
        for (k, begin), content in zip(chunks, contents, strict=True)
        if content is not None
    ]
    return _join(pieces, runs, graph.nodes)


def chunk_unit(
    caller: Caller, graph: CascadeGraph, k: int, begin: int, end: int, runs: int, seed: int, device: torch.device
) -> dict[str, NDArray[Any]]:
    """Some sets of one kind: the rows of the table, and how many pairs each set has."""
    caller.tell(begin)
    sets = range(begin, end)
    seeds = [draw_seeds(graph, KINDS[k], np.random.default_rng([seed, k, number])) for number in sets]
    found = simulate(graph, seeds, runs, seed=_seed_of(seed, k, begin), record=True, device=device)
    assert found.steps is not None
    rows, pairs = [], []
    for counts in found.steps:
        growth = np.diff(counts.sum(1, dtype=torch.int64).numpy()) / runs
        small = np.flatnonzero(growth < GROWTH)
        pairs.append(min(STEPS, int(small[0]) if small.size else growth.size))
        keep = counts[: pairs[-1] + 1]
        rows.append(torch.cat([keep, counts[-1:]]).short().cpu().numpy())  # the last row is the end
    return {"counts": np.concatenate(rows), "pairs": np.array(pairs, dtype=np.int64)}


def _seed_of(seed: int, kind: int, begin: int) -> int:
    """Seeds of simulations that have nothing in common."""
    return int.from_bytes(hashlib.sha256(f"{seed} {kind} {begin}".encode()).digest()[:8], "little")


def _cut(content: dict[str, NDArray[Any]], sets: int) -> dict[str, NDArray[Any]]:
    pairs = content["pairs"][:sets]
    return {"counts": content["counts"][: int((pairs + 2).sum())], "pairs": pairs}


def _join(pieces: Sequence[tuple[str, dict[str, NDArray[Any]]]], runs: int, nodes: int) -> Labels:
    tables = [np.zeros((1, nodes), dtype=np.int16), *(content["counts"] for _, content in pieces)]
    pairs = np.concatenate([content["pairs"] for _, content in pieces])
    last = np.cumsum(pairs + 2)  # row 0 of the table stands before the first
    kinds = [kind for kind, content in pieces for _ in content["pairs"]]
    first = last - pairs - 1
    return Labels(
        runs,
        torch.from_numpy(np.concatenate(tables)),
        torch.from_numpy(first),
        torch.from_numpy(pairs),
        torch.from_numpy(last),
        kinds,
    )


def _digest(graph: CascadeGraph, runs: int, seed: int) -> str:
    parts = (graph.source, graph.target, graph.probability)
    digest = hashlib.sha256(f"1 {graph.nodes} {runs} {seed}".encode())
    for part in parts:
        digest.update(part.tobytes())
    return digest.hexdigest()[:16]


def _save(file: Path, content: dict[str, NDArray[Any]]) -> None:
    """Differences between steps, mostly zeros, compressed; the file is there wholly or not at all."""
    counts, pairs = content["counts"], content["pairs"]
    with replacing(file, shared=True) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as part:
        np.savez_compressed(part, counts=_differences(counts, pairs), pairs=pairs)


def _load(file: Path, nodes: int, runs: int) -> dict[str, NDArray[Any]] | None:
    """The content of a file; None if it is not there, or not what :func:`_save` wrote: then it is simulated again."""
    try:
        with open_regular(file) as opened, np.load(opened, allow_pickle=False) as content:
            most = 2 * nodes * CHUNK * (STEPS + 2) + 8 * CHUNK + 2**12  # bytes of both arrays, headers included
            if sum(member.file_size for member in content.zip.infolist()) > most:
                return None
            pairs, counts = content["pairs"], content["counts"]
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error):
        return None
    if (pairs.shape, pairs.dtype, counts.dtype) != ((CHUNK,), np.int64, np.int16):
        return None
    if pairs.min() < 0 or pairs.max() > STEPS or counts.shape != (int((pairs + 2).sum()), nodes):
        return None
    out = np.empty_like(counts)
    begin = 0
    for rows in (pairs + 2).tolist():
        np.cumsum(counts[begin : begin + rows], axis=0, out=out[begin : begin + rows])
        begin += rows
    return {"counts": out, "pairs": pairs} if out.min() >= 0 and out.max() <= runs else None


def _differences(counts: NDArray[np.int16], pairs: NDArray[np.int64]) -> NDArray[np.int16]:
    out = counts.copy()
    out[1:] -= counts[:-1]
    begins = np.cumsum(pairs + 2) - (pairs + 2)
    out[begins] = counts[begins]
    return out
