"""Makes results/models and examples/data: trained networks of the record, and small data sets for them.

python -m tools.pretrained          # from results/paper, into their places

For each task, validation has chosen the form of the network and the setting. Of the five seeds, the one with the
lowest validation loss is taken, both learned (``harmonic``) and crystallized (``harmonic-exact``). The data are the
first graphs or sets of the test split.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnpool.fit.preprocess import Preprocessing, Rule
from gnpool.fit.problem import Problem
from gnpool.lab import get_preset
from gnpool.lab.recipes import NETWORKS, Recipe
from gnpool.lab.recipes.crystallized import crystallized
from gnpool.lab.recipes.forms import StoredModels
from gnpool.lab.recipes.models import GRAPH_TASKS, SET_TASKS, graph_gnp, node, set_model
from gnpool.lab.recipes.stored import models_of, stored
from gnpool.models.folder import write_folder
from gnpool.models.saved import model_files
from gnpool.store import Store
from gnpool.tasks import Task, get_task

ROOT = Path(__file__).resolve().parents[1]
STORE, MODELS, DATA = ROOT / "results" / "paper", ROOT / "results" / "models", ROOT / "examples" / "data"
NODE_TASKS = ("bfs", "shortest")
EXACT, PAPER = "-exact", get_preset("paper")
GRAPHS, SETS = 9, 20  # in a data set: one graph of each edge probability
WEIGHTED = ("shortest",)  # tasks with edge weights, for which there are no tables


def recipe_of(task: str) -> Recipe:
    """GNP on a task."""
    if task in GRAPH_TASKS:
        return graph_gnp(task)
    return node(task, "gnp") if task in NODE_TASKS else set_model(task, "basic/gnp")


def best_seed(learned: StoredModels) -> int:
    """The seed whose run, with the chosen setting, has the lowest validation loss."""
    setting = learned.record.scores["chosen"]["loss"]["setting"]
    runs = [run for run in learned.record.scores["runs"] if run["setting"] == setting and "loss" in run["best"]]
    return int(min(runs, key=lambda run: run["best"]["loss"]["value"])["seed"])


def models(store: Store) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The files of every model, by name of its folder, in the form of the network that validation prefers."""
    for task in (*GRAPH_TASKS, *NODE_TASKS, *SET_TASKS):
        for name, recipe in ((task, recipe_of(task)), (task + EXACT, crystallized(recipe_of(task)))):
            one = stored(store, recipe, PAPER)
            learned = one.learned(store, PAPER)
            seed = best_seed(learned)
            yield name, model_files(models_of(one)[seed], spec_of(learned.recipe), extra_of(learned.recipe, seed, name))


def spec_of(recipe: Recipe) -> dict[str, Any]:
    """The arguments that build the network."""
    (variant,) = recipe.variants
    options = {"in_channels": recipe.spec.in_channels, **variant}
    return {"class": NETWORKS[options.pop("net")].__name__, "arguments": options}


def extra_of(recipe: Recipe, seed: int, name: str) -> dict[str, Any]:
    """The further data that prediction needs, and the origin of the network."""
    task = recipe.spec
    level = "node" if task.level == "node" else "graph"
    problem = Problem("regression", level, task.level != "set", reason=f"the task {task.name}")
    low, high = task.sizes["train"]
    return {
        "made_by": "python -m tools.pretrained",
        "problem": problem.to_dict(),
        "preprocessing": Preprocessing(rules_of(task)).to_dict(),
        "trained_on": {"graphs": task.counts["train"], "smallest": low, "largest": high - 1},
        "task": {"name": task.name, "target": task.target, "seed": seed, "crystallised": name.endswith(EXACT)},
    }


def rules_of(task: Task) -> tuple[Rule, ...]:
    """Features as they are; graphs without features get the feature 1."""
    return () if task.level == "graph" else (Rule("x", "scale"),)


def data_files(task: Task) -> dict[str, bytes]:
    """The tables of a small data set."""
    found = task.dataset("test", count=SETS if task.level == "set" else GRAPHS)
    names = [f"{'s' if task.level == 'set' else 'g'}{k}" for k in range(len(found))]
    per_node = task.level == "node"
    files = {}
    if not per_node:
        files["graphs.csv"] = _csv(["graph", "y"], ((n, repr(d.y.item())) for n, d in zip(names, found, strict=True)))
    head = ["graph", *([] if task.level == "set" else ["node"])]
    head += [rule.name for rule in rules_of(task)] + (["y"] if per_node else [])
    rows = []
    for name, data in zip(names, found, strict=True):
        x = [str(np.float32(value)) for value in data.x[:, 0].tolist()]
        for k in range(int(data.num_nodes or 0)):
            row = [name, *([] if task.level == "set" else [str(k)]), *([] if task.level == "graph" else [x[k]])]
            rows.append([*row, *([repr(data.y[k].item())] if per_node else [])])
    files["nodes.csv"] = _csv(head, rows)
    if task.level != "set":
        edges = [(n, *edge) for n, d in zip(names, found, strict=True) for edge in d.edge_index.T.tolist()]
        once = ([n, str(u), str(v)] for n, u, v in edges if u < v)  # undirected; loops are added later if needed
        files["edges.csv"] = _csv(["graph", "source", "target"], once)
    return files


def _csv(head: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue().encode()


def _holds_only(folder: Path, *suffixes: str) -> bool:
    return all(path.suffix in suffixes for path in folder.iterdir())


def main() -> None:
    """Write models and data."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    size = 0
    for name, files in models(Store(options.store, create=False)):
        write_folder(options.models / name, files, replaces=lambda folder: _holds_only(folder, ".json", ".safetensors"))
        size += sum(map(len, files.values()))
        print(f"wrote {options.models / name}")
    for task in (*GRAPH_TASKS, *NODE_TASKS, *SET_TASKS):
        if task not in WEIGHTED:
            files = data_files(get_task(task))
            write_folder(options.data / task, files, replaces=lambda folder: _holds_only(folder, ".csv"))
            size += sum(map(len, files.values()))
            print(f"wrote {options.data / task}")
    print(f"{size / 1e6:.2f} MB in all")


if __name__ == "__main__":
    main()
