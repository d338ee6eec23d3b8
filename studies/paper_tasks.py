"""Graph and set tasks of the paper, learned in growth coordinates, beside the record's GNP.

    python -m studies.paper_tasks --device cuda --out results/learned/paper_tasks.json

Data, network, number of epochs and batch size are the record's. The record's GNP has 24 settings on graphs and nine on
sets; here the portfolio of ``fit_portfolio`` has twelve, and its rates fall in the second half. As in the record, the
setting of lowest mean validation loss over five seeds counts. Graph tasks are also tested at 1,000 nodes.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch

from gnpool import fit_portfolio
from gnpool.lab.recipes import Exam
from gnpool.lab.recipes.models import graph_gnp, set_model
from gnpool.lab.recipes.presets import PRESETS
from studies.files import write_runs

GRAPHS = ("invsize", "harmonic", "maxdegree")
SETS = ("mu_post", "sigma2_post", "mu_map", "sigma2_map")
LARGE = Exam(sizes=(1000, 1001), mean_degree=20.0, count=50)


def study(task: str, device: str) -> dict[str, Any]:
    """Every run of one task: validation loss, and the task's error inside and far outside the training sizes."""
    began = time.monotonic()
    recipe = graph_gnp(task, pooling="gnpg") if task in GRAPHS else set_model(task, "basic/gnpg")
    preset, spec = PRESETS["paper"], recipe.spec
    found = fit_portfolio(
        lambda: recipe.build(recipe.variants[0]),
        recipe.batches("train", preset),
        spec.loss,
        validation=recipe.batches("val", preset),
        seeds=preset.seeds,
        epochs=preset.epochs_of(spec),
        device=device,
    )
    exams = {"test": Exam(), **({"1000": LARGE} if task in GRAPHS else {})}
    errors = {
        name: found.fit.evaluate(list(exam.batches(spec, preset)), {"error": spec.metric})["error"].tolist()
        for name, exam in exams.items()
    }
    runs = [
        {
            "setting": run.setting.to_dict(),
            "seed": run.seed,
            "failed": run.failed,
            "loss": run.best["loss"].value if "loss" in run.best else None,
            "errors": {name: error[run.number] for name, error in errors.items()},
        }
        for run in found.fit.runs
    ]
    return {"task": task, "metric": spec.metric.__name__, "seconds": round(time.monotonic() - began), "runs": runs}


def chosen(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of the setting of lowest mean validation loss."""
    by_setting: dict[str, list[dict[str, Any]]] = {}
    for run in found["runs"]:
        by_setting.setdefault(json.dumps(run["setting"]), []).append(run)

    def mean(runs: list[dict[str, Any]]) -> float:
        return math.fsum(math.inf if run["loss"] is None else run["loss"] for run in runs) / len(runs)

    return min(by_setting.values(), key=mean)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/learned/paper_tasks.json"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", nargs="*", default=[*GRAPHS, *SETS])
    given = parser.parse_args()
    found = []
    for task in given.tasks:
        found.append(study(task, given.device))
        write_runs(given.out, found)
        for name in found[-1]["runs"][0]["errors"]:
            errors = torch.tensor([run["errors"][name] for run in chosen(found[-1])])
            print(
                f"{task:12s} {name:5s} {errors.mean():.4f} ± {errors.std():.4f}  {found[-1]['seconds']} s", flush=True
            )


if __name__ == "__main__":
    main()
