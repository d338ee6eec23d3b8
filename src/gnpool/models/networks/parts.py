"""Parts that the networks share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "leaky_relu": F.leaky_relu, "elu": F.elu}

FORMS = ("message", "gin")  # the network of a layer in front of the aggregation, or behind it


def check_activation(name: str, model: str) -> str:
    """``name`` if it is an activation, or a ValueError."""
    if name not in ACTIVATIONS:
        raise ValueError(f"{model}: 'activation' must be one of {tuple(ACTIVATIONS)}, got {name!r}")
    return name


class Network(torch.nn.Module):
    """A module whose parameters are those of its parts."""

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self)


class MLP(Network):
    """Fully connected layers, each with a bias and followed by the activation, the last one too unless told not to."""

    def __init__(self, widths: list[int], activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, x: Tensor, last: bool = True) -> Tensor:
        act = ACTIVATIONS[self.activation]
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x)
            if last or number < len(self.layers):
                x = act(x)
        return x

    def __repr__(self) -> str:
        widths = [layer.in_features for layer in self.layers] + [self.layers[-1].out_features]
        return f"{self.__class__.__name__}({widths}, {self.activation!r})"


def reset(module: torch.nn.Module) -> None:
    """Reset the children of ``module`` in order."""
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList):
            reset(child)
        elif callable(again := getattr(child, "reset_parameters", None)):
            again()
