"""A GIN layer that pools neighbours without a tensor of messages."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import GINConv, MessagePassing
from torch_geometric.typing import Adj, OptPairTensor, OptTensor, Size

from gnpool.nn.aggregation import GNPAggregation


class GNPConv(GINConv):
    r"""The graph isomorphism operator with GNP as its aggregation, fused.

    .. math::
        \mathbf{x}^{\prime}_i = h_{\mathbf{\Theta}} \left( (1 + \epsilon) \cdot \mathbf{x}_i +
        \mathrm{GNP}_{j \in \mathcal{N}(i)} ( w_{ji} \, \mathbf{x}_j ) \right)

    It equals ``GINConv(nn, aggr=GNPAggregation(d))`` in value and gradient, and takes an optional weight per edge. It
    does not store the messages of the edges, since it aggregates with :meth:`GNPAggregation.pool_neighbors`. If
    something must see the messages, the layer takes PyG's path instead: in explain mode, with hooks on the messages or
    the aggregation, in a subclass with its own message, with a sparse adjacency matrix (whose values are the weights)
    or ``flow="target_to_source"``, and for node features that are not two-dimensional.

    If a loader samples the neighbours of each node, ``conv(x, edge_index, sizes=degrees)`` tells the layer how many
    neighbours there really are, see :func:`gnpool.norm_pool`.

    Args:
        nn (torch.nn.Module): The network :math:`h_{\mathbf{\Theta}}` after the aggregation.
        aggr (GNPAggregation): The aggregation; its channels are those of x.
        eps (float, optional): (Initial) :math:`\epsilon`-value. (default: ``0.``)
        train_eps (bool, optional): Whether :math:`\epsilon` is trainable. (default: ``False``)
        **kwargs (optional): Additional arguments of :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** x :math:`(N, d)` or :math:`((N_s, d), (N_t, d))` if bipartite, edge_index :math:`(2, E)`,
          edge_weight :math:`(E)`, sizes :math:`(N)` or :math:`(N_t)`
        - **output:** :math:`(N, d_{out})` or :math:`(N_t, d_{out})`

    Example:
        >>> import torch
        >>> from gnpool import GNPAggregation, GNPConv
        >>> conv = GNPConv(torch.nn.Identity(), GNPAggregation(2, mix=False, start="sum"))
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> conv(x, torch.tensor([[0], [1]])).detach()
        tensor([[1.00, 2.00],
                [4.00, 6.00]])
    """

    # otherwise PyG, after it has compiled a GINConv, would explain this layer by GINConv's function
    propagate = MessagePassing.propagate

    def __init__(
        self, nn: torch.nn.Module, aggr: GNPAggregation, eps: float = 0.0, train_eps: bool = False, **kwargs: object
    ) -> None:
        if not isinstance(aggr, GNPAggregation):
            raise TypeError(f"GNPConv: 'aggr' must be a GNPAggregation, got {type(aggr).__name__}")
        if kwargs.get("decomposed_layers", 1) != 1:
            raise ValueError("GNPConv: 'decomposed_layers' must be 1, since GNP mixes all channels")
        super().__init__(nn, eps, train_eps, aggr=aggr, **kwargs)

    def forward(
        self,
        x: Tensor | OptPairTensor,
        edge_index: Adj,
        edge_weight: OptTensor = None,
        size: Size = None,
        sizes: OptTensor = None,
    ) -> Tensor:
        source, target = (x, x) if isinstance(x, Tensor) else x
        if self._can_fuse(source, edge_index):
            ends = self._check_input(edge_index, size)  # as propagate() does, with its errors
            self._set_size(ends, 0, source)
            if target is not None:
                self._set_size(ends, 1, target)
            dim_size = ends[0] if ends[1] is None else ends[1]
            out = self.aggr_module.pool_neighbors(source, edge_index, edge_weight, dim_size, sizes)
        else:
            # propagate_type: (x: OptPairTensor, edge_weight: OptTensor, sizes: OptTensor)
            out = self.propagate(edge_index, x=(source, target), edge_weight=edge_weight, sizes=sizes, size=size)
        if target is not None:
            out = out + (1 + self.eps) * target
        result: Tensor = self.nn(out)
        return result

    def message(self, x_j: Tensor, edge_weight: OptTensor) -> Tensor:
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j

    def aggregate(
        self,
        inputs: Tensor,
        index: Tensor,
        ptr: OptTensor = None,
        dim_size: int | None = None,
        sizes: OptTensor = None,
    ) -> Tensor:
        out: Tensor = self.aggr_module(inputs, index, ptr, dim_size, self.node_dim, sizes=sizes)
        return out

    def _can_fuse(self, x: Tensor, edge_index: Adj) -> bool:
        hooks = (
            self._propagate_forward_pre_hooks,
            self._propagate_forward_hooks,
            self._message_forward_pre_hooks,
            self._message_forward_hooks,
            self._aggregate_forward_pre_hooks,
            self._aggregate_forward_hooks,
            self.aggr_module._forward_pre_hooks,
            self.aggr_module._forward_hooks,
            self.aggr_module._backward_pre_hooks,
            self.aggr_module._backward_hooks,
        )
        overridden = any(
            getattr(type(self), name) is not getattr(GNPConv, name) for name in ("message", "aggregate", "update")
        )
        return (
            not self.explain
            and not any(hooks)
            and not overridden
            and self.flow == "source_to_target"
            and x.dim() == 2
            and isinstance(edge_index, Tensor)
            and edge_index.layout == torch.strided
        )

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(nn={self.nn}, aggr={self.aggr_module})"
