"""gnpool: pooling that learns which function the task needs, and extrapolates.

Everything is loaded when first asked for, so that the command line answers at once: the operator needs torch, the rest
PyTorch Geometric too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnpool.fit import GNPClassifier, GNPRegressor
    from gnpool.insight import crystallize, export_model, find_law, read
    from gnpool.models import load_model, save_model
    from gnpool.nn import GNPAggregation, GNPConv, param_groups, register_with_pyg
    from gnpool.ops import norm_pool, norm_pool_neighbors
    from gnpool.training import Batches, Setting, fit_many, fit_portfolio

__version__ = "0.2.0"
__all__ = [
    "Batches",
    "GNPAggregation",
    "GNPClassifier",
    "GNPConv",
    "GNPRegressor",
    "Setting",
    "__version__",
    "crystallize",
    "export_model",
    "find_law",
    "fit_many",
    "fit_portfolio",
    "load_model",
    "norm_pool",
    "norm_pool_neighbors",
    "param_groups",
    "read",
    "register_with_pyg",
    "save_model",
]

_LAZY = {
    **dict.fromkeys(("norm_pool", "norm_pool_neighbors"), "gnpool.ops"),
    **dict.fromkeys(("crystallize", "export_model", "find_law", "read"), "gnpool.insight"),
    **dict.fromkeys(("GNPClassifier", "GNPRegressor"), "gnpool.fit"),
    **dict.fromkeys(("load_model", "save_model"), "gnpool.models"),
    **dict.fromkeys(("GNPAggregation", "GNPConv", "param_groups", "register_with_pyg"), "gnpool.nn"),
    **dict.fromkeys(("Batches", "Setting", "fit_many", "fit_portfolio"), "gnpool.training"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'gnpool' has no attribute '{name}'")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
