"""Networks with exact poolings in place of learned ones, and the weights that they start from."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GINConv, GINEConv

from gnpool.insight.crystal import CrystalAggregation, names_in
from gnpool.insight.probe import branches_of, gnp_layers
from gnpool.insight.proposals import Poolings


def replaced(model: torch.nn.Module, poolings: Poolings, biases: bool = True, own: bool = True) -> torch.nn.Module:
    """A copy of the model with exact poolings in the named layers; ``biases=False`` also removes all biases.

    ``own=False`` removes the node's own value, which GIN adds to what a node pools.

    Example:
        >>> from gnpool.insight.crystallize import replaced
        >>> from gnpool.models import SetNet
        >>> exact = replaced(SetNet(1, "gnpg", hidden=8), {"pool": {"one": "max"}})
        >>> exact.pool
        CrystalAggregation(8, max[0:8])
    """
    model = copy.deepcopy(model)
    layers = gnp_layers(model)
    for path, names in poolings.items():
        if not names:
            continue
        crystal = CrystalAggregation.from_gnp(layers[path], names)
        if path == "":
            model = crystal
        else:
            parent, _, attribute = path.rpartition(".")
            setattr(model.get_submodule(parent), attribute, crystal)
    if not biases:
        for module in _with_bias(model):
            module.register_parameter("bias", None)
    if not own:
        for module in _with_own(model).values():
            _drop_own(module)
    return model


def renewed(model: torch.nn.Module) -> torch.nn.Module:
    """A copy with fresh weights in every module that has ``reset_parameters``; frozen weights stay."""
    model = copy.deepcopy(model)
    frozen = [(weight, weight.detach().clone()) for weight in model.parameters() if not weight.requires_grad]
    for module in model.modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    with torch.no_grad():
        for weight, value in frozen:
            weight.copy_(value)
    return model


def inherited(model: torch.nn.Module, parent: torch.nn.Module) -> torch.nn.Module:
    """The model with the weights of ``parent``, which may have other poolings and other biases.

    The weights behind new poolings are 0, as are biases that the parent lacks, so that at first they add nothing.
    """
    old, new = dict(parent.named_modules()), dict(model.named_modules())
    known = parent.state_dict()
    state = {name: known.get(name, torch.zeros_like(value)) for name, value in model.state_dict().items()}
    for path, crystal in new.items():
        if isinstance(crystal, CrystalAggregation) and crystal.mix is not None:
            weight = torch.zeros_like(crystal.mix.weight)
            before = old[path]
            assert isinstance(before, CrystalAggregation)
            assert before.mix is not None
            there = _columns(before)
            for part, columns in _columns(crystal).items():
                if part in there:
                    weight[:, columns] = before.mix.weight[:, there[part]]
            state[f"{path}.mix.weight" if path else "mix.weight"] = weight.detach()
    kept = {f"{path}.eps" if path else "eps" for path, layer in _with_own(model).items() if _own_weight(layer) == -1}
    model.load_state_dict({**state, **{name: model.state_dict()[name] for name in kept & state.keys()}})
    return model


def _columns(crystal: CrystalAggregation) -> dict[tuple[int, int, str], slice]:
    """The columns of the mixing layer that each part of a crystal feeds."""
    found, first = {}, 0
    parts: list[Any] = crystal.parts
    for start, stop, name in parts:
        found[start, stop, name] = slice(first, first + stop - start)
        first += stop - start
    return found


def keeps_width(model: torch.nn.Module, poolings: Poolings) -> bool:
    """Whether the layers keep their output channels: without a mixing layer each branch must have one pooling."""
    layers = gnp_layers(model)
    return all(
        not names
        or layers[path].mix is not None
        or (len(names) == len(branches_of(layers[path])) and all(len(names_in(text)) == 1 for text in names.values()))
        for path, names in poolings.items()
    )


def has_biases(model: torch.nn.Module) -> bool:
    """Whether a linear layer has a bias."""
    return bool(_with_bias(model))


def has_own(model: torch.nn.Module) -> bool:
    """Whether a layer adds the node's own value to what the node pools."""
    return bool(_with_own(model))


def is_trainable(model: torch.nn.Module) -> bool:
    """Whether there is anything to refit."""
    return any(parameter.requires_grad for parameter in model.parameters())


def _with_own(model: torch.nn.Module) -> dict[str, Any]:
    """The layers that add (1 + eps) times the node's own value, by path: those of this library, and PyG's GIN."""
    return {
        path: module
        for path, module in model.named_modules()
        if getattr(module, "adds_own", False) or isinstance(module, (GINConv, GINEConv))
    }


def _own_weight(layer: Any) -> float:
    return float(layer.eps)


def _drop_own(layer: Any) -> None:
    """Set eps to -1, for good if it was learned."""
    if isinstance(layer.eps, Tensor):
        value = torch.full_like(layer.eps.detach(), -1.0)
        del layer.eps
        layer.register_buffer("eps", value)
    else:
        layer.eps = -1.0


def _with_bias(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The linear layers that have a bias, torch's and PyG's."""
    return [m for m in model.modules() if type(m).__name__ == "Linear" and isinstance(m.bias, Tensor)]
