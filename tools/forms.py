"""GNP trained on one structure in both forms of the network: where `heterogeneous_all_invsize` differs from the paper.

``python -m tools.forms`` trains three settings with three seeds each and writes ``results/trials/forms.json``; half an
hour on two cores.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from gnpool import Batches, Setting, fit_many
from gnpool.models import GraphNet
from gnpool.models.graph_net import FORMS
from gnpool.tasks import get_task
from gnpool.training import evaluate_items

SETTINGS = [Setting(lr=1e-3, lr_p=rate, clip=1e2) for rate in (3e-3, 1e-2, 3e-2)]
SEEDS = 3
TESTED = ("er", "ba", "expander", "regular4", "tree", "ladder")
TEST_GRAPHS = 200


def trial(task_name: str, structure: str, form: str, epochs: int) -> list[dict[str, Any]]:
    """Validation loss and test errors (MAPE) of each setting and seed."""
    task = get_task(task_name)
    train = Batches(task.dataset("train", structure=structure), 16, sorted_edges=True)
    validation = Batches(task.dataset("val", structure=structure), 125, seed=None, sorted_edges=True)
    fit = fit_many(
        lambda: GraphNet(1, form=form),
        train,
        task.loss,
        SETTINGS,
        seeds=SEEDS,
        epochs=epochs,
        validation=validation,
        unit=len(SETTINGS) * SEEDS,
    )
    tests = {
        name: Batches(task.dataset("test", structure=name, count=TEST_GRAPHS), 50, seed=None, sorted_edges=True)
        for name in TESTED
    }
    return [
        {
            "form": form,
            "lr_p": run.setting.lr_p,
            "seed": run.seed,
            "validation": run.best["loss"].value,
            "test": {
                name: round(float(evaluate_items(fit.model(run), batches, task.metric).mean()), 2)
                for name, batches in tests.items()
            },
        }
        for run in fit.runs
    ]


def main() -> None:
    """Train the forms and write what came out."""
    parser = argparse.ArgumentParser(prog="python -m tools.forms", description=__doc__)
    parser.add_argument("--task", default="invsize")
    parser.add_argument("--structure", default="regular4")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("results/trials/forms.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = [
        run for form in arguments.forms for run in trial(arguments.task, arguments.structure, form, arguments.epochs)
    ]
    found = {"task": arguments.task, "structure": arguments.structure, "epochs": arguments.epochs, "runs": runs}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
