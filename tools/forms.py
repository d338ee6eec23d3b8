"""A task of graphs or nodes learned in both forms of the network: where tables differ from the paper.

A first look at what ``gnpool reproduce gin_form --preset paper`` does with whole grids. ``python -m tools.forms``
trains GNP on `invsize` from 4-regular graphs, three settings with three seeds each, and writes
``results/trials/forms.json``; half an hour on two cores. The fixed poolings of `node_a` have two settings: ``python
-m tools.forms --task bfs --structures er --forms gin --models sum mean min --seeds 2 --out
results/trials/forms_bfs.json``, half an hour again. A combination of `real_baselines` on the real graphs, in the
folder of ``GNPOOL_DATA``: ``python -m tools.forms --task maxdegree --structures er --models sum,mean --real --seeds 2
--out results/trials/forms_real.json``. With node features, as in `nodefeat`: ``python -m tools.forms --task maxdegree
--structures er --forms gin --features --out results/trials/forms_features.json``.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from gnpool import Batches, Setting, fit_many
from gnpool.lab.real_graphs import REAL, real_dataset
from gnpool.lab.tables import FIXED
from gnpool.models import GraphNet, NodeNet
from gnpool.models.parts import FORMS
from gnpool.tasks import Task, get_task
from gnpool.training import evaluate_items

SETTINGS = [Setting(lr=1e-3, lr_p=rate, clip=1e2) for rate in (3e-3, 1e-2, 3e-2)]
FIXED_SETTINGS = [Setting(lr=rate, clip=1e2, optimizer="adam") for rate in (3e-3, 1e-3)]
TESTED = ("er", "ba", "expander", "regular4", "tree", "ladder")
TEST_GRAPHS = 200
COMBINATIONS = tuple(f"{aggregation},{readout}" for aggregation in FIXED for readout in FIXED)


@dataclass(frozen=True)
class Study:
    """What all trials have in common."""

    task: Task
    seeds: int
    epochs: int
    features: str | None
    real: bool

    @cached_property
    def tests(self) -> dict[str, Batches]:
        """Larger graphs of each structure, or the real ones."""
        if self.real:
            found = {name: real_dataset(self.task, name) for name in REAL}
        else:
            found = {name: self.graphs("test", name, count=TEST_GRAPHS) for name in TESTED}
        return {name: Batches(graphs, 50, seed=None, sorted_edges=True) for name, graphs in found.items()}

    def graphs(self, split: str, structure: str, count: int | None = None) -> list[Data]:
        """Those of one split."""
        return self.task.dataset(split, structure=structure, features=self.features, count=count)


def trial(study: Study, structure: str, form: str, model: str) -> list[dict[str, Any]]:
    """Validation loss and test errors (MAPE, or MAE of nodes) of each setting and seed."""
    task, seeds = study.task, study.seeds
    nodes, learned = task.level == "node", model == "gnp"
    graphs = study.graphs("train", structure)
    train = Batches(graphs, 16, sorted_edges=True)
    validation = Batches(study.graphs("val", structure), 125, seed=None, sorted_edges=True)
    settings = SETTINGS if learned else FIXED_SETTINGS

    def make() -> torch.nn.Module:
        if nodes:
            return NodeNet(1, model, edge_weights=task.name == "shortest", form=form)
        aggregation, _, readout = model.partition(",")
        return GraphNet(graphs[0].num_features, aggregation, readout or aggregation, form=form)

    fit = fit_many(
        make,
        train,
        task.loss,
        settings,
        seeds=seeds,
        epochs=study.epochs,
        validation=validation,
        **({"unit": len(settings) * seeds} if learned else {"unit": 1, "workers": 2, "vectorize": False}),
    )
    return [
        {
            "structure": structure,
            "form": form,
            **({"lr_p": run.setting.lr_p} if learned else {"model": model, "lr": run.setting.lr}),
            "seed": run.seed,
            "validation": run.best["loss"].value,
            "test": {
                name: round(float(evaluate_items(fit.model(run), batches, task.metric).mean()), 4 if nodes else 2)
                for name, batches in study.tests.items()
            },
        }
        for run in fit.runs
    ]


def main() -> None:
    """Train the forms and write what came out."""
    parser = argparse.ArgumentParser(prog="python -m tools.forms", description=__doc__)
    parser.add_argument("--task", default="invsize")
    parser.add_argument("--structures", nargs="+", choices=TESTED, default=("regular4",), help="to learn from")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--models", nargs="+", choices=("gnp", *FIXED, *COMBINATIONS), default=("gnp",))
    parser.add_argument("--features", action="store_true", help="random node features, as in nodefeat")
    parser.add_argument("--real", action="store_true", help="test on D&D, PROTEINS and NCI1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="(default: the paper's)")
    parser.add_argument("--out", type=Path, default=Path("results/trials/forms.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = get_task(arguments.task)
    epochs = arguments.epochs or task.epochs
    study = Study(task, arguments.seeds, epochs, "uniform" if arguments.features else None, arguments.real)
    found: dict[str, Any] = {"task": arguments.task, "epochs": epochs, "runs": []}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for structure, model, form in product(arguments.structures, arguments.models, arguments.forms):
        found["runs"] += trial(study, structure, form, model)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
