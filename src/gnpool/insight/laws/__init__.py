"""Laws behind targets: found and fitted without training, with a statement of how far they can be trusted."""

from gnpool.insight.laws.finding import Finding, Law, find_law

__all__ = ["Finding", "Law", "find_law"]
