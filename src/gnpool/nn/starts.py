"""Where the GNPs of a model start: a named pooling for each place."""

from __future__ import annotations

import torch

from gnpool.nn.aggregation import GNPAggregation


def set_starts(model: torch.nn.Module, start: str) -> None:
    r"""Moves the exponents of every GNP in ``model`` to named poolings; the weights stay.

    Args:
        model (torch.nn.Module): Any module with :class:`GNPAggregation` inside.
        start (str): One name for all layers, or several names with ``/`` between. The last name is for the last layer,
            which is the readout if there is one. The other names are for the layers before it, in order; if there are
            more layers than names, the name before the last is repeated. :class:`GNPAggregation` lists the names.

    Example:
        >>> import torch
        >>> from gnpool import GNPAggregation
        >>> from gnpool.nn import set_starts
        >>> model = torch.nn.ModuleList(GNPAggregation(4) for _ in range(3))
        >>> set_starts(model, "sum/mean")
        >>> [(layer.p.item(), layer.growth.item()) for layer in model]
        [(1.0, 1.0), (1.0, 1.0), (1.0, 0.0)]
    """
    layers = [module for module in model.modules() if isinstance(module, GNPAggregation)]
    if not layers:
        raise ValueError(f"set_starts: {type(model).__name__} has no GNPAggregation inside")
    *front, last = start.split("/")
    if len(front) > max(1, len(layers) - 1):
        raise ValueError(f"set_starts: {start!r} names {len(front) + 1} places, but there are {len(layers)} GNP layers")
    for place, layer in enumerate(layers[:-1]):
        layer.set_start(front[min(place, len(front) - 1)] if front else last)
    layers[-1].set_start(last)
