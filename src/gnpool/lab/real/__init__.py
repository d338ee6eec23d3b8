"""Tables on real graphs: their statistics, and what models that were trained on generated graphs make of them."""

from gnpool.lab.real.tables import TABLES

__all__ = ["TABLES"]
