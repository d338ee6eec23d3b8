r"""Estimates the time and memory of recipes by a simple model, good to about a factor of two.

A step of a work unit of R runs takes ``base + R * run`` milliseconds. A training has

.. math::
    \mathrm{variants} \cdot \mathrm{units} \cdot \mathrm{epochs} \cdot \lceil \mathrm{graphs} / \mathrm{batch} \rceil

steps, and validation adds a tenth. The constants were measured at a batch of 16, which is close enough for smaller
batches. If trainings are stored already, the ratio of their seconds to the model's corrects the estimate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from gnpool.lab.recipes.crystallized import node_epochs
from gnpool.lab.recipes.presets import Preset, preset_of
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.lab.table import PROGRAM, Estimate, Machine, Scope
from gnpool.store import Store

# Milliseconds of a step: (one run alone, base, each run), on one core of an AMD EPYC.
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
# The same as one CUDA graph of an H200. Measured: 0.53 for 20 runs of "graph gnp" and 0.31 for 20 of "set gnp". The
# others keep their proportions on the CPU, except at nodes (base, each run): a whole grid of "node" takes 48 s, and one
# of "weighted node" about 450 s. Beside two other trainings, and judged by their progress, 24 runs of it took about
# 350 s and 5 runs 300 s. Those of GNP, beside other trainings, took 193 and 434 s; the same base is assumed for them.
GPU_BASE, GPU_SHARE = 0.4, 0.013
GPU_STEP = {
    "node gnp": (0.4, 0.03),
    "node": (0.4, 0.008),
    "weighted node gnp": (3.5, 0.025),
    "weighted node": (3.5, 0.025),
}
GPU_OVERLAP = 2  # gain from trainings side by side on a GPU, until stored times correct it
VALIDATION = 1.1  # factor for the time of validation
CRYSTAL_SECONDS = {"smoke": 1.0}  # seconds to crystallize one model; 30 for other presets
# Milliseconds per graph in the long refits of node models: on one core bfs took 844 s and shortest 1,800 s. The value
# for a GPU is an estimate.
CRYSTAL_GRAPH = {"cpu": 5.1, "cuda": 0.1}
CPU_EXAM, GPU_EXAM = 4e-8, 2e-9  # seconds per graph and model, times the squared number of nodes

# Megabytes (2**20) on top of the program itself: the largest resident size of a process at batches of 16, of a training
# graph or set, and of each further run. The last is the difference between 2 and 24 runs.
DATA = {"graph": 0.03, "node": 0.05, "set": 0.004}
RUN = {
    "graph gnp": 4.1,
    "graph": 4.7,
    "graph sort": 4.3,
    "graph set2set": 5.5,
    "sagpool": 13.0,
    "node gnp": 3.0,
    "node": 2.5,
    "weighted node gnp": 20.0,
    "weighted node": 19.0,
    "set gnp": 1.7,
    "set": 1.7,
    "set set2set": 3.6,
    "set_transformer": 23.0,
}


def training_seconds(recipe: Recipe, preset: Preset, search: str, kind: str) -> float:
    """Seconds to train a recipe on one core (``kind`` is ``"cpu"``) or on a GPU that has nothing else to do."""
    task, variants = recipe.spec, len(recipe.variants)
    graphs = preset.counts.get("train", task.counts["train"])
    if recipe.crystallized:
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
    per_graph = (CPU_EXAM if kind == "cpu" else GPU_EXAM) * exam.square(recipe.spec)
    return 2 * preset.seeds * exam.size(preset, recipe.spec) * per_graph


def training_megabytes(recipe: Recipe, preset: Preset) -> float:
    """The peak memory of one training on a core."""
    base = recipe.base
    runs = min(preset.unit, len(preset.settings(base.space)) * preset.seeds)
    graphs = preset.counts.get("train", base.spec.counts["train"])
    return PROGRAM + graphs * DATA[base.spec.level] + runs * RUN[kind_of(base)]


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
    """The row of :obj:`CPU_STEP` for a recipe."""
    variant = recipe.variants[0]
    net = f"{'weighted ' if variant.get('edge_weights') else ''}{variant['net']}"
    pooling = str(variant.get("readout", variant.get("pool", variant.get("aggr", ""))))
    name = f"{net} {pooling.removesuffix('+')}"
    return name if name in CPU_STEP else net


def cost_of(
    recipes: Sequence[Recipe],
    cells: Sequence[tuple[Exam, Sequence[Recipe]]],
    scope: Scope,
    store: Store | None,
    machine: Machine,
) -> Estimate:
    """The cost of a table that trains these recipes and whose cells are exams of some of them."""
    preset, search, kind = preset_of(scope), scope.searches[0], machine.kind
    kept = [] if store is None else [one for table in ("training", "crystal") for one in store.records(table)]
    trained = {_name(record.key): record.meta for record in kept}
    held = set() if store is None else {_name(key) for key in store.keys("score")}

    def key_of(recipe: Recipe) -> str:
        return _name(recipe.key(preset, search))

    def counts(recipe: Recipe, tested: bool) -> bool:
        """Whether the work includes a training, a crystallization, or a test."""
        return (scope.test or not tested) and (scope.train or key_of(recipe.base) in trained)

    recipes = [one for one in recipes if counts(one, one.crystallized)]
    cost = {key_of(one): training_seconds(one, preset, search, kind) for one in recipes}
    trainings = [one for one in recipes if not one.crystallized]
    done = [one for one in trainings if key_of(one) in trained]
    timed = [name for name in map(key_of, done) if trained[name]["device"].startswith(kind)]
    took, expected = sum(trained[name]["seconds"] for name in timed), sum(cost[name] for name in timed)
    names = [{_name(exam.key(r.key(preset, search), preset, r.spec)): r for r in forms} for exam, forms in cells]
    exams = {
        name: exam_seconds(recipe, exam, preset, kind)
        for (exam, _), forms in zip(cells, names, strict=True)
        for name, recipe in forms.items()
        if counts(recipe, tested=True)
    }
    cost |= exams
    side = min(machine.jobs if kind == "cpu" or expected else GPU_OVERLAP, len(recipes))
    factor = (took / expected if expected else 1.0) / (60 * max(1, side))
    left = [seconds for name, seconds in cost.items() if name not in trained and name not in held]
    return Estimate(
        trainings=len(trainings),
        runs=sum(_runs(recipe, preset, search) for recipe in trainings),
        exams=len(exams),
        done=len(done),
        minutes=factor * sum(cost.values()),
        minutes_left=factor * sum(left),
        cells_done=sum(all(name in held for name in forms) for forms in names),
    )


def _name(key: Mapping[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)


def _runs(recipe: Recipe, preset: Preset, search: str) -> int:
    points = len(preset.settings(recipe.space)) * len(recipe.variants)
    return points + 2 * preset.seeds if search == "point" and points > 1 else points * preset.seeds
