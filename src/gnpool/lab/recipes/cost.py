r"""Estimates the time and memory of recipes by a simple model, good to about a factor of two.

A step of a work unit of R runs takes ``base + R * run`` milliseconds. A training has

.. math::
    \mathrm{variants} \cdot \mathrm{units} \cdot \mathrm{epochs} \cdot \lceil \mathrm{graphs} / \mathrm{batch} \rceil

steps, and validation adds a tenth. The constants were measured at a batch of 16, which is close enough for smaller
batches. If trainings are stored already, the ratio of their seconds to the model's corrects the estimate.
"""

from __future__ import annotations

import math

from gnpool.lab.recipes.crystallized import node_epochs
from gnpool.lab.recipes.presets import Preset
from gnpool.lab.recipes.recipe import Exam, Recipe
from gnpool.lab.table import PROGRAM

# For each network: milliseconds of a step of one run alone, of a work unit and of each run in it, on one core of an
# AMD EPYC; and megabytes (2**20) of each further run at batches of 16, the difference between 2 and 24 runs.
MEASURED = {
    "graph gnp": (3.1, 7.0, 0.5, 4.1),
    "graph": (2.0, 3.0, 0.4, 4.7),
    "graph sort": (3.0, 4.0, 0.6, 4.3),
    "graph set2set": (4.0, 4.0, 0.6, 5.5),
    "sagpool": (5.0, 1.0, 3.1, 13.0),
    "node gnp": (6.5, 4.0, 2.2, 3.0),
    "node": (7.0, 3.0, 4.0, 2.5),
    "weighted node gnp": (12.0, 0.0, 13.0, 20.0),
    "weighted node": (16.0, 0.0, 18.0, 19.0),
    "set gnp": (1.6, 4.5, 0.07, 1.7),
    "set": (1.3, 2.2, 0.06, 1.7),
    "set set2set": (1.7, 3.0, 0.3, 3.6),
    "set_transformer": (7.0, 0.0, 6.0, 23.0),
}
DATA = {"graph": 0.03, "node": 0.05, "set": 0.004}  # megabytes of a training graph or set
# Milliseconds of a step as one CUDA graph of an H200. Measured: 0.53 for 20 runs of "graph gnp" and 0.31 for 20 of
# "set gnp". The others keep their proportions on the CPU, except at nodes (base, each run): a whole grid of "node" has
# 48 s, and one of "weighted node" about 450 s. Beside two other trainings, and judged by their progress, 24 runs of it
# took about 350 s and 5 runs 300 s. Those of GNP, beside other trainings, took 193 and 434 s; the same base is assumed
# for them.
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
        milliseconds = variants * _step(recipe, preset, settings, kind) + 2 * _step(recipe, preset, preset.seeds, kind)
    else:
        milliseconds = variants * _step(recipe, preset, settings * preset.seeds, kind)
    return VALIDATION * steps * milliseconds / 1000


def runs_of(recipe: Recipe, preset: Preset, search: str) -> int:
    """Networks to train."""
    many = len(preset.settings(recipe.space)) * len(recipe.variants)
    return many + 2 * preset.seeds if search == "point" and many > 1 else many * preset.seeds


def exam_seconds(recipe: Recipe, exam: Exam, preset: Preset, kind: str) -> float:
    """Seconds to test the chosen models of a recipe, by loss and by metric."""
    per_graph = (CPU_EXAM if kind == "cpu" else GPU_EXAM) * exam.square(recipe.spec)
    return 2 * preset.seeds * exam.size(preset, recipe.spec) * per_graph


def training_megabytes(recipe: Recipe, preset: Preset) -> float:
    """The peak memory of one training on a core."""
    base = recipe.base
    runs = min(preset.unit, len(preset.settings(base.space)) * preset.seeds)
    graphs = preset.counts.get("train", base.spec.counts["train"])
    return PROGRAM + graphs * DATA[base.spec.level] + runs * MEASURED[kind_of(base)][3]


def _step(recipe: Recipe, preset: Preset, runs: int, kind: str) -> float:
    """Milliseconds of one step of all work units."""
    name = kind_of(recipe)
    alone, base, each, _ = MEASURED[name]
    if kind != "cpu":
        base, each = GPU_STEP.get(name, (GPU_BASE, GPU_SHARE * each))
        alone = base + each
    sizes = (min(preset.unit, runs - first) for first in range(0, runs, preset.unit))
    return sum(alone if size == 1 else base + each * size for size in sizes)


def kind_of(recipe: Recipe) -> str:
    """The row of :obj:`MEASURED` for a recipe."""
    variant = recipe.variants[0]
    net = f"{'weighted ' if variant.get('edge_weights') else ''}{variant['net']}"
    pooling = str(variant.get("readout", variant.get("pool", variant.get("aggr", ""))))
    name = f"{net} {pooling.removesuffix('+')}"
    return name if name in MEASURED else net
