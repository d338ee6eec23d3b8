r"""``fit_portfolio`` trains a model from several starts of its poolings and chooses by validation."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool.nn import GNPAggregation
from gnpool.training.fit import fit_many
from gnpool.training.program import Loss
from gnpool.training.result import Fit, Outcome
from gnpool.training.settings import Setting
from gnpool.training.stack import seeded

Plan = Callable[[], torch.nn.Module] | torch.nn.Module
STARTS = ("sum", "mean")  # of each layer; networks are usually built with these two poolings
ONE_PLACE = ("sum", "mean", "geometric", "l2")
SETTINGS = tuple(Setting.grid(lr=[1e-2, 3e-3, 1e-3], clip=10.0, optimizer="adam"))
SHORT = 4  # with fewer epochs the rates stay constant
HELD_OUT = 0.1  # share of the graphs that is used for validation if no validation data are given


@dataclass(frozen=True)
class Portfolio:
    """What :func:`fit_portfolio` found; prints as a table of the starts.

    Args:
        model (torch.nn.Module): The best model, a plain module on the CPU in evaluation mode.
        choice (Outcome): The run it comes from: its setting, with the start, its seed and its best epoch.
        fit (Fit): All runs of the plan that the best model was made by.
        fits (tuple[Fit, ...]): The runs of every plan, in the order of the plans.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool.models import SetNet
        >>> from gnpool.training import Setting, fit_portfolio
        >>> sets = [Data(x=torch.rand(4, 1), y=torch.ones(1, 1)) for _ in range(20)]
        >>> def error(prediction, batch):
        ...     return (prediction - batch.y).square()
        >>> def network():
        ...     return SetNet(1, "gnpg", hidden=2)
        >>> found = fit_portfolio(network, sets, error, settings=Setting(lr=1e-2), starts=["sum", "max"], epochs=1)
        >>> sorted(found.losses), found.choice.seed
        (['max', 'sum'], 0)
    """

    model: torch.nn.Module
    choice: Outcome
    fit: Fit
    fits: tuple[Fit, ...]

    @property
    def losses(self) -> dict[str, float]:
        """The lowest validation loss of each start, lowest first; infinite if every run of the start diverged.

        Where there are several plans, a start is named with the number of its plan, as in ``"2: sum/mean"``.
        """
        found: dict[str, float] = {}
        for number, fit in enumerate(self.fits, start=1):
            plan = f"{number}: " if len(self.fits) > 1 else ""
            for run in fit.runs:
                start = plan + (run.setting.start or "as made")
                found[start] = min(validation_loss(run), found.get(start, math.inf))
        return dict(sorted(found.items(), key=lambda pair: pair[1]))

    def __str__(self) -> str:
        width = max(len(start) for start in ("start", *self.losses))
        lines = [f"{'start':{width}}  validation loss"]
        return "\n".join(lines + [f"{start:{width}}  {loss:15.3g}" for start, loss in self.losses.items()])


def fit_portfolio(
    make_model: Plan | Sequence[Plan],
    train: Any,
    loss: Loss,
    *,
    validation: Any = None,
    starts: Sequence[str] | None = None,
    settings: Setting | Sequence[Setting] = SETTINGS,
    seeds: int | Iterable[int] = 1,
    epochs: int = 100,
    schedule: Callable[[int], float] | None = None,
    **options: Any,
) -> Portfolio:
    r"""Trains a model from several starts of its GNPs at once, and returns the best one by validation loss.

    Which start of p and the growth leads to the right pooling depends on the task. The validation loss usually shows
    it. The runs are replicas of one program (:func:`fit_many`), so that a portfolio costs far less than separate
    trainings.

    Args:
        make_model (callable or torch.nn.Module): Makes the module, with :class:`gnpool.GNPAggregation` inside. If a
            module is given, copies of it are trained, with new weights for each seed. A list holds several plans: each
            is trained from its own starts, and validation chooses among all runs.
        train (Batches or Sequence[Data] or Iterable): The training data, as :func:`fit_many` takes it.
        loss (callable): ``loss(prediction, batch)``, one value per item, or their mean.
        validation (same as train, optional): Data that chooses the epoch and the run. Without it a tenth of the
            training graphs is set aside, at random.
        starts (Sequence[str], optional): Names of poolings for the layers, see :func:`gnpool.nn.set_starts`. (default:
            all pairs of sum and mean, ``"sum/mean"`` and so on; for a single GNP layer those of sum, mean, geometric
            and l2 that its branches have)
        settings (Setting or Sequence[Setting], optional): Rates to try from each start. (default: Adam with 1e-2, 3e-3
            and 1e-3, and the rates of p and the growth of :func:`gnpool.param_groups`)
        seeds (int or Iterable[int], optional): Seeds of the weights, each with every start. (default: ``1``)
        epochs (int, optional): How often to walk through the training data. (default: ``100``)
        schedule (callable, optional): Factor of all rates as a function of the epoch. (default: 1 for the first half of
            the epochs, then down to a hundredth)
        **options (optional): Further options of :func:`fit_many`, such as ``batch_size`` and ``device``. With several
            plans each has its own folder in ``checkpoint``.

    Returns:
        Portfolio: The best model, the run it comes from, and all runs.

    .. note::
        One GNP has one p and one growth for all channels. A target such as sum(x) / (n + 1) needs two growths. Give a
        second plan with ``branches="split"`` where the error on larger graphs stays at about 1 %:
        ``fit_portfolio([Net, lambda: Net(branches="split")], ...)``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gnpool import fit_portfolio
        >>> from gnpool.models import SetNet
        >>> sets = [torch.rand(3 + k % 5, 1) for k in range(200)]
        >>> graphs = [Data(x=x, y=x.max().view(1, 1)) for x in sets]
        >>> found = fit_portfolio(
        ...     lambda: SetNet(1, "gnpg", hidden=8),
        ...     graphs,
        ...     lambda prediction, batch: (prediction - batch.y).square(),
        ...     starts=["sum", "mean"],
        ...     epochs=5,
        ... )
        >>> len(found.fit), found.choice.setting.start in ("sum", "mean"), type(found.model).__name__
        (6, True, 'SetNet')
    """
    plans: list[Plan] = list(make_model) if isinstance(make_model, Sequence) else [make_model]
    if not plans:
        raise ValueError("fit_portfolio: 'make_model' must hold at least one model")
    if isinstance(starts, str) or (starts is not None and not starts):
        raise ValueError(f"fit_portfolio: 'starts' must be a list of names, got {starts!r}")
    if validation is None:
        train, validation = _hold_out(train)
    grid = [settings] if isinstance(settings, Setting) else list(settings)
    rates = functools.partial(falling, epochs) if schedule is None else schedule
    seeds = seeds if isinstance(seeds, int) else list(seeds)
    folder, fits = options.pop("checkpoint", None), []
    for number, plan in enumerate(plans, start=1):
        make = functools.partial(_renewed, plan) if isinstance(plan, torch.nn.Module) else plan
        runs = [
            dataclasses.replace(setting, start=start)
            for start in (default_starts(seeded(make, 0)) if starts is None else starts)
            for setting in grid
        ]
        fits.append(
            fit_many(
                make, train, loss, runs,
                seeds=seeds, epochs=epochs, validation=validation, schedule=rates,
                checkpoint=folder if folder is None or len(plans) == 1 else Path(folder) / f"plan{number}", **options,
            )
        )  # fmt: skip
    fit = min(fits, key=lambda fit: validation_loss(fit.best()))
    choice = fit.best()
    if "loss" not in choice.best:
        raise ValueError("fit_portfolio: every run diverged; check the scale of features and targets, or lower 'lr'")
    return Portfolio(fit.model(choice), choice, fit, tuple(fits))


def validation_loss(run: Outcome) -> float:
    """The lowest validation loss of a run; infinite if it diverged."""
    return run.best["loss"].value if "loss" in run.best else math.inf


def default_starts(model: torch.nn.Module) -> tuple[str, ...]:
    """The default starts for a model, which depend on the number of its GNP layers."""
    layers = [module for module in model.modules() if isinstance(module, GNPAggregation)]
    if not layers:
        raise ValueError(f"fit_portfolio: {type(model).__name__} has no GNPAggregation inside")
    if len(layers) == 1:
        return tuple(start for start in ONE_PLACE if layers[0].can_start_at(start))
    return tuple("/".join(pair) for pair in itertools.product(STARTS, repeat=2))


def falling(epochs: int, epoch: int) -> float:
    """1 for the first half of the epochs, then linearly down to a hundredth; always 1 if there are few epochs."""
    return 1.0 if epochs < SHORT else max(0.01, min(1.0, 2.0 * (epochs - 1 - epoch) / epochs))


def _renewed(plan: torch.nn.Module) -> torch.nn.Module:
    """A copy of a module with new weights in every part that has ``reset_parameters``."""
    model = copy.deepcopy(plan)
    for module in model.modules():
        if module is not model and callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    return model


def _hold_out(train: Any) -> tuple[list[Data], list[Data]]:
    """The training graphs in two parts, the second for validation."""
    if not isinstance(train, (list, tuple)) or not all(isinstance(graph, Data) for graph in train) or len(train) < 2:
        raise ValueError(
            "fit_portfolio: pass 'validation'; only from a list of graphs can a part be held out automatically"
        )
    order = np.random.default_rng(0).permutation(len(train)).tolist()
    count = max(1, round(HELD_OUT * len(train)))
    return [train[k] for k in order[count:]], [train[k] for k in order[:count]]
