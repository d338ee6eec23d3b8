"""Laws behind targets. They are found without training, and come with the sizes up to which they can be trusted."""

from gnpool.insight.laws.finding import VERSION, Finding, find_law
from gnpool.insight.laws.law import Law
from gnpool.insight.laws.network import LawNet
from gnpool.insight.laws.points import Point
from gnpool.insight.laws.several import LawsNet
from gnpool.insight.laws.space import Sample, Term

__all__ = ["VERSION", "Finding", "Law", "LawNet", "LawsNet", "Point", "Sample", "Term", "find_law"]
