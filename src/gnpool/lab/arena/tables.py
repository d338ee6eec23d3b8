"""The tables of the arena."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from gnpool.lab.arena import motif
from gnpool.lab.arena.bouts import seconds_of
from gnpool.lab.arena.contest import Contest
from gnpool.lab.arena.results import arena_results, bouts
from gnpool.lab.running.job import Job, Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Scope
from gnpool.store import Store
from gnpool.tasks.arena import published


@dataclass(frozen=True)
class ArenaCell:
    """One number of a table, with its deviation."""

    row: str
    column: str


@dataclass(frozen=True)
class ArenaTable(AnyTable):
    """A public benchmark: contenders with the same network and training, beside published methods."""

    family: ClassVar[str] = "arena"
    options: ClassVar[frozenset[str]] = frozenset({"seeds", "data_seed"})

    contest: Contest

    @property
    def id(self) -> str:  # type: ignore[override]
        return self.contest.id

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.contest.title

    @property
    def metric(self) -> str:  # type: ignore[override]
        return self.contest.metric

    @property
    def cells(self) -> tuple[ArenaCell, ...]:  # type: ignore[override]
        rows = [contender.name for contender in self.contest.amounts["paper"].contenders]
        return tuple(ArenaCell(row, column.name) for column in self.contest.columns for row in rows)

    def data(self) -> list[str]:
        return list(self.contest.data_sets)

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[Job]:
        return self._bouts(scope) if scope.train else ()

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        return arena_results(self, store, self._amount(scope), scope.data_seed)

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        return (bout.key for bout in self._bouts(scope))

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        wanted = self._bouts(scope)
        done = [bout for bout in wanted if store is not None and bout.key in store]
        side = machine.jobs
        minutes = {bout.name: seconds_of(bout, machine.kind) / side / 60 for bout in wanted}
        amount = self._amount(scope)
        left = sum(minutes[bout.name] for bout in wanted if bout not in done)
        found = Estimate(
            trainings=len(wanted),
            runs=len(wanted) * amount.seeds * amount.runs_each,
            exams=len(wanted) * len(self.contest.columns),
            done=len(done),
            minutes=sum(minutes.values()),
            minutes_left=left,
            cells_done=len(done) * len(self.contest.columns),
        )
        # without training nothing is done for it
        return found if scope.train else replace(found, trainings=0, runs=0, exams=0, done=0, minutes_left=0.0)

    def _amount(self, scope: Scope) -> Any:
        amount = scope.of(self.contest.amounts)
        return amount if scope.seeds is None else replace(amount, seeds=scope.seeds)

    def _bouts(self, scope: Scope) -> list[Any]:
        return bouts(self.contest, self._amount(scope), scope.data_seed)


def published_title(contest: Contest) -> str:
    """Where the published numbers beside ours come from."""
    source = published(contest.id).source
    return f"{source['title']} ({source['year']})"


TABLES = {table.id: table for table in (ArenaTable(contest) for contest in (*motif.CONTESTS,))}
