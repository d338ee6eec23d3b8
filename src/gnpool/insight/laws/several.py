"""The laws of several targets as one module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gnpool.insight.laws.network import LawNet


class LawsNet(torch.nn.Module):
    r"""Several laws of the same graphs side by side, a column for each.

    Args:
        laws (sequence): The arguments of a :class:`LawNet` for each target; laws of classes are not allowed.

    Shapes:
        - **input:** x :math:`(N, d)`, edge_index :math:`(2, E)`, ptr :math:`(G + 1)`
        - **output:** :math:`(G, k)` or :math:`(N, k)` for k laws

    Example:
        >>> import torch
        >>> from gnpool.insight.laws import Law, LawsNet, Point, Term
        >>> largest = Law((Term(0, (Point(float("inf"), 0.0),)),), (1.0,), 0.0, "set", ("x",))
        >>> total = Law((Term(0, (Point(1.0, 1.0),)),), (1.0,), 0.0, "set", ("x",))
        >>> net = LawsNet([law.model().arguments for law in (largest, total)])
        >>> net(torch.tensor([[1.0], [2.0], [3.0]]))
        tensor([[3., 6.]])
    """

    def __init__(self, laws: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self.laws = torch.nn.ModuleList(LawNet(**law) for law in laws)
        first = self.laws[0]
        self.in_channels, self.level = first.in_channels, first.level
        if any(law.cuts or (law.in_channels, law.level) != (self.in_channels, self.level) for law in self.laws):
            raise ValueError(
                "LawsNet: all laws must predict numbers, not classes, from the same features at the same level"
            )
        self.out_channels = len(self.laws)

    @property
    def arguments(self) -> dict[str, Any]:
        """What it was made with, as JSON can hold it."""
        return {"laws": [law.arguments for law in self.laws]}

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all nodes are one graph."""
        return torch.cat([law(x, edge_index, batch, ptr, batch_size) for law in self.laws], dim=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels} laws, level={self.level!r})"
