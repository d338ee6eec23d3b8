"""Training of one model or many at once. It knows no task and no network, so that it trains users' modules too."""

from gnpool.training.batches import Batch, Batches
from gnpool.training.evaluate import evaluate_items, evaluate_mean
from gnpool.training.fit import Progress, fit_many
from gnpool.training.portfolio import Portfolio, fit_portfolio
from gnpool.training.result import Best, Fit, Outcome
from gnpool.training.settings import Setting
from gnpool.training.stack import seeded

__all__ = [
    "Batch",
    "Batches",
    "Best",
    "Fit",
    "Outcome",
    "Portfolio",
    "Progress",
    "Setting",
    "evaluate_items",
    "evaluate_mean",
    "fit_many",
    "fit_portfolio",
    "seeded",
]
