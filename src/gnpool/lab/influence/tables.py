"""Defines the table of influence maximisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gnpool.influence import collection
from gnpool.lab.influence.jobs import influence_jobs
from gnpool.lab.influence.lessons import BASELINES, MODELS, amount_of, baseline_choices, choices_of, lessons
from gnpool.lab.influence.results import choices_for, influence_estimate, influence_results
from gnpool.lab.paper import paper_tables
from gnpool.lab.running.job import Job, Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Place, Scope
from gnpool.store import Store


@dataclass(frozen=True)
class InfluenceTable(AnyTable):
    """The influence of seeds, by the model or baseline that chose them."""

    family: ClassVar[str] = "influence"
    options: ClassVar[frozenset[str]] = frozenset({"seeds"})

    def at_hand(self) -> bool:
        return collection.graphs_zip() is not None

    def fetch(self, scope: Scope, store: Store) -> None:
        amount = amount_of(scope)
        learned = [choice for lesson in lessons(amount) for choice in choices_of(lesson)]
        missing = [one for one in (*learned, *baseline_choices(amount)) if one.key(amount) not in store]
        if missing and scope.train:
            collection.read_graph(missing[0].target, "test", "BT", amount.nodes)

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[Job]:
        return influence_jobs(amount_of(scope), store) if scope.train else ()

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        return influence_results(self, store, amount_of(scope))

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        amount = amount_of(scope)
        yield from (lesson.key(amount) for lesson in lessons(amount))
        yield from (choice.key(amount) for cell in self.cells for choice in choices_for(cell, amount))

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        found = influence_estimate(self, amount_of(scope), machine.kind, store)
        return found if scope.train else found.untrained()


def _cells() -> Iterator[Place]:
    for row in (*MODELS, *BASELINES):
        for column in paper_tables()["im_monstor"]["columns"]:
            yield Place(row, column)


_PAPER = paper_tables()["im_monstor"]
IM_MONSTOR = InfluenceTable("im_monstor", _PAPER["title"], _PAPER["metric"], tuple(_cells()))
TABLES = {IM_MONSTOR.id: IM_MONSTOR}
