"""Metrics of one module, for each item or as a mean."""

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

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.models import SetNet
        >>> from gnpool.training import Batches, evaluate_items
        >>> sets = [Data(x=torch.ones(n, 1), y=torch.tensor([[float(n)]])) for n in (2, 3, 5)]
        >>> batches = Batches(sets, seed=None)
        >>> evaluate_items(SetNet(1, "sum", hidden=4), batches, lambda prediction, batch: batch.y)
        tensor([2., 3., 5.], dtype=torch.float64)
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

    The arguments are those of :func:`evaluate_items`.

    Example:
        >>> import torch
        >>> from gnpool.training import Batch, evaluate_mean
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> _ = torch.nn.init.constant_(model.weight, 2.0)
        >>> batch = Batch(x=torch.tensor([[1.0], [3.0]]), y=torch.tensor([[3.0], [6.0]]))
        >>> def error(prediction, batch):
        ...     return (prediction - batch.y).abs()
        >>> evaluate_mean(model, [batch], error, forward=lambda model, batch: model(batch.x))
        0.5
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
