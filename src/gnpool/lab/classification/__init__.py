"""Tables of graph classification: cross-validations of SAGPool and ASAPool, with GNP and without."""

from gnpool.lab.classification.tables import TABLES

__all__ = ["TABLES"]
