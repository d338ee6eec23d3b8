r"""What a study costs: a simple model, good to about a factor of two.

A step of a work unit of R runs takes ``base + R * run`` milliseconds, and a training has

.. math::
    \mathrm{variants} \cdot \mathrm{units} \cdot \mathrm{epochs} \cdot \lceil \mathrm{graphs} / \mathrm{batch} \rceil

of them, and a tenth more for validation. The constants were measured at a batch of 16, which is close enough for
smaller ones. Where trainings are stored already, the ratio of their seconds to the model's corrects it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gnpool.lab.crystallised import node_epochs
from gnpool.lab.forms import candidates
from gnpool.lab.presets import Preset
from gnpool.lab.real_graphs import SQUARES
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.tables import Table
from gnpool.store import Store

# Milliseconds of a step: (one run alone, base, each run), on a core of an AMD EPYC.
CPU_STEP = {
    "graph gnp": (3.1, 7.0, 0.5),
    "graph": (2.0, 3.0, 0.4),
    "graph sort": (3.0, 4.0, 0.6),
    "graph set2set": (4.0, 4.0, 0.6),
    "sagpool": (5.0, 1.0, 3.1),
    "node gnp": (6.5, 4.0, 2.2),
    "node": (7.0, 3.0, 4.0),
    "weighted node gnp": (12.0, 0.0, 13.0),
    "weighted node": (16.0, 0.0, 18.0),
    "set gnp": (1.6, 4.5, 0.07),
    "set": (1.3, 2.2, 0.06),
    "set set2set": (1.7, 3.0, 0.3),
    "set_transformer": (7.0, 0.0, 6.0),
}
# The same as one CUDA graph of an H200: 0.53 for 20 runs of "graph gnp" and 0.31 of "set gnp" were measured, the others
# follow their proportions on the CPU. Not so at nodes (base, each run): a whole grid of "node" takes 48 s and one of
# "weighted node" about 450 s; beside two other trainings, and from their progress, 24 runs of it about 350 s and 5 runs
# 300. Those of GNP, beside other trainings, took 193 and 434 s; that its base is the same is assumed.
GPU_BASE, GPU_SHARE = 0.4, 0.013
GPU_STEP = {
    "node gnp": (0.4, 0.03),
    "node": (0.4, 0.008),
    "weighted node gnp": (3.5, 0.025),
    "weighted node": (3.5, 0.025),
}
GPU_OVERLAP = 2  # how much faster trainings side by side are there, before the times of stored ones tell
VALIDATION = 1.1  # beside the steps
CRYSTAL_SECONDS = {"smoke": 1.0}  # to crystallise one model; 30 elsewhere
# And milliseconds of a graph in the long refits of node models: on a core bfs took 844 s and shortest 1,800. That of
# a GPU is a guess.
CRYSTAL_GRAPH = {"cpu": 5.1, "cuda": 0.1}
DEGREES = {"tree": 2, "ladder": 3, "regular4": 4}  # of structures that stay sparse as they grow
CPU_EXAM, GPU_EXAM = 4e-8, 2e-9  # seconds for a graph and model, times the square of the number of nodes


def training_seconds(recipe: Recipe, preset: Preset, search: str, kind: str) -> float:
    """Seconds to train a recipe on one core (``kind`` is ``"cpu"``) or on a GPU that has nothing else to do."""
    task, variants = recipe.spec, len(recipe.variants)
    graphs = preset.counts.get("train", task.counts["train"])
    if recipe.crystallised:
        one = CRYSTAL_SECONDS.get(preset.name, 30.0)
        if task.level == "node" and preset.name != "smoke":
            one += node_epochs(preset, task) * graphs * CRYSTAL_GRAPH[kind] / 1000
        return one * preset.seeds
    settings = len(preset.settings(recipe.space))
    steps = preset.epochs_of(task) * math.ceil(graphs / recipe.batch_in(preset))
    if search == "point" and settings * variants > 1:  # every setting once, then the best by loss and by metric
        milliseconds = variants * _units(recipe, preset, settings, kind) + 2 * _units(
            recipe, preset, preset.seeds, kind
        )
    else:
        milliseconds = variants * _units(recipe, preset, settings * preset.seeds, kind)
    return VALIDATION * steps * milliseconds / 1000


def exam_seconds(recipe: Recipe, exam: Exam, preset: Preset, kind: str) -> float:
    """Seconds to test the chosen models of a recipe, by loss and by metric."""
    low, high = exam.sizes or recipe.spec.sizes["test"]
    nodes, degree = (low + high) / 2, exam.mean_degree or DEGREES.get(exam.structure or "")
    square = nodes * (2 * degree if degree else nodes) if exam.real is None else SQUARES[exam.real]
    per_graph = (CPU_EXAM if kind == "cpu" else GPU_EXAM) * square
    return 2 * preset.seeds * exam.size(preset, recipe.spec) * per_graph


def _units(recipe: Recipe, preset: Preset, runs: int, kind: str) -> float:
    """Milliseconds of one step of all work units."""
    sizes = [min(preset.unit, runs - first) for first in range(0, runs, preset.unit)]
    return sum(_step(recipe, size, kind) for size in sizes)


def _step(recipe: Recipe, runs: int, kind: str) -> float:
    name = kind_of(recipe)
    alone, base, each = CPU_STEP[name]
    if kind == "cpu":
        return alone if runs == 1 else base + each * runs
    base, each = GPU_STEP.get(name, (GPU_BASE, GPU_SHARE * each))
    return base + each * runs


def kind_of(recipe: Recipe) -> str:
    """The row of :obj:`CPU_STEP` that a recipe belongs to."""
    variant = recipe.variants[0]
    net = f"{'weighted ' if variant.get('edge_weights') else ''}{variant['net']}"
    pooling = str(variant.get("readout", variant.get("pool", variant.get("aggr", ""))))
    name = f"{net} {pooling.removesuffix('+')}"
    return name if name in CPU_STEP else net


@dataclass(frozen=True)
class Estimate:
    """What a table takes, and what of it is there already.

    Args:
        trainings (int): Models to train, each with its whole grid.
        runs (int): Networks to train.
        exams (int): Tests of trained models.
        done (int): Trainings that are stored.
        minutes (float): For all of it, if nothing were stored.
        minutes_left (float): For what is missing.
        cells_done (int): Cells of the table whose numbers are there, in both forms of the network where there are two.
    """

    trainings: int
    runs: int
    exams: int
    done: int
    minutes: float
    minutes_left: float
    cells_done: int


def estimates(
    tables: Iterable[Table],
    preset: Preset,
    kind: str,
    *,
    store: Store | None = None,
    search: str = "all",
    jobs: int = 1,
    train: bool = True,
    test: bool = True,
) -> dict[str, Estimate]:
    """What each table costs here by itself, with ``jobs`` trainings side by side.

    Without ``train`` that is what stored trainings allow, without ``test`` the trainings alone.
    """
    trained = (
        {}
        if store is None
        else {_name(record.key): record.meta for table in ("training", "crystal") for record in store.records(table)}
    )
    held = set() if store is None else {_name(key) for key in store.keys("score")}

    def counts(recipe: Recipe, exam: Exam | None = None) -> bool:
        """Whether a training, a crystallisation, or a test is part of the work."""
        tested = exam is not None or recipe.crystallised
        return (test or not tested) and (train or _name(recipe.base.key(preset, search)) in trained)

    return {table.id: _estimate(table, preset, kind, search, jobs, trained, held, counts) for table in tables}


def _estimate(
    table: Table,
    preset: Preset,
    kind: str,
    search: str,
    jobs: int,
    trained: Mapping[str, Any],
    held: set[str],
    counts: Callable[..., bool],
) -> Estimate:
    cost: dict[str, float] = {}  # of trainings and exams, by key
    took = expected = 0.0  # of stored trainings on this kind of device
    recipes = [one for recipe in table.recipes for one in candidates(recipe, preset) if counts(one)]
    for recipe in recipes:
        name, seconds = _name(recipe.key(preset, search)), training_seconds(recipe, preset, search, kind)
        cost[name] = seconds
        if name in trained and not recipe.crystallised and trained[name]["device"].startswith(kind):
            took += trained[name]["seconds"]
            expected += seconds
    cells = [
        {_name(c.exam.key(one.key(preset, search), preset, one.spec)): one for one in candidates(c.recipe, preset)}
        for c in table.cells
    ]
    exams = {
        name: exam_seconds(recipe, cell.exam, preset, kind)
        for cell, held_by in zip(table.cells, cells, strict=True)
        for name, recipe in held_by.items()
        if counts(recipe, cell.exam)
    }
    trainings = [recipe for recipe in recipes if not recipe.crystallised]
    done = [recipe for recipe in trainings if _name(recipe.key(preset, search)) in trained]
    cost |= exams
    side = min(jobs if kind == "cpu" or expected else GPU_OVERLAP, len(recipes))
    factor = (took / expected if expected else 1.0) / (60 * max(1, side))
    return Estimate(
        trainings=len(trainings),
        runs=sum(_runs(recipe, preset, search) for recipe in trainings),
        exams=len(exams),
        done=len(done),
        minutes=factor * sum(cost.values()),
        minutes_left=factor
        * sum(seconds for name, seconds in cost.items() if name not in trained and name not in held),
        cells_done=sum(all(name in held for name in names) for names in cells),
    )


def _name(key: Mapping[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)


def _runs(recipe: Recipe, preset: Preset, search: str) -> int:
    points = len(preset.settings(recipe.space)) * len(recipe.variants)
    return points + 2 * preset.seeds if search == "point" and points > 1 else points * preset.seeds
