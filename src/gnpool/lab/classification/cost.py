r"""Estimates the time of a cross-validation, to within a factor of two or three.

A step of a stack of R runs takes ``base + R * nodes * each``. A run that stops by patience is assumed to last
:obj:`TYPICAL_EPOCHS`. Stored runs correct the estimate by the seconds that they took.
"""

from __future__ import annotations

import math

from gnpool.lab.classification.methods import Amount, Trial
from gnpool.models.stacked.folds import FOLDS

SIZES = {"D&D": (1178, 284.3), "PROTEINS": (1113, 39.1), "NCI1": (4110, 29.9)}  # graphs, mean number of nodes
# Milliseconds of a step, and microseconds per node and run, by network and pooling. CPU: one core of an AMD EPYC.
CPU_STEP = {("sag", "original"): (3.0, 20.0), ("sag", "gnp"): (6.0, 60.0), ("asap", "original"): (8.0, 55.0),
            ("asap", "gnp"): (14.0, 110.0)}  # fmt: skip
GPU_STEP = {("sag", "original"): (5.0, 0.04), ("sag", "gnp"): (8.0, 0.07), ("asap", "original"): (10.0, 0.1),
            ("asap", "gnp"): (14.0, 0.15)}  # fmt: skip
VALIDATION = 1.05  # factor for the time of validation
TYPICAL_EPOCHS = 150  # assumed length of a run that stops by patience
# Runs in a stack: enough to keep a GPU busy, but few enough for its memory, or for the cache of a core. The number
# affects only the rounding of results.
STACK = {"cuda": {"D&D": 10, "PROTEINS": 40, "NCI1": 40}, "cpu": {"D&D": 1, "PROTEINS": 5, "NCI1": 5}}


def stack_size(dataset: str, kind: str) -> int:
    """Number of runs in a stack on a kind of device."""
    return STACK.get(kind, STACK["cpu"])[dataset]


def run_seconds(trial: Trial, amount: Amount, kind: str) -> float:
    """Seconds of one run in a full stack, on one core or a GPU."""
    method = trial.method(amount)
    graphs, nodes = SIZES[trial.dataset]
    graphs = min(graphs, amount.graphs or graphs)
    steps = math.ceil(graphs * (1 - 2 / FOLDS) / method.batch_size)
    epochs = method.epochs if method.patience is None else min(method.epochs, TYPICAL_EPOCHS)
    base, each = (CPU_STEP if kind == "cpu" else GPU_STEP)[method.net, str(method.options["pooling"])]
    size = min(len(amount.runs), stack_size(trial.dataset, kind))
    milliseconds = base / size + each * nodes * min(method.batch_size, graphs) / 1000
    return VALIDATION * epochs * steps * milliseconds / 1000
