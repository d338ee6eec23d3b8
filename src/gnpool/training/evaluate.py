"""Metrics of one module: item by item, or their mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from gnpool.training.program import Forward, Loss, by_name, weighted_sum


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
    found = []
    for values, batch in _values(model, batches, metric, device, forward):
        weight = getattr(batch, "weight", None)
        found.append((values.flatten() if weight is None else values.flatten()[weight.flatten() > 0]).cpu())
    return torch.cat(found)


def evaluate_mean(
    model: torch.nn.Module,
    batches: Iterable[Any],
    metric: Loss,
    *,
    device: str | torch.device = "cpu",
    forward: Forward | None = None,
) -> float:
    r"""The weighted mean of ``metric`` over all items, as :func:`fit_many` computes it for validation.

    Arguments as in :func:`evaluate_items`.
    """
    sums = [weighted_sum(values, batch) for values, batch in _values(model, batches, metric, device, forward)]
    total, weight = (torch.stack(column).sum() for column in zip(*sums, strict=True))
    return (total / weight).item()


@torch.no_grad()
def _values(
    model: torch.nn.Module, batches: Iterable[Any], metric: Loss, device: str | torch.device, forward: Forward | None
) -> Iterator[tuple[Tensor, Any]]:
    """The metric on each batch, and the batch in float64."""
    model = model.to(device).eval()
    call = by_name(model) if forward is None else forward
    for batch in batches:
        here = batch.to(device)
        wide = here.double() if hasattr(here, "double") else here
        yield metric(call(model, here).double(), wide), wide
