"""Tables of graph classification: cross-validations of SAGPool and ASAPool, each with and without GNP."""

from gnpool.lab.classification.tables import TABLES

__all__ = ["TABLES"]
