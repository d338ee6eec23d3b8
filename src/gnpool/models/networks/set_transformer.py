"""The Set Transformer, masked, so that the sets of a batch may differ in size."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gnpool.models.networks.parts import Network
from gnpool.models.poolings.segments import Segments

ENCODERS = ("sab", "isab")


class AttentionBlock(Network):
    r"""The multihead attention block of the Set Transformer: queries attend to keys, then a layer for each query.

    .. math::
        O = W_q Q + \mathrm{softmax}\big(W_q Q \, (W_k K)^\top / \sqrt{d}\big) \, W_v K, \qquad
        \mathrm{MAB}(Q, K) = O + \mathrm{ReLU}(W_o O)

    head by head, with biases, where d counts the channels of all heads together. There is no layer norm.

    Args:
        query_channels (int): Number of channels of the queries.
        key_channels (int): Number of channels of the keys.
        channels (int): Number of output channels d.
        heads (int): Number of heads; it divides d.

    Shapes:
        - **input:** queries :math:`(G, A, d_q)`, keys :math:`(G, B, d_k)`, mask :math:`(G, B)`, true where there
          is a key
        - **output:** :math:`(G, A, d)`
    """

    def __init__(self, query_channels: int, key_channels: int, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = torch.nn.Linear(query_channels, channels)
        self.key = torch.nn.Linear(key_channels, channels)
        self.value = torch.nn.Linear(key_channels, channels)
        self.out = torch.nn.Linear(channels, channels)

    def forward(self, queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (self._split(t) for t in (self.query(queries), self.key(keys), self.value(keys)))  # (G, H, ., d / H)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.out.in_features)
        if mask is not None:  # finite, so that an empty set is no NaN
            scores = torch.where(mask[:, None, None], scores, torch.finfo(scores.dtype).min)
        o = (q + scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)
        return o + self.out(o).relu()

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class _SelfAttention(Network):
    """SAB: each element attends to all."""

    def __init__(self, in_channels: int, channels: int, heads: int) -> None:
        super().__init__()
        self.attention = AttentionBlock(in_channels, in_channels, channels, heads)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y: Tensor = self.attention(x, x, mask)
        return y


class _InducedAttention(Network):
    """ISAB: learned points attend to all elements, and each element to the points."""

    def __init__(self, in_channels: int, channels: int, heads: int, points: int) -> None:
        super().__init__()
        self.points = torch.nn.Parameter(torch.empty(1, points, channels))
        self.gather = AttentionBlock(channels, in_channels, channels, heads)
        self.spread = AttentionBlock(in_channels, channels, channels, heads)
        torch.nn.init.xavier_uniform_(self.points)

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.points)
        super().reset_parameters()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y: Tensor = self.spread(x, self.gather(self.points.expand(x.size(0), -1, -1), x, mask))
        return y


class SetTransformer(Network):
    r"""The network of `"Set Transformer: A Framework for Attention-based Permutation-Invariant Neural Networks"
    <https://arxiv.org/abs/1810.00825>`_: blocks of self-attention, a learned seed that attends to their result, and a
    linear output. Its sizes are those of its authors' regression on sets of numbers.

    Sets are laid out as (G, M) with M the largest size, and attention is masked, so that neither the other sets of a
    batch nor padding change a result.

    Args:
        in_channels (int): Number of features of an element.
        encoder (str, optional): ``"sab"``, self-attention of all elements, or ``"isab"``, through learned points.
            (default: ``"sab"``)
        hidden (int, optional): Number of channels. (default: ``64``)
        heads (int, optional): Number of heads; it divides ``hidden``. (default: ``4``)
        blocks (int, optional): Number of encoder blocks. (default: ``2``)
        points (int, optional): Number of learned points of each ``"isab"``. (default: ``32``)
        out_channels (int, optional): Number of outputs. (default: ``1``)
        out_bias (bool, optional): Whether the output layer has a bias, as its authors' has. (default: ``True``)

    Shapes:
        - **input:** x :math:`(N, d)`, batch :math:`(N)` sorted, ptr :math:`(G + 1)`
        - **output:** :math:`(G, d_{out})`

    Example:
        >>> import torch
        >>> from gnpool.models import SetTransformer
        >>> SetTransformer(1, encoder="isab")(torch.ones(5, 1), ptr=torch.tensor([0, 2, 5])).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        in_channels: int,
        *,
        encoder: str = "sab",
        hidden: int = 64,
        heads: int = 4,
        blocks: int = 2,
        points: int = 32,
        out_channels: int = 1,
        out_bias: bool = True,
    ) -> None:
        super().__init__()
        if encoder not in ENCODERS:
            raise ValueError(f"SetTransformer: 'encoder' must be one of {ENCODERS}, got {encoder!r}")
        if hidden % heads:
            raise ValueError(f"SetTransformer: 'heads' must divide 'hidden', got {heads} and {hidden}")
        self.in_channels, self.encoder, self.hidden, self.heads, self.points = (
            in_channels,
            encoder,
            hidden,
            heads,
            points,
        )
        widths = [in_channels, *[hidden] * (blocks - 1)]
        self.blocks = torch.nn.ModuleList(
            _SelfAttention(width, hidden, heads)
            if encoder == "sab"
            else _InducedAttention(width, hidden, heads, points)
            for width in widths
        )
        self.seed = torch.nn.Parameter(torch.empty(1, 1, hidden))
        self.pool = AttentionBlock(hidden, hidden, hidden, heads)
        self.out = torch.nn.Linear(hidden, out_channels, bias=out_bias)
        torch.nn.init.xavier_uniform_(self.seed)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        torch.nn.init.xavier_uniform_(self.seed)
        super().reset_parameters()

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        batch_size: int | None = None,
        max_nodes: int | None = None,
    ) -> Tensor:
        r"""Forward pass; without ``batch`` and ``ptr`` all elements are one set. Arguments as in :class:`GraphNet`."""
        sets = Segments(x, batch, ptr, batch_size, max_nodes)
        h, mask = sets.dense(x), sets.mask
        for block in self.blocks:
            h = block(h, mask)
        pooled = self.pool(self.seed.expand(sets.count, -1, -1), h, mask)
        y: Tensor = self.out(pooled.flatten(1))
        return y

    def __repr__(self) -> str:
        points = f", points={self.points}" if self.encoder == "isab" else ""
        return (
            f"{self.__class__.__name__}({self.in_channels}, encoder={self.encoder!r}, hidden={self.hidden}, "
            f"heads={self.heads}, blocks={len(self.blocks)}{points})"
        )
