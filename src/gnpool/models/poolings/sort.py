"""SortPooling in a dense form that vmaps."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from gnpool.models.poolings.segments import PoolsSegments, Segments


class SortPooling(PoolsSegments, Aggregation):
    r"""The sort pooling of `"An End-to-End Deep Learning Architecture for Graph Classification"
    <https://muhanzhang.github.io/papers/AAAI_2018_DGCNN.pdf>`_: the k nodes with the largest last channel, in
    descending order. A graph with fewer nodes is filled with zeros.

    Two libraries implement it differently. With ``sort_channels=True`` the channels of each node are first sorted
    ascending, as in DGL: nodes are ordered by their largest channel, and a place of the output no longer belongs to one
    channel. With ``sort_channels=False`` this is :class:`torch_geometric.nn.aggr.SortAggregation`. Unlike that class
    it vmaps, a real value never turns into padding, and nodes with equal keys keep their order.

    Args:
        channels (int): Number of channels d.
        k (int, optional): Number of nodes to keep. (default: ``20``)
        sort_channels (bool, optional): Whether to sort the channels of each node. (default: ``True``)

    Shapes:
        - **input:** x :math:`(N, d)`, index :math:`(N)` sorted, or ptr :math:`(S + 1)`
        - **output:** :math:`(S, k d)`

    Example:
        >>> import torch
        >>> from gnpool.models import SortPooling
        >>> x = torch.tensor([[1.0, 5.0], [7.0, 2.0], [3.0, 3.0]])
        >>> SortPooling(2, k=2)(x)
        tensor([[2., 7., 1., 5.]])
        >>> SortPooling(2, k=2, sort_channels=False)(x)
        tensor([[1., 5., 3., 3.]])
    """

    def __init__(self, channels: int, k: int = 20, sort_channels: bool = True) -> None:
        super().__init__()
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"SortPooling: 'k' must be a positive integer, got {k!r}")
        self.channels = channels
        self.k = k
        self.sort_channels = sort_channels
        self.out_channels = k * channels

    def pool(self, x: Tensor, segments: Segments) -> Tensor:
        """Pool rows whose segments are known."""
        if x.size(-1) != self.channels:
            raise ValueError(f"{self}: 'x' must have {self.channels} channels, got {x.size(-1)}")
        if self.sort_channels:
            x = x.sort(dim=-1).values
        rows = segments.dense(x)  # (G, M, D)
        keys = torch.where(segments.mask, rows[..., -1], -torch.inf)
        order = keys.argsort(dim=1, descending=True, stable=True)[:, : self.k]
        top = rows.gather(1, order[..., None].expand(-1, -1, self.channels))
        return torch.nn.functional.pad(top.flatten(1), (0, self.out_channels - top.size(1) * self.channels))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels}, k={self.k}, sort_channels={self.sort_channels})"
