"""Layers for PyTorch Geometric: the aggregation, the fused convolution, their starts and their optimiser groups."""

from gnpool.nn.aggregation import GNPAggregation
from gnpool.nn.conv import GNPConv
from gnpool.nn.param_groups import param_groups
from gnpool.nn.register import register_with_pyg
from gnpool.nn.sizes import set_sizes
from gnpool.nn.starts import set_starts

__all__ = ["GNPAggregation", "GNPConv", "param_groups", "register_with_pyg", "set_sizes", "set_starts"]
