"""Fixed poolings of a node task in GIN's form of the network: what the tables, which have messages first, leave out.

``python -m tools.forms`` trains sum, mean and min on `bfs`, two settings with two seeds each, and writes
``results/trials/forms_bfs.json``; half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from gnpool import Batches, Setting, fit_many
from gnpool.lab.tables import FIXED
from gnpool.models import NodeNet
from gnpool.tasks import Task, get_task
from gnpool.training import evaluate_items

FORM, STRUCTURE = "gin", "er"
SETTINGS = [Setting(lr=rate, clip=1e2, optimizer="adam") for rate in (3e-3, 1e-3)]
TESTED = ("er", "ba", "expander", "regular4", "tree", "ladder")
TEST_GRAPHS = 200


def trial(task: Task, model: str, seeds: int, epochs: int) -> list[dict[str, Any]]:
    """Validation loss and test errors of each setting and seed."""
    fit = fit_many(
        lambda: NodeNet(1, model, edge_weights=task.name == "shortest", form=FORM),
        Batches(task.dataset("train", structure=STRUCTURE), 16, sorted_edges=True),
        task.loss,
        SETTINGS,
        seeds=seeds,
        epochs=epochs,
        validation=Batches(task.dataset("val", structure=STRUCTURE), 125, seed=None, sorted_edges=True),
        unit=1,
        workers=2,
        vectorize=False,
    )
    tests = {
        name: Batches(task.dataset("test", structure=name, count=TEST_GRAPHS), 50, seed=None, sorted_edges=True)
        for name in TESTED
    }
    return [
        {
            "structure": STRUCTURE,
            "form": FORM,
            "model": model,
            "lr": run.setting.lr,
            "seed": run.seed,
            "validation": run.best["loss"].value,
            "test": {
                name: round(float(evaluate_items(fit.model(run), batches, task.metric).mean()), 4)
                for name, batches in tests.items()
            },
        }
        for run in fit.runs
    ]


def main() -> None:
    """Train the poolings and write what came out."""
    parser = argparse.ArgumentParser(prog="python -m tools.forms", description=__doc__)
    parser.add_argument("--task", default="bfs", choices=("bfs", "shortest"))
    parser.add_argument("--models", nargs="+", choices=FIXED, default=("sum", "mean", "min"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, help="(default: the paper's)")
    parser.add_argument("--out", type=Path, default=Path("results/trials/forms_bfs.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = get_task(arguments.task)
    epochs = arguments.epochs or task.epochs
    found: dict[str, Any] = {"task": arguments.task, "epochs": epochs, "runs": []}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for model in arguments.models:
        found["runs"] += trial(task, model, arguments.seeds, epochs)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
