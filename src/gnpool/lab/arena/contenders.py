"""Who takes part: pairs of poolings, one for the neighbours of each node and one for the readout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_geometric.data import Data

from gnpool.tasks.arena import disturbed

FIXED = ("sum", "mean", "max", "min")


@dataclass(frozen=True)
class Contender:
    """A pair of poolings in the network of a contest.

    Args:
        name (str): The row of its numbers.
        aggr (str): The aggregation, by its name in :func:`gnpool.models.make_pooling`.
        readout (str): The readout, likewise; a network without one ignores it.
        starts (tuple): Where the GNPs start, each a training of its own; None: where the network has them.
        options (tuple): Options of both poolings, as pairs of name and value.
        disturbed (tuple): Options of :func:`gnpool.tasks.arena.disturbed` for every second training graph,
            likewise; none: it learns from the graphs as they are.
    """

    name: str
    aggr: str
    readout: str
    starts: tuple[str | None, ...] = (None,)
    options: tuple[tuple[str, Any], ...] = ()
    disturbed: tuple[tuple[str, Any], ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether nothing is learned in either pooling."""
        return self.aggr in FIXED and self.readout in FIXED

    @property
    def gnp(self) -> bool:
        """Whether one of the two is GNP."""
        return self.aggr.startswith("gnp") or self.readout.startswith("gnp")

    def lessons(self, graphs: list[Data]) -> list[Data]:
        """What it learns from: as many graphs, of which every second one may be disturbed."""
        if not self.disturbed:
            return graphs
        found = list(graphs)
        found[1::2] = disturbed(graphs[1::2], **dict(self.disturbed))
        return found

    def slots(self) -> dict[str, Any]:
        """The poolings as arguments of a network with both slots."""
        given = {"aggr": self.aggr, "readout": self.readout}
        options = {"aggr_options": dict(self.options), "readout_options": dict(self.options)} if self.options else {}
        return {**given, **options}


def pair(aggr: str, readout: str) -> Contender:
    """Two poolings by name."""
    return Contender(f"{aggr}/{readout}", aggr, readout)


def fixed_pairs(aggrs: Sequence[str] = FIXED) -> tuple[Contender, ...]:
    """Every pair of fixed poolings, the aggregation one of ``aggrs``."""
    return tuple(pair(aggr, readout) for aggr, readout in itertools.product(aggrs, FIXED))


PUBLISHED_GNP = Contender("GNP, as published", "gnp", "gnp", options=(("coordinates", "published"),))
