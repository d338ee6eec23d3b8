"""GNP for experiments, with any start or with a masked branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnpool.nn import GNPAggregation

MASKS = ("positive", "negative")


class StudyGNPAggregation(GNPAggregation):
    r""":class:`gnpool.GNPAggregation` in published coordinates, with two additions for experiments. Both classes have
    the same parameters, so that each can load the other's ``state_dict``.

    Args:
        channels (int): Number of channels.
        mask (str, optional): The branch, ``"positive"`` or ``"negative"``, whose pooled channels are replaced by 0 in
            front of the mixing layer. It gets no gradient. (default: ``None``)
        t0 (float, optional): Where t of both branches starts; :math:`p = \min(1 + \mathrm{softplus}(t), p_{max})`.
            (default: ``None``, the start of :class:`gnpool.GNPAggregation`, 0)
        q0 (float, optional): Where q of both branches starts. (default: ``None``, likewise)
        **options (optional): Options of :class:`gnpool.GNPAggregation`.

    Example:
        >>> import torch
        >>> from gnpool.models import StudyGNPAggregation
        >>> aggr = StudyGNPAggregation(2, mix=False, mask="negative", t0=-6.0)
        >>> aggr(torch.tensor([[1.0, 4.0], [2.0, 4.0]])).detach()
        tensor([[3.00, 0.00]])
    """

    def __init__(
        self,
        channels: int,
        *,
        mask: str | None = None,
        t0: float | None = None,
        q0: float | None = None,
        **options: Any,
    ) -> None:
        if options.setdefault("coordinates", "published") != "published":
            raise ValueError("StudyGNPAggregation: 'coordinates' must be 'published', which is what it studies")
        super().__init__(channels, **options)
        if mask is not None and mask not in MASKS:
            raise ValueError(f"StudyGNPAggregation: 'mask' must be one of {MASKS} or None, got {mask!r}")
        if self.start is not None and (t0 is not None or q0 is not None):
            raise ValueError(f"StudyGNPAggregation: give 't0' and 'q0' or start={self.start!r}, not both")
        self.mask, self.t0, self.q0 = mask, t0, q0
        self._move_start()

    mask: str | None = None
    t0: float | None = None  # the base class resets before this constructor has set them
    q0: float | None = None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self._move_start()

    @torch.no_grad()
    def _move_start(self) -> None:
        for kind, start in (("p", self.t0), ("q", self.q0)):
            if start is not None:
                for raw in self.exponents()[kind]:
                    raw.fill_(start)

    def _branches(self, pool: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        if self.mask is None:
            return super()._branches(pool)

        def masked(p: Tensor, q: Tensor) -> Tensor:  # the sign of p tells the branch of a channel
            keep = p < 0 if self.mask == "positive" else p > 0
            return torch.where(keep, pool(p, q), 0.0)

        return super()._branches(masked)

    def __repr__(self) -> str:
        own = [f"{name}={value!r}" for name in ("mask", "t0", "q0") if (value := getattr(self, name)) is not None]
        return ", ".join([super().__repr__()[:-1], *own]) + ")"
