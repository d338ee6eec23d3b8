"""The base class of the graph classifiers, which take a PyG batch, or R batches for R networks."""

from __future__ import annotations

import abc

import torch
from torch import Tensor

from gnpool.models.stacked.replicas import Dice, GraphStack, stack_of_one

POOLINGS = ("original", "gnp")


class StackedClassifier(torch.nn.Module, abc.ABC):
    """A network for stacks; it takes a single batch as a stack of one."""

    def forward(
        self,
        x: Tensor | GraphStack,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        dice: Dice | None = None,
    ) -> Tensor:
        r"""Forward pass: a PyG batch gives (G, classes), and a stack gives (R, G, classes).

        Args:
            x (torch.Tensor or GraphStack): Node features, or R batches as one.
            edge_index (torch.Tensor, optional): The edges, in both directions.
            batch (torch.Tensor, optional): The graph of each node. (default: one graph)
            batch_size (int, optional): Number of graphs.
            dice (Dice, optional): The random numbers for dropout, for stacks.
        """
        if isinstance(x, GraphStack):
            return self.classify(x, dice)
        assert edge_index is not None
        return self.classify(stack_of_one(x, edge_index, batch, batch_size), dice)[0]

    @abc.abstractmethod
    def classify(self, stack: GraphStack, dice: Dice | None) -> Tensor:
        """(R, G, classes) log-probabilities of a stack."""


def check_options(name: str, pooling: str, ratio: float, rate: float) -> None:
    """Raise a ValueError for wrong options."""
    if pooling not in POOLINGS:
        raise ValueError(f"{name}: 'pooling' must be one of {POOLINGS}, got {pooling!r}")
    if not 0 < ratio <= 1:
        raise ValueError(f"{name}: 'ratio' must lie in (0, 1], got {ratio}")
    if not 0 <= rate < 1:
        raise ValueError(f"{name}: 'dropout' must lie in [0, 1), got {rate}")
