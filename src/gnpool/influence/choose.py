"""Choose seeds by a model, by simulation, or by a plain baseline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gnpool.influence.estimate import ModelGains, MonteCarloGains
from gnpool.influence.graph import CascadeGraph
from gnpool.influence.select import Gains, Selection, degree_seeds, influence_bound, lazy_greedy, random_seeds
from gnpool.models import MONSTOR

CELF = "celf-mc"  # greedy by simulation


def choose_seeds(
    graph: CascadeGraph,
    count: int,
    *,
    model: tuple[MONSTOR, int] | None = None,
    method: str = CELF,
    sample: int = 1000,
    seed: int = 0,
    bounded: bool = True,
    first_batch: int = 100,
    device: torch.device | str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """The seeds that activate the most nodes, by an estimate.

    Args:
        graph (CascadeGraph): Where.
        count (int): How many.
        model (tuple, optional): Choose by this model, applied so often.
        method (str, optional): Without a model ``"celf-mc"``, ``"degree"`` or ``"random"``. (default: ``"celf-mc"``)
        sample (int, optional): Cascades behind each choice of ``"celf-mc"``. (default: ``1000``)
        seed (int, optional): Of these, and of ``"random"``. (default: ``0``)
        bounded (bool, optional): Whether an upper bound spares most of the first look. (default: ``True``)
        first_batch (int, optional): Nodes evaluated together in the first look. (default: ``100``)
        device (torch.device or str, optional): Where the model computes. (default: ``"cpu"``)
        progress (callable, optional): Called with the number of seeds so far, and of all.

    Example:
        >>> import numpy as np
        >>> from gnpool.influence import CascadeGraph, choose_seeds
        >>> star = CascadeGraph(5, np.zeros(4, int), np.arange(1, 5), np.full(4, 0.5))  # from node 0 to all others
        >>> choose_seeds(star, 1, method="degree").seeds
        [0]
    """
    if model is None and method == "degree":
        return degree_seeds(graph, count)
    if model is None and method == "random":
        return random_seeds(graph, count, seed)
    gains: Gains
    gains = MonteCarloGains(graph, sample, seed) if model is None else ModelGains(model[0], graph, model[1], device)
    bound = influence_bound(graph) if bounded else None
    return lazy_greedy(gains, graph.nodes, count, bound=bound, first_batch=first_batch, progress=progress)
