"""Learns the nine tasks of the paper in growth coordinates, for comparison with the record's GNP.

    python -m studies.paper_tasks --device cuda --out results/learned/paper_tasks.json

Data, network, number of epochs and batch size are the record's. The record's GNP has 24 settings on graphs, 18 on nodes
and nine on sets. Here the portfolio of ``fit_portfolio`` has twelve, and its rates fall in the second half. As in the
record, the setting with the lowest mean validation loss over five seeds counts. Graph tasks are also tested at 1,000
nodes. Variants use two branches, the published coordinates, or the grid of the paper from the same starts.
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
from gnpool.lab.recipes import Exam, Recipe
from gnpool.lab.recipes.models import graph_gnp, node, set_model
from gnpool.lab.recipes.presets import PRESETS
from studies.files import write_runs

GRAPHS = ("invsize", "harmonic", "maxdegree")
NODES = ("bfs", "shortest")
SETS = ("mu_post", "sigma2_post", "mu_map", "sigma2_map")
LARGE = Exam(sizes=(1000, 1001), mean_degree=20.0, count=50)
VARIANTS = {  # pooling, its options, and whether the rates are the paper's constant ones
    "portfolio": ("gnpg", {}, False),
    "two branches": ("gnpg", {"branches": "split"}, False),
    "published": ("gnp", {}, False),
    "paper's grid": ("gnpg", {}, True),
    "paper's grid, two branches": ("gnpg", {"branches": "split"}, True),
}
ONE_BRANCH = ("portfolio", "paper's grid")
SPLIT_STARTS = ("sum", "mean", "harmonic", "l2")  # two branches have no geometric mean


def recipe_of(task: str, pooling: str) -> Recipe:
    """The record's recipe of a task with another pooling."""
    if task in GRAPHS:
        return graph_gnp(task, pooling=pooling)
    return node(task, pooling) if task in NODES else set_model(task, f"basic/{pooling}")


def study(task: str, device: str, variant: str = "portfolio") -> dict[str, Any]:
    """Every run on one task: validation loss, and the task's error inside and far outside the training sizes."""
    began = time.monotonic()
    pooling, options, paper = VARIANTS[variant]
    recipe = recipe_of(task, pooling)
    preset, spec = PRESETS["paper"], recipe.spec
    slots = {"pool_options": options} if task in SETS else {"aggr_options": options}
    plan = {**recipe.variants[0], **slots, **({"readout_options": options} if task in GRAPHS else {})}
    more: dict[str, Any] = {"settings": recipe.space.settings, "schedule": constant} if paper else {}
    if task in SETS and variant not in ONE_BRANCH:
        more["starts"] = SPLIT_STARTS
    found = fit_portfolio(
        lambda: recipe.build(plan),
        recipe.batches("train", preset),
        spec.loss,
        validation=recipe.batches("val", preset),
        seeds=preset.seeds,
        epochs=preset.epochs_of(spec),
        device=device,
        **more,
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
    told = {"task": task, "variant": variant, "metric": spec.metric.__name__}
    return {**told, "seconds": round(time.monotonic() - began), "runs": runs}


def constant(epoch: int) -> float:
    """Constant rates."""
    return 1.0


def chosen(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of the setting with the lowest mean validation loss."""
    by_setting: dict[str, list[dict[str, Any]]] = {}
    for run in found["runs"]:
        by_setting.setdefault(json.dumps(run["setting"]), []).append(run)

    def mean(runs: list[dict[str, Any]]) -> float:
        return math.fsum(math.inf if run["loss"] is None else run["loss"] for run in runs) / len(runs)

    return min(by_setting.values(), key=mean)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/learned/paper_tasks.json"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", nargs="*", default=[*GRAPHS, *NODES, *SETS])
    parser.add_argument("--variants", nargs="*", choices=list(VARIANTS), default=["portfolio"])
    given = parser.parse_args()
    found = []
    for task, variant in ((task, variant) for variant in given.variants for task in given.tasks):
        found.append(study(task, given.device, variant))
        write_runs(given.out, found)
        for name in found[-1]["runs"][0]["errors"]:
            errors = torch.tensor([run["errors"][name] for run in chosen(found[-1])])
            print(
                f"{task:12s} {variant} {name:5s} {errors.mean():.4f} ± {errors.std():.4f}  {found[-1]['seconds']} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
