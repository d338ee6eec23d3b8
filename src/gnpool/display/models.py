"""The names of models in tables, in ``fit.json`` and on pages."""

from __future__ import annotations

GNP = "GNP"
CRYSTAL = "GNP*"  # GNP models whose learned poolings were replaced by exact ones
MODEL_COLUMN = "model"  # the column of rows beside the grid of a table, which are shown as columns of a grid


def is_gnp(name: str) -> bool:
    """Whether a name of a model, of a pooling or of a cell is one of GNP's; other models are baselines.

    Example:
        >>> is_gnp("basic/GNP*"), is_gnp("gnp+"), is_gnp("sum/max")
        (True, True, False)
    """
    return "gnp" in name.lower()
