"""GOOD-Motif, basis shift: what helps a network that learned on some base graphs to handle others?

    python -m studies.arena_basis                # on one core, into results/learned/arena_basis.json

No test graph and no shifted validation graph is drawn. Each of the three training base graphs is left out once: a
variant learns on the other two, and is tested on the one left out. In "thinned" variants, every second training graph
has lost up to 40 % of its nodes. In "rewired" variants it has lost up to 30 %, and has gained up to 30 % random edges.
The network is GIN of 3 x 32 channels with batch norm, with plain empirical risk; the last epoch counts.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import time
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from gnpool import Batches, Setting, fit_many
from gnpool.lab.arena.bouts import falling
from gnpool.models import DeepNet
from gnpool.tasks import CrossEntropy, accuracy
from gnpool.tasks.arena import disturbed, get_benchmark
from gnpool.tasks.arena.motif import BASES
from gnpool.training import machine
from studies.files import read_runs, write_runs

OUT = Path("results/learned/arena_basis.json")
BENCHMARK, INSIDE = "good_motif_basis", (0, 1, 2)
TRAIN, HELD, EPOCHS, HIDDEN, BATCH = 1600, 400, 24, 32, 32
PLAIN = {"aggr": "gnpg", "readout": "gnpg", "start": "sum/mean"}
THIN, REWIRED = {"nodes": 0.4}, {"nodes": 0.3, "edges": 0.3}
VARIANTS: dict[str, dict[str, Any]] = {
    "sum/mean": {"aggr": "sum", "readout": "mean"},
    "sum/mean, thinned": {"aggr": "sum", "readout": "mean", "disturb": THIN},
    "GNP": PLAIN,
    "GNP, thinned": {**PLAIN, "disturb": THIN},
    "GNP, rewired": {**PLAIN, "disturb": REWIRED},
    "GNP, mean readout": {"aggr": "gnpg", "readout": "mean", "start": "sum"},
    "sum/max": {"aggr": "sum", "readout": "max"},
    "sum/max, rewired": {"aggr": "sum", "readout": "max", "disturb": REWIRED},
    "sum/max, thinned": {"aggr": "sum", "readout": "max", "disturb": THIN},
    "GNP from sum/max": {**PLAIN, "start": "sum/max"},
    "GNP from sum/max, thinned": {**PLAIN, "start": "sum/max", "disturb": THIN},
    "GNP from sum/max, rewired": {**PLAIN, "start": "sum/max", "disturb": REWIRED},
    "sum/mean, rewired": {"aggr": "sum", "readout": "mean", "disturb": REWIRED},
    "GNP, rewired, jumping": {**PLAIN, "disturb": REWIRED, "jumping": "cat"},
    "GNP, rewired, five layers": {**PLAIN, "disturb": REWIRED, "layers": 5},
}


def study(name: str, left: int, train: int = TRAIN, epochs: int = EPOCHS, seeds: int = 2) -> dict[str, Any]:
    """Train a variant without one of the base graphs: accuracy in percent on that graph, and on the others."""
    began = time.monotonic()
    given = dict(VARIANTS[name])
    disturb, start = given.pop("disturb", None), given.pop("start", None)
    dataset = get_benchmark(BENCHMARK).dataset
    seen = [graph for graph in dataset("train", count=2 * train) if int(graph.basis) != left][:train]
    graphs: list[Data] = seen
    if disturb:
        graphs = [*seen[0::2], *disturbed(seen[1::2], **disturb)]
    held = dataset("id_val", count=6 * HELD)
    named = {
        "left out": [graph for graph in held if int(graph.basis) == left][:HELD],
        "seen": [graph for graph in held if int(graph.basis) != left][:HELD],
    }
    parts = {name: Batches(graphs, 250, seed=None, sorted_edges=True) for name, graphs in named.items()}
    fit = fit_many(
        lambda: DeepNet(1, hidden=HIDDEN, out_channels=3, **given),
        Batches(graphs, BATCH, sorted_edges=True),
        CrossEntropy(),
        Setting(lr=5e-3, optimizer="adam", clip=10.0, start=start),
        seeds=seeds,
        epochs=epochs,
        schedule=functools.partial(falling, epochs),
    )
    found = {
        part: [round(100 * value, 2) for value in fit.evaluate(batches, {"right": accuracy})["right"].tolist()]
        for part, batches in parts.items()
    }
    return {
        "variant": name,
        "left out": BASES[left],
        "graphs": train,
        "epochs": epochs,
        "accuracy": found,
        "commit": machine.commit(),
        "seconds": round(time.monotonic() - began),
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    given = parser.parse_args()
    found = read_runs(given.out)
    for name, left in itertools.product(given.variants, INSIDE):
        if any((one["variant"], one["left out"]) == (name, BASES[left]) for one in found):
            continue
        found.append(study(name, left))
        write_runs(given.out, found)
        means = {part: round(statistics.mean(values), 1) for part, values in found[-1]["accuracy"].items()}
        print(f"{name:30s} without {BASES[left]:6s} {means} {found[-1]['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
