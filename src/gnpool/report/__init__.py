"""Tables and figures, from stored results alone."""

from gnpool.report.grids import Grid, grids, number, verdict_counts

__all__ = ["Grid", "grids", "number", "verdict_counts"]
