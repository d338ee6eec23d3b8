"""Independent cascades from many seed sets at once. CPU and GPU give the same bits."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnpool.engine import Caller, Engine
from gnpool.influence.graph import ONES, CascadeGraph
from gnpool.influence.stoppable import new_stop, run_stoppable
from gnpool.ops.cpu.threads import thread_count

GAMMA = 0x9E3779B97F4A7C15
WORD = 64  # cascades in a block
TASK, RECORDED = 4, 16  # blocks of a task; where nodes are counted each task adds up a whole table of counts
MAX_STEPS = 100  # recorded one by one
PART = 64  # blocks of a unit that goes to another process
SeedSets = Sequence[Sequence[int] | NDArray[np.int64]]
Progress = Callable[[int, int], None]  # cascades done, of how many


@dataclass(frozen=True, eq=False)
class Cascades:
    """The results of simulations from some seed sets.

    Args:
        runs (int): Cascades of each set.
        influence (Tensor): Mean number of active nodes at the end, seeds included, float64 (S).
        standard_error (Tensor): Standard error of that mean, float64 (S).
        steps (list, optional): For each set, how many cascades have activated a node by step 0, 1, ..., int32
            (T + 1, N); the last row is the end.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, simulate
        >>> star = CascadeGraph(4, np.array([0, 0, 0]), np.array([1, 2, 3]), np.array([1.0, 1.0, 0.0]))
        >>> found = simulate(star, [[0], [3]], runs=64, record=True)
        >>> found.influence.tolist(), found.standard_error.tolist(), found.probability[0].tolist()
        ([3.0, 1.0], [0.0, 0.0], [1.0, 1.0, 1.0, 0.0])
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
    engine: Engine | None = None,
) -> Cascades:
    r"""Simulates the independent cascade model.

    The seeds are active at step 0. A node that became active at step t activates each inactive out-neighbour at step
    t + 1 with the probability of the edge, and never tries again. Equivalently each edge is live with its
    probability, and a node becomes active at the length of the shortest live path from the seeds. The cascades are
    computed in this way, 64 of them in a word. The same arguments give the same cascades on every device and for any
    number of threads.

    Args:
        graph (CascadeGraph): The graph.
        seed_sets (Sequence[Sequence[int]]): The nodes that are active at the start, one sequence for each set.
        runs (int, optional): Cascades of each set. (default: ``10_000``)
        seed (int, optional): Seed of the cascades. (default: ``0``)
        record (bool, optional): Whether to count the activations of each node by step. (default: ``False``)
        max_steps (int, optional): Steps that are recorded one by one; all later activations count for the last.
        paired (bool, optional): Whether all sets see the same live edges, so that their differences have little noise;
            otherwise each set has its own. (default: ``False``)
        device (torch.device or str, optional): ``"cpu"``: all threads of torch; a GPU. (default: ``"cpu"``)
        progress (callable, optional): Called now and then with the number of cascades done, and of all.
        engine (Engine, optional): Runs the simulation; a cluster gets units of 4,096 cascades of each set, with the
            same result. (default: this process)

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
    order = Order(runs, seed, record, max_steps, paired)
    blocks, place = -(-runs // WORD), torch.device(device)
    if engine is None or not engine.remote:
        return finished(order, spread(graph, sets, order, range(blocks), place, progress))
    parts = [range(first, min(first + PART, blocks)) for first in range(0, blocks, PART)]
    total, done, shared = Sums(len(sets)), 0, engine.share(graph)
    for number, found in engine.each(spread_unit, [(shared, sets, order, part, place) for part in parts]):
        total.add(found)
        done += order.cascades(parts[number]) * len(sets)
        if progress is not None:
            progress(done, runs * len(sets))
    return finished(order, total)


@dataclass(frozen=True)
class Order:
    """The arguments of :func:`simulate`."""

    runs: int
    seed: int
    record: bool
    max_steps: int
    paired: bool

    @property
    def lanes(self) -> NDArray[np.uint64]:
        """The cascades of each block as bits."""
        return block_lanes(self.runs)

    def cascades(self, blocks: range) -> int:
        """How many cascades some blocks have."""
        return min(self.runs, blocks.stop * WORD) - blocks.start * WORD


class Sums:
    """Sums over cascades of some seed sets. They are whole numbers, so that their order does not matter.

    Args:
        sets (int): Number of sets.
    """

    def __init__(self, sets: int) -> None:
        self.totals = [(0, 0)] * sets  # of the sizes, and of their squares
        self.added: list[Tensor | None] = [None] * sets  # cascades that activated a node at each step, int32 (T, N)

    def count(self, number: int, total: int, squares: int, added: Tensor | None) -> None:
        """Add something to a set; ``added`` is not kept."""
        before, mine = self.totals[number], self.added[number]
        self.totals[number] = (before[0] + total, before[1] + squares)
        if added is None:
            return
        if mine is None or mine.size(0) < added.size(0):
            mine, added = added.clone(), mine
        if added is not None:
            mine[: added.size(0)] += added
        self.added[number] = mine

    def add(self, other: Sums) -> None:
        """Add all of another one."""
        for number, (pair, added) in enumerate(zip(other.totals, other.added, strict=True)):
            self.count(number, *pair, added)


def spread(
    graph: CascadeGraph,
    sets: Sequence[NDArray[np.int64]],
    order: Order,
    blocks: range,
    device: torch.device,
    progress: Progress | None = None,
) -> Sums:
    """Some blocks of an order, checked arguments, on a device."""
    if device.type == "cpu":
        return _spread_cpu(graph, sets, order, blocks, progress)
    from gnpool.influence.cascade_cuda import spread_cuda  # Triton is there only where a GPU is

    return spread_cuda(graph, sets, order, blocks, device, progress)


def spread_unit(
    caller: Caller,
    graph: CascadeGraph,
    sets: Sequence[NDArray[np.int64]],
    order: Order,
    blocks: range,
    device: torch.device,
) -> Sums:
    """:func:`spread` in another process."""
    found = spread(graph, sets, order, blocks, device)
    found.added = [None if added is None else added.cpu() for added in found.added]
    return found


def finished(order: Order, sums: Sums) -> Cascades:
    """The results from the sums of a whole order."""
    found = [moments(total, squares, order.runs) for total, squares in sums.totals]
    mean, error = (torch.tensor([pair[i] for pair in found], dtype=torch.float64) for i in (0, 1))
    steps = []
    for number, added in enumerate(sums.added if order.record else []):
        assert added is not None
        steps.append(trimmed(added).cpu())
        sums.added[number] = None  # all of them twice may be too much
    return Cascades(order.runs, mean, error, steps if order.record else None)


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


def _spread_cpu(
    graph: CascadeGraph,
    sets: Sequence[NDArray[np.int64]],
    order: Order,
    blocks: range,
    progress: Progress | None,
) -> Sums:
    span = max(RECORDED, -(-len(blocks) // 64)) if order.record else TASK
    tasks = list(itertools.product(range(len(sets)), range(blocks.start, blocks.stop, span)))
    crew = _Crew(graph, sets, order, blocks, span, progress)
    draw = iter(tasks)
    run_stoppable(lambda: crew.work(draw), min(thread_count(), len(tasks)) or 1, crew.stop)
    return crew.sums


class _Crew:
    """Threads that draw tasks."""

    def __init__(
        self,
        graph: CascadeGraph,
        sets: Sequence[NDArray[np.int64]],
        order: Order,
        blocks: range,
        span: int,
        progress: Progress | None,
    ) -> None:
        self.graph, self.sets, self.order, self.blocks = graph, sets, order, blocks
        self.lanes, self.span, self.progress = order.lanes, span, progress
        self.rows = order.max_steps + 1 if order.record else 0
        self.sums = Sums(len(sets))
        self.done = 0
        self.lock = threading.Lock()
        self.stop = new_stop()

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
            if task is None or self.stop[0]:
                return
            number, first = task
            part = range(first, min(first + self.span, self.blocks.stop))
            start = first if self.order.paired else number * self.lanes.size + first
            keys, lanes = block_keys(self.order.seed, start, len(part)), self.lanes[part.start : part.stop]
            totals = np.zeros(2, dtype=np.int64)
            longest = block_kernel(
                keys, lanes, self.sets[number], *lists, *words, *queues, planes, totals, counts, self.stop
            )
            if self.stop[0]:
                return
            self._report(number, part, totals, counts[: longest + 1])
            counts[: longest + 1] = 0

    def _report(self, number: int, part: range, totals: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
        with self.lock:
            added = torch.from_numpy(counts) if self.rows else None
            self.sums.count(number, int(totals[0]), int(totals[1]), added)
            self.done += self.order.cascades(part)
            if self.progress is not None:
                self.progress(self.done, self.order.cascades(self.blocks) * len(self.sets))
