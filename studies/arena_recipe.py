"""GOOD-Motif: which poolings, on which training graphs, hold on graphs of another kind or size?

    python -m studies.arena_recipe --device cuda        # into results/learned/arena_recipe.json

No test graph is drawn, and of the basis shift no shifted validation graph. Each of its three training base graphs is
left out once: a variant learns on the other two, and is tested on the one left out. The fourth column is the size
shift: it learns on its small graphs, and is tested on its shifted validation graphs. Network, rates and batches are
those of the paper preset; the last epoch counts. "GNP from sum/max" starts there. Every second training graph is
disturbed as DISTURBED says.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from gnpool import Batches, Setting, fit_many
from gnpool.lab.arena.bouts import falling
from gnpool.lab.arena.motif import REWIRED
from gnpool.models import DeepNet
from gnpool.tasks import CrossEntropy, accuracy
from gnpool.tasks.arena import disturbed, get_benchmark
from gnpool.tasks.arena.motif import BASES
from gnpool.training import machine
from studies.files import read_runs, write_runs

OUT = Path("results/learned/arena_recipe.json")
TRAIN, HELD, EPOCHS, HIDDEN, BATCH, SEEDS = 6000, 1000, 20, 64, 128, 10
SIZE = "size"
COLUMNS = (*(BASES[basis] for basis in (0, 1, 2)), SIZE)
STRONGLY = {"nodes": 0.5, "edges": 0.5, "cut": 0.5}
DISTURBED: dict[str, tuple[dict[str, float], ...]] = {  # kinds that take turns
    "as they are": (),
    "thinned": ({"nodes": 0.4},),
    "rewired": (dict(REWIRED),),
    "cut": ({"nodes": 0.0, "cut": 0.5},),
    "thinned and cut": ({"nodes": 0.3, "cut": 0.3},),
    "mixed": ({"nodes": 0.3, "edges": 0.3, "cut": 0.3},),
    "mixed strongly": (STRONGLY,),
    "rewired strongly": ({"nodes": 0.3, "edges": 0.6},),
    "new edges": ({"nodes": 0.0, "edges": 0.3},),
    "rewired or thinned": (dict(REWIRED), {"nodes": 0.4}),
    "rewired or cut": (dict(REWIRED), {"nodes": 0.0, "cut": 0.5}),
    "rewired or mixed strongly": (dict(REWIRED), STRONGLY),
}
POOLINGS: dict[str, dict[str, Any]] = {
    "sum/max": {"aggr": "sum", "readout": "max"},
    "sum/mean": {"aggr": "sum", "readout": "mean"},
    "GNP from sum/max": {"aggr": "gnpg", "readout": "gnpg", "start": "sum/max"},
    "GNP from sum/mean": {"aggr": "gnpg", "readout": "gnpg", "start": "sum/mean"},
}


def parts(column: str) -> tuple[list[Data], dict[str, list[Data]]]:
    """The training graphs of a column, and those that test it."""
    if column == SIZE:
        dataset = get_benchmark("good_motif_size").dataset
        return dataset("train", count=TRAIN), {
            "left out": dataset("val", count=HELD),
            "seen": dataset("id_val", count=HELD),
        }
    dataset, left = get_benchmark("good_motif_basis").dataset, BASES.index(column)
    train, held = dataset("train", count=2 * TRAIN), dataset("id_val", count=min(3000, 6 * HELD))
    return [graph for graph in train if int(graph.basis) != left][:TRAIN], {
        "left out": [graph for graph in held if int(graph.basis) == left][:HELD],
        "seen": [graph for graph in held if int(graph.basis) != left][:HELD],
    }


def study(
    pooling: str, disturb: str, graphs: list[Data], tests: dict[str, list[Data]], device: str, seeds: int = SEEDS
) -> dict[str, Any]:
    """Train a variant: accuracy in percent of every seed, on the graphs left out and on the others."""
    began = time.monotonic()
    slots = dict(POOLINGS[pooling])
    start = slots.pop("start", None)
    kinds, graphs = DISTURBED[disturb], list(graphs)
    for turn, options in enumerate(kinds):
        mine = slice(1 + 2 * turn, None, 2 * len(kinds))
        graphs[mine] = disturbed(graphs[mine], **options)
    fit = fit_many(
        lambda: DeepNet(1, hidden=HIDDEN, out_channels=3, **slots),
        Batches(graphs, BATCH, sorted_edges=True),
        CrossEntropy(),
        Setting(lr=3e-3, optimizer="adam", clip=10.0, start=start),
        seeds=seeds,
        epochs=EPOCHS,
        schedule=functools.partial(falling, EPOCHS),
        device=device,
    )
    batches = {name: Batches(held, 250, seed=None, sorted_edges=True) for name, held in tests.items()}
    found = {
        part: [round(100 * value, 2) for value in fit.evaluate(held, {"right": accuracy})["right"].tolist()]
        for part, held in batches.items()
    }
    return {"accuracy": found, "commit": machine.commit(), "seconds": round(time.monotonic() - began)}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--poolings", nargs="*", default=list(POOLINGS), choices=list(POOLINGS))
    parser.add_argument("--disturbed", nargs="*", default=list(DISTURBED), choices=list(DISTURBED))
    parser.add_argument("--columns", nargs="*", default=list(COLUMNS), choices=COLUMNS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = read_runs(given.out)
    for column in given.columns:
        graphs, tests = parts(column)
        for disturb, pooling in itertools.product(given.disturbed, given.poolings):
            name = {"pooling": pooling, "graphs": disturb, "column": column}
            if any(one | name == one for one in found):
                continue
            found.append(name | study(pooling, disturb, graphs, tests, given.device))
            write_runs(given.out, found)
            means = {part: round(statistics.mean(values), 1) for part, values in found[-1]["accuracy"].items()}
            print(f"{pooling:18s} {disturb:15s} without {column:6s} {means} {found[-1]['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
