"""Tables on real graphs: their statistics, and the errors of models that were trained on generated graphs."""

from gnpool.lab.real.tables import TABLES

__all__ = ["TABLES"]
