"""Name the poolings that a model has learned, replace them by exact ones, find laws, and export models."""

from gnpool.display.poolings import NAMES, Named
from gnpool.insight.crystal import CrystalAggregation, NamedPooling
from gnpool.insight.crystallize.search import crystallize
from gnpool.insight.crystallize.trial import Certificate, Crystal, Trial
from gnpool.insight.export import export_model
from gnpool.insight.laws.finding import Finding, find_law
from gnpool.insight.laws.law import Law
from gnpool.insight.reading import BranchReading, Reading, read

__all__ = [
    "NAMES",
    "BranchReading",
    "Certificate",
    "Crystal",
    "CrystalAggregation",
    "Finding",
    "Law",
    "Named",
    "NamedPooling",
    "Reading",
    "Trial",
    "crystallize",
    "export_model",
    "find_law",
    "read",
]
