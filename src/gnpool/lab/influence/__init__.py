"""The table of influence maximisation: MONSTOR with and without GNP."""

from gnpool.lab.influence.tables import TABLES

__all__ = ["TABLES"]
