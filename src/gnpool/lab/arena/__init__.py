"""Public benchmarks of size generalisation: poolings beside published methods."""

from gnpool.lab.arena.tables import TABLES

__all__ = ["TABLES"]
