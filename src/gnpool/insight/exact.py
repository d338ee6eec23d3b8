"""The names of the poolings of a model whose poolings are exact."""

from __future__ import annotations

import torch
from torch_geometric.nn import aggr

from gnpool.insight.crystal import CrystalAggregation
from gnpool.insight.laws import Law, LawNet, LawsNet

PLAIN = {
    aggr.SumAggregation: "sum",
    aggr.MeanAggregation: "mean",
    aggr.MaxAggregation: "max",
    aggr.MinAggregation: "min",
}


def exact_poolings(model: torch.nn.Module) -> dict[str, str]:
    """The name of every pooling of a model, by the path of its module; parts of a pooling are not listed.

    Example:
        >>> from gnpool.insight.exact import exact_poolings
        >>> from gnpool.models import GraphNet
        >>> exact_poolings(GraphNet(1, "sum", "max"))
        {'aggr': 'sum', 'readout': 'max'}
    """
    if isinstance(model, LawNet):
        return {"law": str(Law.of(model))}
    if isinstance(model, LawsNet):
        return {f"laws.{number}": str(Law.of(law)) for number, law in enumerate(model.laws) if isinstance(law, LawNet)}
    found: dict[str, str] = {}
    for path, module in model.named_modules():
        inside = any(path.startswith(f"{outer}.") for outer in found)
        if not inside and isinstance(module, aggr.Aggregation):
            found[path] = _name(module)
    return found


def _name(module: aggr.Aggregation) -> str:
    if isinstance(module, CrystalAggregation):
        return " and ".join(dict.fromkeys(str(name) for _, _, name in module.parts))
    return PLAIN.get(type(module), type(module).__name__)
