"""GOOD-Motif, size shift, at a size for a laptop: GNP in growth coordinates beside two fixed pairs of poolings.

    python -m studies.arena_motif                # on one core, into results/learned/arena_quick.json
    python -m studies.arena_motif --seeds 5 --device cuda

2,000 graphs for training and 500 in each other part, from the generator of gnpool.tasks.arena. Three GIN layers of 32
channels with batch norm, plain empirical risk, 30 epochs of Adam with batches of 32. GNP trains from two starts at two
rates. A fixed pair trains at both rates under twice as many seeds, so that it has as many runs. Of every four runs the
run and epoch of best accuracy on the shifted validation graphs count, as in the benchmark, and beside it the choice by
validation graphs of training sizes.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnpool import Batches, Setting, fit_many
from gnpool.models import DeepNet
from gnpool.tasks import CrossEntropy, accuracy
from gnpool.tasks.arena import get_benchmark
from gnpool.tasks.arena.motif import CEILING
from gnpool.training import machine
from gnpool.training.fit import Progress
from studies.files import write_runs

OUT = Path("results/learned/arena_quick.json")
BENCHMARK = "good_motif_size"
TRAIN, HELD = 2000, 500  # graphs for training, and in each other part
HIDDEN, LAYERS, CLASSES = 32, 3, 3
EPOCHS, BATCH, SEEDS = 30, 32, 2
RATES = (1e-2, 3e-3)
PAIRS: dict[str, tuple[str, str, tuple[str | None, ...]]] = {  # aggregation, readout, starts
    "sum/mean": ("sum", "mean", (None,)),
    "sum/max": ("sum", "max", (None,)),
    "GNP/GNP": ("gnpg", "gnpg", ("sum/sum", "sum/mean")),
}
RULES = {"shifted": "val", "inside": "id_val"}  # which validation graphs choose


def falling(epochs: int, epoch: int) -> float:
    """Rates fall by ten for the last quarter of the epochs, and again for the last eighth."""
    left = (epochs - epoch) / epochs
    return 1.0 if left > 0.25 else 0.1 if left > 0.125 else 0.01


def settings(starts: tuple[str | None, ...]) -> list[Setting]:
    """Every rate from every start."""
    return [Setting(lr=lr, optimizer="adam", clip=10.0, start=start) for start in starts for lr in RATES]


def error(scores: Tensor, batch: Any) -> Tensor:
    """1 for each graph whose class is not the most likely one."""
    return 1.0 - accuracy(scores, batch)


def marked(graphs: list[Data], rule: str) -> list[Data]:
    """Validation graphs that know which rule they belong to; those of all rules are as many."""
    for graph in graphs:
        for name in RULES:
            graph[name] = torch.tensor([float(name == rule) * len(RULES)])
    return graphs


def criteria() -> dict[str, Any]:
    """The share of wrong graphs by rule, as a mean over the validation graphs of all rules."""
    return {rule: lambda scores, batch, rule=rule: error(scores, batch) * getattr(batch, rule) for rule in RULES}


def study(
    name: str,
    seeds: int = SEEDS,
    device: str = "cpu",
    train: int = TRAIN,
    held: int = HELD,
    epochs: int = EPOCHS,
    progress: Callable[[Progress], None] | None = None,
) -> dict[str, Any]:
    """All runs of one pair: accuracy in percent on each validation and on both tests."""
    began = time.monotonic()
    aggr, readout, starts = PAIRS[name]
    seeds *= 2 // len(starts)  # as many runs for every pair
    dataset = get_benchmark(BENCHMARK).dataset
    validation = [graph for rule, part in RULES.items() for graph in marked(dataset(part, count=held), rule)]
    fit = fit_many(
        lambda: DeepNet(1, aggr, readout, layers=LAYERS, hidden=HIDDEN, out_channels=CLASSES),
        Batches(dataset("train", count=train), BATCH, sorted_edges=True),
        CrossEntropy(),
        settings(starts),
        seeds=seeds,
        epochs=epochs,
        progress=progress,
        validation=Batches(validation, 250, seed=None, sorted_edges=True),
        criteria=criteria(),
        schedule=functools.partial(falling, epochs),
        device=device,
    )
    tests = {
        part: Batches(dataset(part, count=held), 250, seed=None, sorted_edges=True) for part in ("test", "id_test")
    }
    found = {
        rule: {part: fit.evaluate(batches, {"error": error}, rule)["error"] for part, batches in tests.items()}
        for rule in RULES
    }
    runs = [
        {
            "setting": run.setting.to_dict(),
            "seed": run.seed,
            "failed": run.failed,
            "chosen": {
                rule: {
                    "epoch": run.best[rule].epoch,
                    "validation": round(100 - 100 * run.best[rule].value, 3),
                    **{part: round(100 - 100 * float(errors[run.number]), 3) for part, errors in found[rule].items()},
                }
                for rule in RULES
                if rule in run.best
            },
            "exponents": {name: round(float(fit.curve(name)[-1, run.number].mean()), 3) for name in fit.watched},
        }
        for run in fit.runs
    ]
    return {
        "benchmark": BENCHMARK,
        "pooling": name,
        "graphs": {"train": train, "other parts": held},
        "epochs": epochs,
        "commit": machine.commit(),
        "seconds": round(time.monotonic() - began),
        "runs": runs,
    }


def accuracies(found: dict[str, Any], rule: str, part: str = "test") -> list[float]:
    """Of every four runs, those of two seeds of a fixed pair or of one seed of GNP, the one of best validation."""
    per_choice = len(PAIRS["GNP/GNP"][2]) * len(RATES)
    groups: dict[int, list[dict[str, Any]]] = {}
    width = per_choice * len({run["seed"] for run in found["runs"]}) // len(found["runs"])
    for run in found["runs"]:
        groups.setdefault(run["seed"] // width, []).append(run)
    best = [
        max((run["chosen"][rule] for run in group if rule in run["chosen"]), key=lambda one: one["validation"])
        for group in groups.values()
    ]
    return [one[part] for one in best]


def summary(found: dict[str, Any]) -> str:
    """One line for each rule."""
    lines = []
    for rule in RULES:
        scores, inside = accuracies(found, rule), accuracies(found, rule, "id_test")
        spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
        lines.append(
            f"{found['pooling']:9s} chosen by {rule:8s} {statistics.mean(scores):.1f}{spread}"
            f"  (training sizes {statistics.mean(inside):.1f}; {found['seconds']} s)"
        )
    return "\n".join(lines)


def tell(where: Progress) -> None:
    """How far a unit of runs is, for the impatient."""
    best = ", ".join(f"{rule} {100 - 100 * where.best[rule]:.1f}" for rule in RULES)
    print(f"epoch {where.epoch} of {where.epochs}, {where.seconds:.0f} s, best validation: {best}", file=sys.stderr)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="choices, each among four runs")
    parser.add_argument("--poolings", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    given = parser.parse_args()
    found = []
    for name in given.poolings:
        found.append(study(name, given.seeds, given.device, progress=tell))
        print(summary(found[-1]), flush=True)
    write_runs(given.out, found)
    print(f"ceiling   {100 * CEILING:.1f}")


if __name__ == "__main__":
    main()
