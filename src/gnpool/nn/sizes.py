"""The usual number of elements that each GNP of a model pools, measured on data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnpool.nn.aggregation import GNPAggregation


def set_sizes(model: torch.nn.Module, *args: Any, **kwargs: Any) -> dict[str, float]:
    r"""Runs ``model(*args, **kwargs)`` once and sets ``size`` of every GNP inside to what it pools there on average.

    ``size`` is the usual number of elements, :math:`n_0` of :class:`gnpool.GNPAggregation`: a step of the growth then
    changes how the result grows with n, and not its scale. The default of 16 is far too large for the neighbours of a
    molecule, which has two or three of them: sums are divided by it, and deep networks without a norm may not learn.
    Call it once before training, on a batch like those of the training. Weights, exponents and the statistics of batch
    norms stay as they are.

    .. note::
        ``size`` is not in the ``state_dict``. A copy of the model and :func:`gnpool.save_model` keep it. Whoever loads
        a ``state_dict`` into a new model must set the sizes again: the outputs differ otherwise.

    Args:
        model (torch.nn.Module): Any module with :class:`gnpool.GNPAggregation` inside.
        *args (optional): What the model is called with.
        **kwargs (optional): The same by name.

    Returns:
        dict[str, float]: The size of each GNP, by its name in the model.

    Example:
        >>> import torch
        >>> from gnpool import GNPAggregation, GNPConv
        >>> from gnpool.nn import set_sizes
        >>> conv = GNPConv(torch.nn.Linear(4, 4), GNPAggregation(4))
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> set_sizes(conv, torch.rand(4, 4), ring)
        {'aggr_module': 2.0}
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, GNPAggregation)}
    if not layers:
        raise ValueError(f"set_sizes: {type(model).__name__} has no GNPAggregation inside")
    counts: dict[str, list[Tensor]] = {name: [] for name in layers}
    # A hook makes fused layers go through `forward`, too.
    hooks = [
        layer.register_forward_pre_hook(_counter(layer, counts[name]), with_kwargs=True)
        for name, layer in layers.items()
    ]
    modes = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad():
            model.eval()(*args, **kwargs)
    finally:
        for module, training in modes.items():
            module.training = training
        for hook in hooks:
            hook.remove()
    means = {name: float(torch.cat(some).double().mean()) for name, some in counts.items() if sum(map(len, some))}
    for name, mean in means.items():
        layers[name].size = mean
    return means


def _counter(layer: GNPAggregation, counts: list[Tensor]) -> Callable[..., None]:
    """A hook that keeps how many elements each segment has; empty segments are left out."""
    signature = inspect.signature(layer.forward)

    def hook(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if given["sizes"] is not None:
            found = given["sizes"].detach().flatten()
        elif given["ptr"] is not None:
            found = given["ptr"].diff()
        elif given["index"] is not None:
            found = torch.bincount(given["index"])
        else:
            found = torch.tensor([given["x"].size(given["dim"])])
        counts.append(found[found > 0].cpu())

    return hook
