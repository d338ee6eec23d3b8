"""Independent cascades from many seed sets at once, on a CPU or a GPU, with the same bits."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnpool.influence.graph import ONES, CascadeGraph
from gnpool.ops.cpu_threads import run_on_threads, thread_count

GAMMA = 0x9E3779B97F4A7C15
WORD = 64  # cascades in a block
TASK, RECORDED = 4, 16  # blocks of a task; where nodes are counted each task adds up a whole table of counts
MAX_STEPS = 100  # recorded one by one
SeedSets = Sequence[Sequence[int] | NDArray[np.int64]]
Progress = Callable[[int, int], None]  # cascades done, of how many


@dataclass(frozen=True, eq=False)
class Cascades:
    """What simulations of some seed sets have shown.

    Args:
        runs (int): Cascades of each set.
        influence (Tensor): Mean number of active nodes at the end, seeds included, float64 (S).
        standard_error (Tensor): Standard error of that mean, float64 (S).
        steps (list, optional): For each set, how many cascades have activated a node by step 0, 1, ..., int32
            (T + 1, N); the last row is the end.
    """

    runs: int
    influence: Tensor
    standard_error: Tensor
    steps: list[Tensor] | None = None

    @property
    def probability(self) -> Tensor:
        """How likely each node is to be active at the end, float64 (S, N)."""
        if self.steps is None:
            raise ValueError("the nodes were not recorded; simulate with record=True")
        return torch.stack([counts[-1] for counts in self.steps]).double() / self.runs


def simulate(
    graph: CascadeGraph,
    seed_sets: SeedSets,
    runs: int = 10_000,
    *,
    seed: int = 0,
    record: bool = False,
    max_steps: int = MAX_STEPS,
    paired: bool = False,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Cascades:
    r"""Simulates the independent cascade model.

    The seeds are active at step 0. A node that became active at step t activates each inactive out-neighbour at step
    t + 1 with the probability of the edge, and never tries again. Equivalently each edge is live with its
    probability, and a node becomes active at the length of the shortest live path from the seeds; that is how it is
    computed, 64 cascades in a word. The same arguments give the same cascades on every device and for any number of
    threads.

    Args:
        graph (CascadeGraph): Who activates whom.
        seed_sets (Sequence[Sequence[int]]): The nodes that are active at the start, one sequence for each set.
        runs (int, optional): Cascades of each set. (default: ``10_000``)
        seed (int, optional): Another number, other cascades. (default: ``0``)
        record (bool, optional): Whether to count the activations of each node by step. (default: ``False``)
        max_steps (int, optional): Steps that are recorded one by one; all later activations count for the last.
        paired (bool, optional): Whether all sets see the same live edges, so that their differences have little noise;
            otherwise each set has its own. (default: ``False``)
        device (torch.device or str, optional): ``"cpu"``: all threads of torch; a GPU. (default: ``"cpu"``)
        progress (callable, optional): Called now and then with the number of cascades done, and of all.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, simulate
        >>> chain = CascadeGraph(3, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.5]))
        >>> found = simulate(chain, [[0], [2]], runs=100_000, record=True)
        >>> print(f"{found.influence[0]:.2f}", f"{found.standard_error[0]:.4f}", found.influence[1].item())
        1.75 0.0026 1.0
        >>> found.probability[0].numpy().round(2)
        array([1.  , 0.5 , 0.25])
    """
    sets = check_seeds(graph, seed_sets)
    if runs < 1:
        raise ValueError(f"'runs' must be at least 1, got {runs}")
    if max_steps < 1:
        raise ValueError(f"'max_steps' must be at least 1, got {max_steps}")
    place = torch.device(device)
    if place.type == "cpu":
        return _simulate_cpu(graph, sets, runs, seed, record, max_steps, paired, progress)
    from gnpool.influence.cascade_cuda import simulate_cuda  # Triton is there only where a GPU is

    return simulate_cuda(graph, sets, runs, seed, record, max_steps, paired, place, progress)


def check_seeds(graph: CascadeGraph, seed_sets: SeedSets) -> list[NDArray[np.int64]]:
    """Each set as an array of nodes, each node once."""
    sets = []
    for number, nodes in enumerate(seed_sets):
        seeds = np.unique(np.asarray(list(nodes), dtype=np.int64))
        if seeds.size and (seeds[0] < 0 or seeds[-1] >= graph.nodes):
            wrong = seeds[0] if seeds[0] < 0 else seeds[-1]
            raise ValueError(f"seed set {number}: nodes must lie in [0, {graph.nodes}), got {wrong}")
        sets.append(seeds)
    return sets


def block_keys(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """Where the random streams of blocks ``first`` to ``first + count`` begin."""
    root = mix(np.array([seed % 2**64], dtype=np.uint64))
    numbers = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    return mix(root + numbers * np.uint64(GAMMA))


def mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """:func:`gnpool.influence.cascade_kernels.mix` of an array."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def block_lanes(runs: int) -> NDArray[np.uint64]:
    """The cascades of each block as bits: all 64, in the last block perhaps fewer."""
    lanes = np.full(-(-runs // WORD), ONES)
    if runs % WORD:
        lanes[-1] = np.uint64(2 ** (runs % WORD) - 1)
    return lanes


def moments(total: int, squares: int, runs: int) -> tuple[float, float]:
    """Mean and its standard error, from the sum and the sum of squares of whole numbers."""
    spread = squares * runs - total * total  # exact: runs^2 times the variance
    return total / runs, math.sqrt(spread / (runs - 1)) / runs if runs > 1 else math.nan


def trimmed(added: Tensor) -> Tensor:
    """Activations at each step (T, N) -> by each step, up to the last that brought one."""
    active = added.any(1).nonzero()
    last = int(active[-1]) if active.numel() else 0
    return added[: last + 1].cumsum(0, dtype=torch.int32)


def _simulate_cpu(
    graph: CascadeGraph,
    sets: Sequence[NDArray[np.int64]],
    runs: int,
    seed: int,
    record: bool,
    max_steps: int,
    paired: bool,
    progress: Progress | None,
) -> Cascades:
    lanes = block_lanes(runs)
    blocks = lanes.size
    span = max(RECORDED, -(-blocks // 64)) if record else TASK
    tasks = list(itertools.product(range(len(sets)), range(0, blocks, span)))
    crew = _Crew(graph, sets, seed, paired, lanes, span, max_steps if record else None, progress, runs)
    draw = iter(tasks)
    run_on_threads(lambda: crew.work(draw), min(thread_count(), len(tasks)) or 1)
    found = [moments(total, squares, runs) for total, squares in crew.totals]
    mean, error = (torch.tensor(column, dtype=torch.float64) for column in (zip(*found, strict=True) or ((), ())))
    return Cascades(runs, mean, error, crew.finished() if record else None)


class _Crew:
    """Threads that draw tasks; whole numbers are added up, so that their order does not matter."""

    def __init__(
        self,
        graph: CascadeGraph,
        sets: Sequence[NDArray[np.int64]],
        seed: int,
        paired: bool,
        lanes: NDArray[np.uint64],
        span: int,
        max_steps: int | None,
        progress: Progress | None,
        runs: int,
    ) -> None:
        self.graph, self.sets, self.seed, self.paired = graph, sets, seed, paired
        self.lanes, self.span, self.runs, self.progress = lanes, span, runs, progress
        self.rows = 0 if max_steps is None else max_steps + 1
        self.totals = [(0, 0)] * len(sets)
        self.added: list[Any] = [None] * len(sets)
        self.left = [-(-lanes.size // span)] * len(sets)
        self.done = 0
        self.lock = threading.Lock()

    def work(self, draw: Iterator[tuple[int, int]]) -> None:
        """Do tasks until none is left."""
        from gnpool.influence.cascade_kernels import PLANES, block_kernel

        graph, nodes = self.graph, self.graph.nodes
        with self.lock:  # lists that are computed once
            lists = (graph.out_ptr, *graph.out_lists)
        words = [np.zeros(nodes, dtype=np.uint64) for _ in range(3)]
        queues = [np.empty(nodes, dtype=np.int32 if nodes < 2**31 else np.int64) for _ in range(3)]
        planes = np.zeros(min(PLANES, max(nodes, 1).bit_length() + 1), dtype=np.uint64)
        counts = np.zeros((self.rows, nodes), dtype=np.int32)
        while True:
            with self.lock:
                task = next(draw, None)
            if task is None:
                return
            number, first = task
            count = min(self.span, self.lanes.size - first)
            start = first if self.paired else number * self.lanes.size + first
            keys, lanes = block_keys(self.seed, start, count), self.lanes[first : first + count]
            totals = np.zeros(2, dtype=np.int64)
            longest = block_kernel(keys, lanes, self.sets[number], *lists, *words, *queues, planes, totals, counts)
            self._report(number, first, count, totals, counts[: longest + 1])
            counts[: longest + 1] = 0

    def _report(
        self, number: int, first: int, count: int, totals: NDArray[np.int64], counts: NDArray[np.int32]
    ) -> None:
        with self.lock:
            total, squares = self.totals[number]
            self.totals[number] = (total + int(totals[0]), squares + int(totals[1]))
            if self.rows:
                self._add(number, counts)
            self.done += min(self.runs, (first + count) * WORD) - first * WORD
            if self.progress is not None:
                self.progress(self.done, self.runs * len(self.sets))

    def _add(self, number: int, counts: NDArray[np.int32]) -> None:
        before = self.added[number]
        if before is None or before.shape[0] < counts.shape[0]:
            grown = counts.copy()
            if before is not None:
                grown[: before.shape[0]] += before
            before = grown
        else:
            before[: counts.shape[0]] += counts
        self.left[number] -= 1
        self.added[number] = before if self.left[number] else trimmed(torch.from_numpy(before))

    def finished(self) -> list[Tensor]:
        """Activations by each step, set by set."""
        return list(self.added)
