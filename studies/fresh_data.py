"""Trains models of the paper on data that no choice has seen, in the order of docs/protocol.md, for a limited time.

    python -m studies.fresh_data --device cuda --seconds 500 --store results/fresh
    gnpool reproduce exp_graph_invsize --preset paper --data-seed 2 --out results/fresh --no-training

The first command trains GNP of every task, or with --fixed the best fixed pooling of each. It tests nothing. The second
crystallizes and tests all stored models.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gnpool.engine import choose_device
from gnpool.lab.recipes.forms import candidates
from gnpool.lab.recipes.jobs import RecipeJob
from gnpool.lab.recipes.models import GRAPH_TASKS, SET_TASKS, graph_fixed, graph_gnp, node, set_model
from gnpool.lab.recipes.presets import get_preset
from gnpool.lab.recipes.recipe import Recipe
from gnpool.lab.running.runner import Runner
from gnpool.store import Store
from studies.limit import limited, show

GNP = {task: graph_gnp(task) for task in GRAPH_TASKS} | {task: set_model(task, "basic/gnp") for task in SET_TASKS}
GNP |= {"bfs": node("bfs", "gnp"), "shortest": node("shortest", "gnp")}
FIXED = {task: graph_fixed(task, "sum", "max") for task in GRAPH_TASKS}
FIXED |= {"bfs": node("bfs", "max"), "shortest": node("shortest", "min")}
FIXED |= {task: set_model(task, "basic/mean") for task in SET_TASKS}


def jobs(recipes: list[Recipe], data_seed: int) -> list[RecipeJob]:
    """The trainings of all recipes, in every form."""
    preset = get_preset("paper", data_seed)
    return [RecipeJob(one, (), preset, "all") for recipe in recipes for one in candidates(recipe, preset)]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(GNP), choices=list(GNP))
    parser.add_argument("--fixed", action="store_true", help="the best fixed poolings in place of GNP")
    parser.add_argument("--data-seed", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=0, help="time limit; 0 means none")
    parser.add_argument("--store", type=Path, default=Path("results/fresh"))
    given = parser.parse_args()
    table, device = FIXED if given.fixed else GNP, choose_device(given.device)
    runner = Runner(Store(given.store), device, jobs=given.jobs, processes=device.type == "cuda", on_event=show)
    with limited(given.seconds):
        runner.run(jobs([table[name] for name in given.models], given.data_seed))


if __name__ == "__main__":
    main()
