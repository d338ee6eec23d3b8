"""gnpool: pooling that learns which function the task needs, and extrapolates.

The operator needs torch alone; the layers are loaded when first asked for, since they bring PyTorch Geometric along.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gnpool.ops import norm_pool, norm_pool_neighbors

if TYPE_CHECKING:
    from gnpool.nn import GNPAggregation, GNPConv, param_groups
    from gnpool.training import Batches, Setting, fit_many

__version__ = "0.1.0"
__all__ = [
    "Batches",
    "GNPAggregation",
    "GNPConv",
    "Setting",
    "__version__",
    "fit_many",
    "norm_pool",
    "norm_pool_neighbors",
    "param_groups",
]

_LAZY = {
    **dict.fromkeys(("GNPAggregation", "GNPConv", "param_groups"), "gnpool.nn"),
    **dict.fromkeys(("Batches", "Setting", "fit_many"), "gnpool.training"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'gnpool' has no attribute '{name}'")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
