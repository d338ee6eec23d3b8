"""GNP by name in PyTorch Geometric."""

from __future__ import annotations

import torch_geometric.nn.aggr

from gnpool.nn.aggregation import GNPAggregation


def register_with_pyg() -> None:
    r"""Lets PyTorch Geometric find :class:`GNPAggregation` by name, as ``"gnp"`` or ``"GNPAggregation"``.

    Wherever PyG takes ``aggr="mean"``, it then takes ``aggr="gnp"``, with the options of the layer in ``aggr_kwargs``;
    the channels are always needed. Each layer of a model such as ``GIN`` then gets its own aggregation. The call adds
    a name to ``torch_geometric.nn.aggr`` and changes nothing else. Calling it again does nothing.

    Example:
        >>> from torch_geometric.nn import SAGEConv
        >>> from gnpool import register_with_pyg
        >>> register_with_pyg()
        >>> SAGEConv(16, 32, aggr="gnp", aggr_kwargs={"channels": 16})
        SAGEConv(16, 32, aggr=gnp)
    """
    torch_geometric.nn.aggr.GNPAggregation = GNPAggregation
