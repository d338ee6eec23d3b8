"""A bout: all runs of one contender in a contest, trained by one program and then tested."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool.engine import Caller
from gnpool.lab.arena.contenders import Contender
from gnpool.lab.arena.contest import Amount, Arena, Contest
from gnpool.lab.running.job import Bench, Job, JobPart, Key
from gnpool.store import Store
from gnpool.training import Batches, fit_many
from gnpool.training.fit import Progress
from gnpool.training.machine import describe_machine
from gnpool.training.program import Loss, by_name
from gnpool.training.result import Fit, Outcome

FALLS = ((0.25, 1.0), (0.125, 0.1), (-1.0, 0.01))  # (share of the epochs that is left, factor of the rates)
UNIT = 128  # runs in one program on a GPU


def falling(epochs: int, epoch: int) -> float:
    """Rates fall to a tenth for the last quarter of the epochs, and to a hundredth for the last eighth."""
    left = (epochs - epoch) / epochs
    return next(factor for above, factor in FALLS if left > above)


@dataclass(frozen=True)
class Bout(Job):
    """All runs of a contender.

    Args:
        contest (Contest): The contest that the contender takes part in.
        contender (Contender): The pair of poolings to train.
        amount (Amount): How many seeds, graphs and epochs the preset asks for.
        data_seed (int): Seed of the generated graphs.
    """

    separable: ClassVar[bool] = True
    tells_lowest: ClassVar[bool] = True

    contest: Contest
    contender: Contender
    amount: Amount
    data_seed: int = 0

    @property
    def label(self) -> str:
        return f"{self.contest.id}: {self.contender.name}"

    @property
    def key(self) -> Key:
        options = dict(self.contender.options)
        slots = {"aggr": self.contender.aggr, "readout": self.contender.readout, "starts": list(self.contender.starts)}
        return {
            "table": "arena",
            "contest": self.contest.id,
            "contender": {**slots, "options": options, "copies": self.amount.copies(self.contender)},
            "disturbed": dict(self.contender.disturbed),
            "preset": self.amount.digest,
            "data_seed": self.data_seed,
        }

    @property
    def name(self) -> str:
        return json.dumps(self.key, sort_keys=True)

    def parts(self, store: Store, kind: str) -> list[JobPart]:
        return [JobPart(self.key in store, seconds_of(self, kind), "training")]

    def work(self, bench: Bench) -> bool:
        def compute(checkpoint: Path) -> Any:
            graphs = json.dumps([self.contest.id, self.amount.digest, self.data_seed])
            arena = bench.shared.held(graphs, lambda: self.contest.arena(self.amount, self.data_seed))
            work = (self, bench.engine.share(arena), bench.device, bench.threads)
            return bench.engine.call(bout_unit, *work, caller=bench.caller(checkpoint))

        if bench.record(self.key, compute) is None:
            return False
        bench.finish()
        return True


def seconds_of(bout: Bout, kind: str) -> float:
    """An estimate: a step takes a constant time, and a little more for each run."""
    amount = bout.amount
    steps = amount.epochs * math.ceil(bout.contest.lessons(amount) / amount.batch)
    runs = amount.seeds * amount.runs_each
    step = 0.004 + 0.0001 * runs if kind == "cuda" else 0.02 + 0.0012 * runs * amount.hidden / 32
    return 5.0 + steps * step * bout.contest.slow * (2.0 if bout.contender.gnp else 1.0)


def bout_unit(caller: Caller, bout: Bout, arena: Arena, device: torch.device, threads: int) -> Any:
    """Train and test a bout: its scores, tensors and meta data."""
    if device.type == "cpu":
        torch.set_num_threads(1)  # set for this thread, so that results are the same to the bit on every machine
    began = time.monotonic()
    contest, contender, amount = bout.contest, bout.contender, bout.amount
    seen: dict[int, int] = {}

    def progress(step: Progress) -> None:
        caller.check()
        seen[step.unit] = step.epoch
        caller.tell((sum(seen.values()) / (amount.epochs * step.units), step.best[contest.rules[0]]))

    fit = fit_many(
        functools.partial(contest.network, contender, amount, arena.facts),
        Batches(contender.lessons(arena.train), amount.batch, sorted_edges=True),
        arena.loss,
        amount.settings(contender),
        seeds=amount.seeds * amount.copies(contender),
        epochs=amount.epochs,
        validation=contest.validation(marked(arena, contest)),
        criteria=criteria(arena, contest),
        schedule=functools.partial(falling, amount.epochs),
        device=device,
        unit=UNIT if device.type == "cuda" else None,
        workers=threads,
        checkpoint=caller.checkpoint,
        progress=progress,
        check=caller.check,
    )
    trained = time.monotonic() - began
    chosen = {rule: choices(fit, rule, amount.copies(contender)) for rule in contest.rules}
    tensors = tests(fit, contest, amount, arena, chosen, device, caller.check)
    scores = {
        "runs": [_told(run, fit) for run in fit.runs],
        "chosen": {rule: [None if run is None else run.number for run in runs] for rule, runs in chosen.items()},
    }
    meta = {**describe_machine(device), "seconds": time.monotonic() - began, "seconds_of_training": trained}
    return scores, tensors, meta


def marked(arena: Arena, contest: Contest) -> list[Data]:
    """All validation graphs. If there are several rules, each graph belongs to one of them."""
    rules = contest.rules
    if len(rules) == 1:
        return arena.rules[rules[0]]
    total = sum(len(arena.rules[rule]) for rule in rules)
    found = []
    for rule in rules:
        for graph in arena.rules[rule]:
            share = total / len(arena.rules[rule])
            found.append(graph.clone().update({other: torch.tensor([share * (other == rule)]) for other in rules}))
    return found


def criteria(arena: Arena, contest: Contest) -> dict[str, Loss]:
    """The error under each rule, as a mean over all validation graphs."""
    if len(contest.rules) == 1:
        return {contest.rules[0]: contest.error}

    def error(rule: str, prediction: Tensor, batch: Any) -> Tensor:
        return contest.error(prediction, batch) * getattr(batch, rule)

    return {rule: functools.partial(error, rule) for rule in contest.rules}


def choices(fit: Fit, rule: str, copies: int) -> list[Outcome | None]:
    """For each choice, the run with the lowest validation error; None if all of its runs diverged."""
    groups: dict[int, list[Outcome]] = {}
    for run in fit.runs:
        groups.setdefault(run.seed // copies, []).append(run)
    found: list[Outcome | None] = []
    for _, runs in sorted(groups.items()):
        alive = [run for run in runs if rule in run.best]
        found.append(min(alive, key=lambda run: run.best[rule].value, default=None))
    return found


@torch.no_grad()
def tests(
    fit: Fit,
    contest: Contest,
    amount: Amount,
    arena: Arena,
    chosen: Mapping[str, list[Outcome | None]],
    device: torch.device,
    check: Callable[[], None],
) -> dict[str, Tensor]:
    """By rule and part, the features of every test graph, (choices, graphs, k); NaN if a choice has no model."""
    found: dict[str, Tensor] = {}
    held: dict[str, list[Any]] = {}
    for rule in contest.rules:
        parts = contest.parts(rule, amount)
        rows: dict[str, list[Tensor | None]] = {part: [] for part in parts}
        for run in chosen[rule]:
            check()
            if run is None:
                for part in parts:
                    rows[part].append(None)
                continue
            model = contest.prepare(fit.model(run, rule).to(device))
            forward = by_name(model)
            for part in parts:
                if part not in held:
                    held[part] = [batch.to(device) for batch in contest.batches(arena.tests[part])]
                pieces = [contest.features(forward(model, batch), batch) for batch in held[part]]
                rows[part].append(torch.cat(pieces).float().cpu())
        for part, tensors in rows.items():
            like = next((one for one in tensors if one is not None), None)
            if like is not None:
                filled = [torch.full_like(like, math.nan) if one is None else one for one in tensors]
                found[f"{rule}/{part}"] = torch.stack(filled)
    return found


def _told(run: Outcome, fit: Fit) -> dict[str, Any]:
    """A run as a JSON object."""
    ends = {name: float(fit.curve(name)[-1, run.number].mean()) for name in fit.watched}
    return {
        "seed": run.seed,
        "setting": run.setting.to_dict(),
        "failed": run.failed,
        "best": {rule: {"epoch": best.epoch, "value": best.value} for rule, best in run.best.items()},
        "exponents": {name: round(value, 4) if math.isfinite(value) else None for name, value in ends.items()},
    }
