"""Set2Set in a dense form that vmaps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import aggr

from gnpool.models.poolings.segments import PoolsSegments, Segments


class Set2Set(PoolsSegments, aggr.Set2Set):
    r""":class:`torch_geometric.nn.aggr.Set2Set` with its LSTM of one layer written out and its softmax dense, since
    :class:`torch.nn.LSTM` has no batching rule for :func:`torch.vmap`. Values, parameters and ``state_dict`` are those
    of PyG's. An empty segment attends to nothing: the half that holds r is 0.

    Args:
        in_channels (int): Number of channels d.
        processing_steps (int, optional): Number of iterations. (default: ``1``)

    Shapes:
        - **input:** x :math:`(N, d)`, index :math:`(N)` sorted, or ptr :math:`(S + 1)`
        - **output:** :math:`(S, 2 d)`

    Example:
        >>> import torch
        >>> from gnpool.models import Set2Set
        >>> Set2Set(8)(torch.ones(5, 8), torch.tensor([0, 0, 0, 1, 1]))[:, 8:].detach()[:, 0]  # a mean of ones
        tensor([1., 1.])
    """

    def __init__(self, in_channels: int, processing_steps: int = 1) -> None:
        if isinstance(processing_steps, bool) or not isinstance(processing_steps, int) or processing_steps < 1:
            raise ValueError(f"Set2Set: 'processing_steps' must be a positive integer, got {processing_steps!r}")
        super().__init__(in_channels, processing_steps)

    def pool(self, x: Tensor, segments: Segments) -> Tensor:
        """Pool rows whose segments are known."""
        if x.size(-1) != self.in_channels:
            raise ValueError(f"{self}: 'x' must have {self.in_channels} channels, got {x.size(-1)}")
        rows = segments.dense(x)  # (G, M, D)
        mask = segments.mask
        lowest = torch.finfo(x.dtype).min  # finite, so that an empty segment is no NaN
        h = c = x.new_zeros(segments.count, self.in_channels)
        out = x.new_zeros(segments.count, self.out_channels)
        for _ in range(self.processing_steps):
            h, c = self._cell(out, h, c)
            scores = torch.where(mask, (rows * h[:, None]).sum(dim=-1), lowest)
            r = (scores.softmax(dim=1)[..., None] * rows).sum(dim=1)
            out = torch.cat([h, r], dim=-1)
        return out

    def _cell(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        lstm = self.lstm
        gates = F.linear(x, lstm.weight_ih_l0, lstm.bias_ih_l0) + F.linear(h, lstm.weight_hh_l0, lstm.bias_hh_l0)
        write, forget, content, read = gates.chunk(4, dim=-1)
        c = forget.sigmoid() * c + write.sigmoid() * content.tanh()
        return read.sigmoid() * c.tanh(), c

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.in_channels}, processing_steps={self.processing_steps})"
