"""Trains one model in the ordinary way, by torch's optimiser in a loop. `fit_many` must give the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from gnpool import Batches, Setting, param_groups
from gnpool.nn import set_starts


def make_optimizer(model: torch.nn.Module, setting: Setting) -> torch.optim.Optimizer:
    rates = {"lr_p": setting.lr_p, "lr_q": setting.lr_q, "lr_g": setting.lr_g}
    groups = param_groups(model, setting.lr, **rates, weight_decay=setting.weight_decay, eps=setting.eps)
    if setting.optimizer == "adam":
        return torch.optim.Adam(groups, betas=setting.betas)
    return torch.optim.RMSprop(groups, alpha=setting.alpha)


def train_alone(
    make_model: Callable[[], torch.nn.Module],
    batches: Batches,
    loss: Callable[[Tensor, Any], Tensor],
    setting: Setting,
    seed: int,
    epochs: int,
    call: Callable[[torch.nn.Module, Any], Tensor],
    after_epoch: Callable[[torch.nn.Module], None] = lambda model: None,
) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = make_model()
    if setting.start is not None:
        set_starts(model, setting.start)
    optimizer = make_optimizer(model, setting)
    for epoch in range(epochs):
        model.train()
        for batch in batches.epoch(epoch):
            optimizer.zero_grad()
            mean(loss(call(model, batch), batch), batch).backward()
            if setting.clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), setting.clip)
            optimizer.step()
        model.eval()
        after_epoch(model)
    return model


def mean(values: Tensor, batch: Any) -> Tensor:
    weight = getattr(batch, "weight", None)
    return values.mean() if weight is None else (values * weight).sum() / weight.sum()


@torch.no_grad()
def score(
    model: torch.nn.Module,
    batches: Iterable[Any],
    metric: Callable[[Tensor, Any], Tensor],
    call: Callable[[torch.nn.Module, Any], Tensor],
) -> float:
    values = [metric(call(model, batch).double(), batch).flatten() for batch in batches]
    return torch.cat(values).mean().item()
