r"""What a cross-validation costs, good to a factor of two or three.

A step of a stack of R runs takes ``base + R * nodes * each``; a run that ends by patience is taken to last
:obj:`~gnpool.lab.classify_runner.TYPICAL_EPOCHS`. Where runs are stored already, their seconds correct it.
"""

from __future__ import annotations

import math

from gnpool.lab.classify import Amount, Classification, ClassificationTable
from gnpool.lab.classify_runner import STACK, TYPICAL_EPOCHS
from gnpool.lab.cost import Estimate
from gnpool.lab.folds import FOLDS
from gnpool.store import Store

SIZES = {"D&D": (1178, 284.3), "PROTEINS": (1113, 39.1), "NCI1": (4110, 29.9)}  # graphs, mean nodes
# Milliseconds of a step, microseconds for each node of each run, by network and pooling. CPU: one core of an AMD EPYC.
CPU_STEP = {("sag", "original"): (3.0, 20.0), ("sag", "gnp"): (6.0, 60.0), ("asap", "original"): (8.0, 55.0),
            ("asap", "gnp"): (14.0, 110.0)}  # fmt: skip
GPU_STEP = {("sag", "original"): (5.0, 0.04), ("sag", "gnp"): (8.0, 0.07), ("asap", "original"): (10.0, 0.1),
            ("asap", "gnp"): (14.0, 0.15)}  # fmt: skip
VALIDATION = 1.05  # beside the steps


def run_seconds(study: Classification, amount: Amount, kind: str) -> float:
    """Seconds of one run in a full stack, on one core or a GPU."""
    method = study.method(amount)
    graphs, nodes = SIZES[study.dataset]
    graphs = min(graphs, amount.graphs or graphs)
    steps = math.ceil(graphs * (1 - 2 / FOLDS) / method.batch_size)
    epochs = method.epochs if method.patience is None else min(method.epochs, TYPICAL_EPOCHS)
    base, each = (CPU_STEP if kind == "cpu" else GPU_STEP)[method.net, str(method.options["pooling"])]
    size = min(len(amount.runs), STACK["cpu" if kind == "cpu" else "cuda"][study.dataset])
    milliseconds = base / size + each * nodes * min(method.batch_size, graphs) / 1000
    return VALIDATION * epochs * steps * milliseconds / 1000


def classification_estimate(
    table: ClassificationTable, amount: Amount, kind: str, store: Store | None, jobs: int = 1
) -> Estimate:
    """What a table takes, and what of it is there already."""
    studies = [study for study in table.studies if study.dataset in amount.datasets]
    cost = {study: run_seconds(study, amount, kind) for study in studies}
    keys = {study: [study.key(amount, run) for run in amount.runs] for study in studies}
    stored = {study: [] if store is None else [k for k in found if k in store] for study, found in keys.items()}
    took = expected = 0.0
    for study, found in stored.items():
        records = [store.get(key) for key in found] if store is not None else []
        for record in records:
            if record is not None and record.meta["device"].startswith(kind):
                took += record.meta["seconds"]
                expected += cost[study]
    factor = (took / expected if expected else 1.0) / (60 * (jobs if kind == "cpu" else 1))
    runs = len(amount.runs)
    whole = [study for study, found in stored.items() if len(found) == runs]
    return Estimate(
        trainings=len(studies),
        runs=runs * len(studies),
        exams=0,
        done=len(whole),
        minutes=factor * sum(runs * seconds for seconds in cost.values()),
        minutes_left=factor * sum((runs - len(stored[study])) * seconds for study, seconds in cost.items()),
        cells_done=sum(cell.study in whole for cell in table.cells),
    )
