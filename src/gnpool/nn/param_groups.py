"""Optimiser groups: p, q and the rest learn at their own rates."""

from __future__ import annotations

from typing import Any

import torch

from gnpool.nn.aggregation import GNPAggregation


def param_groups(
    model: torch.nn.Module, lr: float, *, lr_p: float | None = None, lr_q: float | None = None, **rest: Any
) -> list[dict[str, Any]]:
    r"""Parameter groups of ``model`` for any optimiser of :mod:`torch.optim` that takes groups.

    The parameters behind p and q of every :class:`GNPAggregation` in the model come in groups of their own, named
    ``"p"`` and ``"q"``, beside ``"rest"``; a group without parameters is left out. p wants a larger rate than the rest:
    it moves about one rate a step, and from 1.7 to the cap is a long way.

    Args:
        model (torch.nn.Module): Any module.
        lr (float): Learning rate of the rest.
        lr_p (float, optional): Learning rate of p. (default: ``lr``)
        lr_q (float, optional): Learning rate of q. (default: ``lr``)
        **rest (optional): Further options of all groups, such as ``momentum``. Weight decay is the exception: p and
            q never decay, since that would pull p to 1.69 and q to 0 whatever the data says. (``ASGD`` has a decay
            of its own, ``lambd``, that reaches all groups: set it to 0 there.)

    Example:
        >>> import torch
        >>> from gnpool import GNPAggregation, param_groups
        >>> model = torch.nn.Sequential(GNPAggregation(8), torch.nn.Linear(8, 1))
        >>> groups = param_groups(model, 1e-3, lr_p=3e-2, weight_decay=1e-4)
        >>> [(g["name"], len(g["params"]), g["lr"], g["weight_decay"]) for g in groups]
        [('rest', 3, 0.001, 0.0001), ('p', 2, 0.03, 0.0), ('q', 2, 0.001, 0.0)]
        >>> optimizer = torch.optim.RMSprop(groups)
    """
    found: dict[str, dict[int, torch.nn.Parameter]] = {"p": {}, "q": {}}
    for module in model.modules():
        if isinstance(module, GNPAggregation):
            for group, parameters in zip(found.values(), module.exponents(), strict=True):
                group.update({id(parameter): parameter for parameter in parameters})
    others = [
        parameter for parameter in model.parameters() if not any(id(parameter) in group for group in found.values())
    ]
    groups = [
        {"params": others, "lr": lr, **rest, "name": "rest"},
        {
            "params": list(found["p"].values()),
            "lr": lr if lr_p is None else lr_p,
            **rest,
            "weight_decay": 0.0,
            "name": "p",
        },
        {
            "params": list(found["q"].values()),
            "lr": lr if lr_q is None else lr_q,
            **rest,
            "weight_decay": 0.0,
            "name": "q",
        },
    ]
    return [group for group in groups if group["params"]]
