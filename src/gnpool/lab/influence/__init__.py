"""The table of influence maximisation: MONSTOR with GNP and without."""

from gnpool.lab.influence.tables import TABLES

__all__ = ["TABLES"]
