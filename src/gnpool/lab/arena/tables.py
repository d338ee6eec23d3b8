"""Defines the tables of the arena."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from gnpool.data.tudataset import at_hand
from gnpool.lab.arena import counting, motif, multitask, salsa, tu
from gnpool.lab.arena.bouts import Bout, seconds_of
from gnpool.lab.arena.contest import Amount, Contest
from gnpool.lab.arena.results import CHOSEN, arena_results
from gnpool.lab.running.job import Job, Key
from gnpool.lab.table import AnyTable, Estimate, Machine, Place, Scope
from gnpool.store import Store

CONTESTS = {
    contest.id: contest
    for contest in (
        *motif.CONTESTS,
        *tu.CONTESTS,
        *tu.INNER,
        *multitask.CONTESTS,
        *salsa.CONTESTS,
        *counting.CONTESTS,
    )
}


@dataclass(frozen=True)
class ArenaTable(AnyTable):
    """A public benchmark: contenders with the same network and training, beside published methods.

    Args:
        id (str): Name of the benchmark.
        title (str): Title of the table.
        contests (tuple): The contests; each has its own columns.
        inner (tuple): For each contest, the inner contest whose test chooses a contender; may be empty.
    """

    family: ClassVar[str] = "arena"
    options: ClassVar[frozenset[str]] = frozenset({"seeds", "data_seed"})

    contests: tuple[Contest, ...]
    inner: tuple[Contest, ...] = ()

    def data(self) -> list[str]:
        return list(dict.fromkeys(name for contest in self.contests for name in contest.data_sets))

    def at_hand(self) -> bool:
        """Whether any part of the table can run; data sets that are not on this machine are left out."""
        return not self.data() or any(map(at_hand, self.data()))

    def jobs(self, scope: Scope, store: Store, device: torch.device) -> Sequence[Job]:
        return [bout for bout in self._bouts(scope) if here(bout.contest)] if scope.train else ()

    def results(self, scope: Scope, store: Store) -> dict[str, Any]:
        amounts = {contest.id: amount_of(contest, scope) for contest in (*self.contests, *self.inner)}
        return arena_results(self, store, amounts, scope.data_seed)

    def keys(self, scope: Scope, store: Store) -> Iterator[Key]:
        return (bout.key for bout in self._bouts(scope))

    def estimate(self, scope: Scope, store: Store | None, machine: Machine) -> Estimate:
        wanted = self._bouts(scope)
        done = {bout.name for bout in wanted if store is not None and bout.key in store}
        minutes = {bout.name: seconds_of(bout, machine.kind) / machine.jobs / 60 for bout in wanted}
        columns = {contest.id: len(contest.columns) for contest in self.contests}
        found = Estimate(
            trainings=len(wanted),
            runs=sum(bout.amount.seeds * bout.amount.runs_each for bout in wanted),
            exams=sum(len(bout.contest.columns) for bout in wanted),
            done=len(done),
            minutes=sum(minutes.values()),
            minutes_left=sum(value for name, value in minutes.items() if name not in done),
            cells_done=sum(columns.get(bout.contest.id, 0) for bout in wanted if bout.name in done),
        )
        return found if scope.train else found.untrained()

    def _bouts(self, scope: Scope) -> list[Bout]:
        """All contests, each followed by its inner one."""
        ordered = zip(self.contests, self.inner, strict=True) if self.inner else ((one,) for one in self.contests)
        return [
            Bout(contest, contender, amount, scope.data_seed)
            for contest in itertools.chain.from_iterable(ordered)
            for amount in (amount_of(contest, scope),)
            for contender in amount.contenders
        ]


def amount_of(contest: Contest, scope: Scope) -> Amount:
    """What the preset means for a contest; ``seeds`` may replace its number of seeds."""
    amount = scope.of(contest.amounts)
    return amount if scope.seeds is None else replace(amount, seeds=scope.seeds)


def here(contest: Contest) -> bool:
    """Whether the contest needs no download. Contests that need one are left out, and the result says so."""
    return all(map(at_hand, contest.data_sets))


def _table(name: str, title: str, contests: Sequence[Contest], inner: Sequence[Contest] = ()) -> ArenaTable:
    rows = [contender.name for contender in contests[0].amounts["paper"].contenders]
    rows += [CHOSEN] if inner else []
    cells = (Place(row, column.name) for contest in contests for column in contest.columns for row in rows)
    return ArenaTable(name, title, contests[0].metric, tuple(cells), tuple(contests), tuple(inner))


TABLES = {
    table.id: table
    for table in (
        _table("good_motif_size", "GOOD-Motif, size shift: accuracy on large graphs", motif.CONTESTS[:1]),
        _table("good_motif_basis", "GOOD-Motif, basis shift: accuracy on another base graph", motif.CONTESTS[1:]),
        _table("tu_size", "TU sets, size shift: MCC on the largest tenth", tu.CONTESTS, tu.INNER),
        _table("pna_multitask", "PNA's multitask benchmark, also on larger graphs", multitask.CONTESTS),
        _table("salsa_bfs", "Breadth-first search, learned on 16 nodes", salsa.CONTESTS[:1]),
        _table("salsa_dijkstra", "Shortest paths, learned on 16 nodes", salsa.CONTESTS[1:2]),
        _table("salsa_eccentricity", "Eccentricity, learned on 16 nodes", salsa.CONTESTS[2:]),
        _table("colors", "COLORS-3: green nodes in larger graphs", counting.CONTESTS[:1]),
        _table("triangles", "TRIANGLES: triangles in larger graphs", counting.CONTESTS[1:]),
    )
}
