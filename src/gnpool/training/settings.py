"""The setting of a training run (rates, clipping, optimiser), and which runs make up a work unit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from gnpool.nn.param_groups import exponent_rates

OPTIMIZERS = ("rmsprop", "adam")


@dataclass(frozen=True)
class Setting:
    r"""The hyperparameters of one training run, with torch's own defaults.

    Args:
        lr (float): Learning rate of everything but the exponents of GNP.
        lr_p, lr_q, lr_g (float, optional): Learning rates of p, q and the growth of every GNP. (default: those of
            :func:`gnpool.param_groups`)
        clip (float, optional): Largest norm of the gradient of all parameters together; ``None`` means no clipping.
        optimizer (str, optional): ``"rmsprop"`` or ``"adam"``, as in :mod:`torch.optim`.
        betas (tuple[float, float], optional): Adam's.
        alpha (float, optional): RMSprop's smoothing constant.
        eps (float, optional): Added to the denominator of either optimiser.
        weight_decay (float, optional): L2 penalty; the exponents of GNP are spared.
        start (str, optional): Where the GNPs of the model start: the name of a pooling for all of them, or one for
            each layer, from the first to the readout, as ``"sum/mean"``; see :func:`set_starts`. (default: where the
            model puts them)

    Example:
        >>> from gnpool.training import Setting
        >>> settings = Setting.grid(lr=[1e-2, 1e-3], lr_p=3e-2, clip=[1e2, 1e4])
        >>> len(settings), settings[1]
        (4, Setting(lr=0.01, lr_p=0.03, clip=10000.0))
    """

    lr: float
    lr_p: float | None = None
    lr_q: float | None = None
    clip: float | None = None
    optimizer: str = "rmsprop"
    betas: tuple[float, float] = (0.9, 0.999)
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    lr_g: float | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))  # JSON gives a list
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"Setting: 'optimizer' must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        for name in ("lr", "lr_p", "lr_q", "lr_g", "clip", "eps", "weight_decay"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"Setting: '{name}' must be at least 0 and finite, got {value}")
        if self.clip == 0:
            raise ValueError(f"Setting: 'clip' must be above 0, or None for no clipping; got {self.clip}")
        for name, value in (("alpha", self.alpha), ("betas", self.betas[0]), ("betas", self.betas[1])):
            if not 0 <= value < 1:
                raise ValueError(f"Setting: '{name}' must lie in [0, 1), got {value}")

    @property
    def rates(self) -> dict[str, float]:
        """Learning rate by the groups of :func:`gnpool.param_groups`."""
        given = {"p": self.lr_p, "q": self.lr_q, "g": self.lr_g}
        rates = {name: rate for name, rate in given.items() if rate is not None}
        return {"rest": self.lr, **exponent_rates(self.lr), **rates}

    @classmethod
    def grid(cls, **options: Any) -> list[Setting]:
        """All combinations of the given values; a value that is not a list is the same in all of them."""
        lists = {name: value if isinstance(value, list) else [value] for name, value in options.items()}
        return [cls(**dict(zip(lists, values, strict=True))) for values in itertools.product(*lists.values())]

    def to_dict(self) -> dict[str, Any]:
        """All values in a form that JSON can hold; ``Setting(**d)`` turns them back into a setting."""
        later = {name: value for name in ("lr_g", "start") if (value := getattr(self, name)) is None}
        return {name: value for name, value in asdict(self).items() if name not in later} | {"betas": list(self.betas)}

    def __repr__(self) -> str:
        shown = [f.name for f in fields(self) if f.name == "lr" or getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


@dataclass(frozen=True)
class Run:
    """One training run of a study: a setting and the seed of its initialisation."""

    setting: Setting
    seed: int


def plan_runs(settings: Iterable[Setting], seeds: Iterable[int]) -> list[Run]:
    """Every setting with every seed, setting by setting."""
    seeds = list(seeds)
    return [Run(setting, seed) for setting in settings for seed in seeds]


def plan_units(runs: Sequence[Run], size: int) -> list[list[Run]]:
    """Runs in work units of ``size``; the last unit may be smaller. The units depend on nothing else."""
    return [list(runs[i : i + size]) for i in range(0, len(runs), size)]
