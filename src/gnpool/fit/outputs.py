"""The outputs of a network for every item of some batches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gnpool.fit.batches import FlatBatches
from gnpool.training.program import by_name


@torch.no_grad()
def outputs_by_batch(model: torch.nn.Module, data: FlatBatches, device: str | torch.device) -> Iterator[Tensor]:
    """(items, outputs) in float64 on the CPU for each batch, without items of weight 0."""
    model = model.to(device).eval()
    call = by_name(model)
    for batch in data:
        found = call(model, batch.to(torch.device(device))).double().cpu()
        weight = batch.fields.get("weight")
        yield found if weight is None else found[weight > 0]


def outputs_of(model: torch.nn.Module, data: FlatBatches, device: str | torch.device) -> Tensor:
    """The outputs for all items; afterwards the model is on the CPU."""
    found = torch.cat(list(outputs_by_batch(model, data, device)))
    model.cpu()
    return found
