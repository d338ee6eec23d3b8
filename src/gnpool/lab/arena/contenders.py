"""The contenders: pairs of poolings, one for the neighbours of each node and one for the readout."""

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
        readout (str): The readout, by its name there; a network without a readout ignores it.
        starts (tuple): The starting points of the GNPs, each trained separately; None means the network's default.
        options (tuple): Options of both poolings, as pairs of name and value.
        disturbed (tuple): Options of :func:`gnpool.tasks.arena.disturbed` for every second training graph, as pairs of
            name and value. Without options the training graphs are left as they are.
    """

    name: str
    aggr: str
    readout: str
    starts: tuple[str | None, ...] = (None,)
    options: tuple[tuple[str, Any], ...] = ()
    disturbed: tuple[tuple[str, Any], ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether neither pooling has anything to learn."""
        return self.aggr in FIXED and self.readout in FIXED

    @property
    def gnp(self) -> bool:
        """Whether one of the two poolings is GNP."""
        return self.aggr.startswith("gnp") or self.readout.startswith("gnp")

    def lessons(self, graphs: list[Data]) -> list[Data]:
        """The training graphs: as many as given, and every second one disturbed if the contender has such options."""
        if not self.disturbed:
            return graphs
        found = list(graphs)
        found[1::2] = disturbed(graphs[1::2], **dict(self.disturbed))
        return found

    def slots(self) -> dict[str, Any]:
        """The poolings as arguments of a network with an aggregation and a readout."""
        given = {"aggr": self.aggr, "readout": self.readout}
        options = {"aggr_options": dict(self.options), "readout_options": dict(self.options)} if self.options else {}
        return {**given, **options}


def pair(aggr: str, readout: str) -> Contender:
    """A contender of two poolings, given by name."""
    return Contender(f"{aggr}/{readout}", aggr, readout)


def fixed_pairs(aggrs: Sequence[str] = FIXED) -> tuple[Contender, ...]:
    """Every pair of fixed poolings whose aggregation is one of ``aggrs``."""
    return tuple(pair(aggr, readout) for aggr, readout in itertools.product(aggrs, FIXED))


PUBLISHED_GNP = Contender("GNP, as published", "gnp", "gnp", options=(("coordinates", "published"),))
