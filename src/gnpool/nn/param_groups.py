"""Optimiser groups: p, q, the growth and the rest learn at their own rates."""

from __future__ import annotations

from typing import Any

import torch

from gnpool.nn.aggregation import GNPAggregation

P_TIMES, P_MOST = 30.0, 0.1
G_TIMES, G_MOST = 10.0, 0.03


def exponent_rates(lr: float) -> dict[str, float]:
    """The default rates of p, q and the growth: multiples of ``lr``, within bounds."""
    return {"p": max(lr, min(P_TIMES * lr, P_MOST)), "q": lr, "g": max(lr, min(G_TIMES * lr, G_MOST))}


def param_groups(
    model: torch.nn.Module,
    lr: float,
    *,
    lr_p: float | None = None,
    lr_q: float | None = None,
    lr_g: float | None = None,
    **rest: Any,
) -> list[dict[str, Any]]:
    r"""Parameter groups of ``model`` for any optimiser of :mod:`torch.optim` that takes groups.

    The parameters behind p, q and the growth of every :class:`GNPAggregation` in the model come in separate groups,
    named ``"p"``, ``"q"`` and ``"g"``, beside ``"rest"``; a group without parameters is left out. p and the growth
    need larger rates than the rest, since each is a single number that has a long way to go.

    Args:
        model (torch.nn.Module): Any module.
        lr (float): Learning rate of the rest.
        lr_p (float, optional): Learning rate of p. (default: 30 times ``lr``, at most 0.1)
        lr_q (float, optional): Learning rate of q, of published coordinates. (default: ``lr``)
        lr_g (float, optional): Learning rate of the growth. (default: 10 times ``lr``, at most 0.03)
        **rest (optional): Further options of all groups, such as ``momentum``. Weight decay is the exception: p, q and
            the growth never decay, since decay would pull them to fixed values regardless of the data. (``ASGD`` has a
            second decay, ``lambd``, that reaches all groups: set it to 0.)

    Example:
        >>> import torch
        >>> from gnpool import GNPAggregation, param_groups
        >>> model = torch.nn.Sequential(GNPAggregation(8), torch.nn.Linear(8, 1))
        >>> groups = param_groups(model, 1e-3, weight_decay=1e-4)
        >>> [(g["name"], len(g["params"]), g["lr"], g["weight_decay"]) for g in groups]
        [('rest', 3, 0.001, 0.0001), ('p', 1, 0.03, 0.0), ('g', 1, 0.01, 0.0)]
        >>> optimizer = torch.optim.Adam(groups)
    """
    found: dict[str, dict[int, torch.nn.Parameter]] = {"p": {}, "q": {}, "g": {}}
    for module in model.modules():
        if isinstance(module, GNPAggregation):
            for group, parameters in zip(found.values(), module.exponents().values(), strict=True):
                group.update({id(parameter): parameter for parameter in parameters})
    others = [
        parameter for parameter in model.parameters() if not any(id(parameter) in group for group in found.values())
    ]
    groups = [{"params": others, "lr": lr, **rest, "name": "rest"}]
    for (name, default), rate in zip(exponent_rates(lr).items(), (lr_p, lr_q, lr_g), strict=True):
        rate = default if rate is None else rate
        groups.append({"params": list(found[name].values()), "lr": rate, **rest, "weight_decay": 0.0, "name": name})
    return [group for group in groups if group["params"]]
