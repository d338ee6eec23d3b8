"""Metrics of one module, item by item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gnpool.training.program import Forward, Loss, by_name


@torch.no_grad()
def evaluate_items(
    model: torch.nn.Module,
    batches: Iterable[Any],
    metric: Loss,
    *,
    device: str | torch.device = "cpu",
    forward: Forward | None = None,
) -> Tensor:
    r"""The value of ``metric`` for every item that counts, in float64 and on the CPU.

    Args:
        model (torch.nn.Module): The model; it is set to evaluation mode and moved to ``device``.
        batches (Iterable): Batches, such as :class:`Batches` with ``seed=None``.
        metric (callable): ``metric(prediction, batch)``, one value per item.
        device (str or torch.device, optional): Where to compute.
        forward (callable, optional): How to call the model, as in :func:`fit_many`.
    """
    model = model.to(device).eval()
    call = by_name(model) if forward is None else forward
    found = []
    for batch in batches:
        here = batch.to(device)
        values = metric(call(model, here).double(), here.double() if hasattr(here, "double") else here).flatten()
        weight = getattr(here, "weight", None)
        found.append((values if weight is None else values[weight.flatten() > 0]).cpu())
    return torch.cat(found)
