"""One step and one evaluation of all replicas of a stack, as functions of a batch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gnpool.nn import GNPAggregation
from gnpool.training.stack import Stack

Loss = Callable[[Tensor, Any], Tensor]
Forward = Callable[[Callable[..., Tensor], Any], Tensor]


class Program:
    """The model of a stack and what is computed with it, over all replicas at once.

    With ``vectorize=True`` this is one ``torch.vmap`` over the replicas. With ``False`` it is a loop with the same
    result, for modules that vmap does not support. ``None`` tries vmap and falls back to the loop with a warning.
    """

    def __init__(
        self,
        stack: Stack,
        loss: Loss,
        criteria: Mapping[str, Loss],
        forward: Forward | None,
        vectorize: bool | None,
    ) -> None:
        self.stack = stack
        self.loss = loss
        self.criteria = dict(criteria)
        self.forward = by_name(stack.module) if forward is None else forward
        self.vectorize = vectorize
        module = stack.module.train()
        named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        # noted, since looking for tied parameters at every call takes time
        self.tied = len({id(value) for _, value in named}) < len(named)

    def losses(self, flat: Tensor, constants: dict[str, Tensor], batch: Any) -> Tensor:
        """(R,) the training loss of every replica: the weighted mean over the items of the batch."""

        def one(row: Tensor, constants: dict[str, Tensor]) -> Tensor:
            total, weight = weighted_sum(self.loss(self._predict(row, constants, batch), batch), batch)
            return total / weight

        self._switch(True)
        return self._over_replicas(one, flat, constants)

    @torch.no_grad()
    def scores(self, flat: Tensor, constants: dict[str, Tensor], batch: Any, metrics: Mapping[str, Loss]) -> Tensor:
        """(R, 2 len(metrics)) in float64: for each metric its weighted sum over the batch, and the sum of weights."""

        def one(row: Tensor, constants: dict[str, Tensor]) -> Tensor:
            prediction = self._predict(row, constants, batch).double()
            sums = [weighted_sum(metric(prediction, wide), wide) for metric in metrics.values()]
            return torch.stack([total for pair in sums for total in pair])

        wide = batch.double() if hasattr(batch, "double") else batch
        self._switch(False)
        return self._over_replicas(one, flat, constants)

    @torch.no_grad()
    def watched(self, flat: Tensor, constants: dict[str, Tensor]) -> dict[str, Tensor]:
        """p and q, or p and the growth, of every GNP by name, (R,) or (R, channels) each."""
        state = {**torch.vmap(self.stack.unflatten)(flat), **constants}
        found = {}
        for path, module in self.stack.module.named_modules():
            if isinstance(module, GNPAggregation):
                for raw in (name for name, _ in module.named_parameters() if name.startswith("raw_")):
                    value = state.get(f"{path}.{raw}" if path else raw)
                    if value is not None:  # a parameter that two layers share has the name of the first
                        name = raw.removeprefix("raw_")
                        found[f"{path}.{name}" if path else name] = module.readable(raw, value)
        return found

    def _switch(self, training: bool) -> None:
        if self.stack.module.training is not training:  # only when needed, since it visits all parts
            self.stack.module.train(training)

    def _predict(self, row: Tensor, constants: dict[str, Tensor], batch: Any) -> Tensor:
        state = {**self.stack.unflatten(row), **constants}

        def model(*args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = torch.func.functional_call(self.stack.module, state, args, kwargs, tie_weights=self.tied)
            return out

        return self.forward(model, batch)

    def _over_replicas(
        self, one: Callable[[Tensor, dict[str, Tensor]], Tensor], flat: Tensor, constants: dict[str, Tensor]
    ) -> Tensor:
        problem = None
        if self.vectorize is not False:
            try:
                result: Tensor = torch.vmap(one, randomness="different")(flat, constants)
                self.vectorize = True
                return result
            except Exception as error:
                if self.vectorize:
                    raise
                problem = error
        rows = [{name: value[k] for name, value in constants.items()} for k in range(len(flat))]
        result = torch.stack([one(row, own) for row, own in zip(flat.unbind(), rows, strict=True)])
        if problem is not None:  # the loop works, so that the error is vmap's and not the caller's
            self.vectorize = False
            warnings.warn(
                f"fit_many: {type(self.stack.module).__name__} does not work under torch.vmap; its runs train one "
                f"after another, which is slower. Pass vectorize=False to silence this. The reason: {problem}",
                stacklevel=2,
            )
        return result


def by_name(module: torch.nn.Module) -> Forward:
    """Call a module with those attributes of the batch that its ``forward`` names, or with the batch as a whole.

    ``forward`` gets the batch as a whole if it has a single argument without default and the batch has no attribute of
    that name; an example is ``forward(data)``.
    """
    parameters = list(inspect.signature(module.forward).parameters.values())
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]

    def forward(model: Callable[..., Tensor], batch: Any) -> Tensor:
        values = {p.name: getattr(batch, p.name, None) for p in named}
        known = {name: value for name, value in values.items() if value is not None and not callable(value)}
        missing = [p.name for p in named if p.default is p.empty and p.name not in known]
        if len(missing) == 1 and not known:
            return model(batch)
        if missing:
            raise ValueError(
                f"fit_many: {type(module).__name__}.forward needs {', '.join(map(repr, missing))}, which the batch "
                f"does not have; pass 'forward', a function (model, batch) -> prediction"
            )
        return model(**known)

    return forward


def weighted_sum(values: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
    """Weighted sum of a loss over the items of the batch, and the sum of the weights.

    A loss that is a single number is taken as a mean, and counts once for every graph of the batch.
    """
    weight = getattr(batch, "weight", None)
    if values.dim() == 0:
        if weight is not None:
            raise ValueError(
                "fit_many: the batch has 'weight', so the loss must give one value per item, not their mean"
            )
        count = values.new_full((), float(getattr(batch, "batch_size", 1)))
        return values * count, count
    values = values.flatten()
    if weight is None:
        return values.sum(), values.new_full((), float(len(values)))
    weight = weight.to(values.dtype).view_as(values)
    # The value of an item of weight 0 may be infinite or NaN, so that multiplying by 0 is not enough.
    return torch.where(weight > 0, values * weight, 0.0).sum(), weight.sum()
