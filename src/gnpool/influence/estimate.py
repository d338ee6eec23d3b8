"""Estimates of the influence for the selection of seeds, by simulation and by a trained model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnpool.influence.cascades import block_keys, block_lanes
from gnpool.influence.graph import CascadeGraph
from gnpool.influence.stoppable import Stop, new_stop, run_stoppable
from gnpool.models.networks.monstor import MONSTOR
from gnpool.ops.cpu.threads import thread_count

TOLERANCE = 1e-6  # rise of the influence below which stacking ends
WIDTH = 20  # on a GPU the number of candidates is a multiple of it, since kernels are compiled for each width


class MonteCarloGains:
    r"""Gains in a fixed sample of live-edge graphs, for :func:`gnpool.influence.lazy_greedy`.

    All estimates use the same ``runs`` cascades. The nodes that the seeds activate are kept, so that the cost of a
    candidate is only what it adds. In a fixed sample the gains are exactly submodular, so that lazy greedy gives the
    same seeds as greedy.

    Args:
        graph (CascadeGraph): The graph.
        runs (int, optional): Size of the sample. (default: ``1_000``)
        seed (int, optional): Seed of the sample. (default: ``0``)

    Memory: ``runs / 8`` bytes a node.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, MonteCarloGains
        >>> chain = CascadeGraph(3, np.array([0, 1]), np.array([1, 2]), np.array([1.0, 1.0]))
        >>> estimate = MonteCarloGains(chain, runs=100)
        >>> estimate.gains([0, 1, 2])
        [3.0, 2.0, 1.0]
        >>> estimate.add(1)
        >>> estimate.gains([0, 2])  # nodes 1 and 2 are active now
        [1.0, 0.0]
    """

    def __init__(self, graph: CascadeGraph, runs: int = 1000, seed: int = 0) -> None:
        if runs < 1:
            raise ValueError(f"'runs' must be at least 1, got {runs}")
        self.graph, self.runs = graph, runs
        self.lanes = block_lanes(runs)
        self.keys = block_keys(seed, 0, self.lanes.size)
        self.base = np.zeros((self.lanes.size, graph.nodes), dtype=np.uint64)
        self._scratch: list[tuple[NDArray[Any], ...]] = []  # that no thread uses just now

    def gains(self, candidates: Sequence[int]) -> list[float]:
        found = [0.0] * len(candidates)
        draw, stop = itertools.count(), new_stop()

        def work() -> None:
            while (place := next(draw)) < len(candidates) and not stop[0]:
                found[place] = self._total(candidates[place], False, stop) / self.runs

        self._lists()
        run_stoppable(work, min(thread_count(), len(candidates)) or 1, stop)
        return found

    def add(self, node: int) -> None:
        stop = new_stop()
        run_stoppable(lambda: self._total(node, True, stop), 1, stop)

    def _lists(self) -> tuple[object, ...]:
        return (self.graph.out_ptr, *self.graph.out_lists)

    def _total(self, node: int, keep: bool, stop: Stop) -> int:
        from gnpool.influence.cascade_kernels import gain_kernel

        nodes = self.graph.nodes
        try:
            scratch = self._scratch.pop()
        except IndexError:
            words = [np.zeros(nodes, dtype=np.uint64) for _ in range(2)]
            scratch = (*words, *(np.empty(nodes, dtype=np.int64) for _ in range(2)))
        total = int(gain_kernel(self.keys, self.lanes, self.base, node, *self._lists(), *scratch, keep, stop))
        if not stop[0]:  # else it is not clean
            self._scratch.append(scratch)
        return total


class ModelGains:
    """Gains by a MONSTOR model, many candidates in one pass, for :func:`gnpool.influence.lazy_greedy`.

    Args:
        model (MONSTOR): The base model.
        graph (CascadeGraph): The graph, which the model need not have seen.
        stacked (int): How often the model is applied.
        device (torch.device or str, optional): Where to compute. (default: ``"cpu"``)

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, ModelGains, lazy_greedy
        >>> from gnpool.models import MONSTOR
        >>> chain = CascadeGraph(3, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.5]))
        >>> estimate = ModelGains(MONSTOR("max"), chain, stacked=3)  # an untrained model
        >>> len(lazy_greedy(estimate, nodes=3, k=2).seeds)
        2
    """

    def __init__(self, model: MONSTOR, graph: CascadeGraph, stacked: int, device: torch.device | str = "cpu") -> None:
        self.model, self.stacked = model.to(device).eval(), stacked
        self.edge_index, self.edge_weight = graph.edge_index(device), graph.edge_weight(device)
        self.seeds = torch.zeros(graph.nodes, device=device)
        self.now = 0.0
        self.seen: dict[int, float] = {}  # the influence of the seeds and one candidate more

    def gains(self, candidates: Sequence[int]) -> list[float]:
        nodes, device = list(candidates), self.seeds.device
        if not nodes:
            return []
        more = -len(nodes) % WIDTH if device.type == "cuda" else 0
        columns = torch.tensor([*nodes, *nodes[:1] * more], device=device)
        sets = self.seeds[:, None].repeat(1, columns.numel())
        sets[columns, torch.arange(columns.numel(), device=device)] = 1.0
        found = self._influence(sets).tolist()[: len(nodes)]
        self.seen.update(zip(nodes, found, strict=True))
        return [value - self.now for value in found]

    def add(self, node: int) -> None:
        if node not in self.seen:
            self.gains([node])
        self.seeds[node] = 1.0
        self.now, self.seen = self.seen[node], {}

    @torch.no_grad()
    def _influence(self, seeds: Tensor) -> Tensor:
        found = self.model.stacked(seeds, self.edge_index, self.edge_weight, self.stacked, TOLERANCE)
        return found.double().sum(0)


def model_influence(
    model: MONSTOR,
    graph: CascadeGraph,
    seed_sets: Sequence[Sequence[int]],
    stacked: int,
    device: torch.device | str = "cpu",
) -> list[float]:
    """The influence of seed sets as a model estimates it.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, model_influence
        >>> from gnpool.models import MONSTOR
        >>> chain = CascadeGraph(3, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.5]))
        >>> found = model_influence(MONSTOR("max"), chain, [[0], [0, 1, 2]], stacked=3)  # an untrained model
        >>> len(found), found[1]  # all nodes are seeds
        (2, 3.0)
    """
    gains = ModelGains(model, graph, stacked, device)
    sets = torch.zeros(graph.nodes, len(seed_sets), device=device)
    for number, nodes in enumerate(seed_sets):
        sets[torch.tensor(list(nodes), dtype=torch.long, device=device), number] = 1.0
    found: list[float] = gains._influence(sets).tolist()
    return found
