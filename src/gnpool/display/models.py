"""How models are called in tables, in ``fit.json`` and on pages."""

from __future__ import annotations

GNP = "GNP"
CRYSTAL = "GNP*"  # the same models with exact poolings in place of the learned ones
MODEL_COLUMN = "model"  # of rows that stand beside the grid of a table: they are shown as the columns of a grid


def is_gnp(name: str) -> bool:
    """Whether a name of a model, of a pooling or of a cell is one of GNP's; other models are baselines.

    Example:
        >>> is_gnp("basic/GNP*"), is_gnp("gnp+"), is_gnp("sum/max")
        (True, True, False)
    """
    return "gnp" in name.lower()
