"""Tables and figures of the paper on generated graphs and sets."""

from gnpool.lab.synthetic.tables import TABLES

__all__ = ["TABLES"]
