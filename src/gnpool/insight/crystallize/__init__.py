"""Replaces learned poolings by exact ones: proposals, short looks, refits, and the criterion that chooses."""

from gnpool.insight.crystallize.replace import replaced
from gnpool.insight.crystallize.search import READ_GRAPHS, SETTINGS, crystallize
from gnpool.insight.crystallize.trial import FRESH, Certificate, Crystal, Trial

__all__ = ["FRESH", "READ_GRAPHS", "SETTINGS", "Certificate", "Crystal", "Trial", "crystallize", "replaced"]
