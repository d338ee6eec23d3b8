"""Runs a plain training loop of PyTorch Geometric, with GNP swapped in.

    python -m studies.loop --out results/learned/loop.json

There are 800 graphs of 15 to 39 nodes. Adam runs with 3e-3 and batches of 32 for 60 epochs (1,500 steps), without
validation or selection. The test graphs have 120 to 159 nodes. The optimiser is
``torch.optim.Adam(param_groups(model, lr=3e-3))``.

    python -m studies.loop --fresh

This trains on twenty further draws, and keeps what the file has. Beside GNP it trains the fixed pair that was best on
the first five draws, and the pair that is the law, if it is another one.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import SimpleConv
from torch_geometric.nn.resolver import aggregation_resolver

from gnpool import GNPAggregation, param_groups
from studies.files import read_runs, write_runs
from studies.laws import LAWS, draw_sizes

OTHERS = ("maxdegree", "rms degree", "sum of maxima", "mean degree", "mean of mins")
FIXED = ("sum", "mean", "max", "min")
LR, BATCH, EPOCHS, HIDDEN = 3e-3, 32, 60, 32
TRAIN, TEST = (800, (15, 40)), (200, (120, 160))
FRESH = range(100, 120)  # draws that no choice has used
PAIRS = {  # by law: the best of the 16 fixed pairs on seeds 0 to 4, and the pair that is the law
    "max of sums": (("sum", "max"),),
    "maxdegree": (("sum", "max"),),
    "rms degree": (("sum", "mean"),),
    "sum of maxima": (("min", "sum"), ("max", "sum")),
    "mean degree": (("sum", "mean"),),
    "mean of mins": (("min", "mean"),),
}


class Net(torch.nn.Module):
    """A network: a layer for each node, a pooling over neighbours, a pooling over nodes, and a linear output."""

    def __init__(self, aggr: Any, readout: Any, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.encode = torch.nn.Sequential(torch.nn.Linear(1, hidden), torch.nn.ReLU())
        self.conv = SimpleConv(aggr=aggr)
        self.readout = aggregation_resolver(readout)
        self.out = torch.nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """The prediction for each graph."""
        h = self.conv(self.encode(x), edge_index).relu()
        return self.out(self.readout(h, batch))


def train(
    law: str,
    aggr: str,
    readout: str,
    seed: int,
    groups: str = "param_groups",
    optimizer: str = "Adam",
    lr: float = LR,
    factors: tuple[float, float] | None = None,
    schedule: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Run one training: the error in percent on larger graphs, and the learned exponents.

    ``factors`` multiply the rates of p and of the growth, if they are not the default. With ``schedule`` all rates
    fall along a cosine.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    graphs = draw_sizes(LAWS[law], "loop train", *TRAIN, seed)
    larger = draw_sizes(LAWS[law], "loop test", *TEST, seed)

    def pooling(name: str) -> Any:
        return GNPAggregation(HIDDEN, **options) if name == "gnp" else name

    model = Net(pooling(aggr), pooling(readout))
    rates = {} if factors is None else {"lr_p": factors[0] * lr, "lr_g": factors[1] * lr}
    groups_of = param_groups(model, lr, **rates) if groups == "param_groups" else model.parameters()
    more = {"momentum": 0.9} if optimizer == "SGD" else {}
    steps = getattr(torch.optim, optimizer)(groups_of, lr=lr, **more)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(steps, EPOCHS) if schedule else None
    for _ in range(EPOCHS):
        for batch in DataLoader(graphs, batch_size=BATCH, shuffle=True):
            loss = (model(batch.x, batch.edge_index, batch.batch) - batch.y.float()).square().mean()
            steps.zero_grad()
            loss.backward()
            steps.step()
        if falling is not None:
            falling.step()
    with torch.no_grad():
        parts = [
            ((model(b.x, b.edge_index, b.batch) - b.y) / b.y).abs().flatten() for b in DataLoader(larger, batch_size=20)
        ]
    layers = [module for module in model.modules() if isinstance(module, GNPAggregation)]
    exponents = [
        {name: round(value.item(), 4) for name, value in layer.named_parameters() if value.dim() == 0}
        for layer in layers
    ]
    return {
        "law": law,
        "aggr": aggr,
        "readout": readout,
        "groups": groups,
        "options": options,
        "seed": seed,
        "error": round(100 * float(torch.cat(parts).mean()), 5),
        "loss": loss.item(),
        "exponents": exponents,
    }


def plan(seeds: int) -> list[dict[str, Any]]:
    """Every training of the study."""
    runs: list[dict[str, Any]] = []
    for seed in range(seeds):
        for law in ("max of sums", *OTHERS):
            runs += [{"law": law, "aggr": a, "readout": r, "seed": seed} for a in FIXED for r in FIXED]
            runs.append({"law": law, "aggr": "gnp", "readout": "gnp", "seed": seed})
        law = "max of sums"
        runs.append({"law": law, "aggr": "gnp", "readout": "gnp", "seed": seed, "groups": "parameters"})
        runs.append({"law": law, "aggr": "gnp", "readout": "gnp", "seed": seed, "coordinates": "published"})
    return runs


def fresh() -> list[dict[str, Any]]:
    """Trainings of GNP and the best fixed pairs on fresh draws."""
    return [
        {"law": law, "aggr": aggr, "readout": readout, "seed": seed}
        for seed in FRESH
        for law, pairs in PAIRS.items()
        for aggr, readout in (("gnp", "gnp"), *pairs)
    ]


def call(options: dict[str, Any]) -> dict[str, Any]:
    """Run one training, with its options in a dictionary."""
    return train(**options)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/learned/loop.json"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--fresh", action="store_true", help="train on twenty further draws, with the best fixed pairs")
    given = parser.parse_args()
    others = [run for run in read_runs(given.out) if (run["seed"] in FRESH) != given.fresh]
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.workers) as pool:
        for run in pool.map(call, fresh() if given.fresh else plan(given.seeds)):
            found.append(run)
            write_runs(given.out, [*others, *found])
    for law in ("max of sums", *OTHERS):
        rows: dict[str, list[float]] = {}
        for run in found:
            if run["law"] == law:
                options = f" {run['options']}" if run["options"] else ""
                name = f"{run['aggr']}/{run['readout']} {run['groups']}{options}"
                rows.setdefault(name, []).append(run["error"])
        print(law)
        for name, errors in sorted(rows.items(), key=lambda row: sorted(row[1])[len(row[1]) // 2])[:4]:
            print(f"  {name:50s} median {sorted(errors)[len(errors) // 2]:8.3f} worst {max(errors):8.3f}")
        for name, errors in rows.items():
            if name.startswith("gnp"):
                print(f"  {name:50s} median {sorted(errors)[len(errors) // 2]:8.3f} worst {max(errors):8.3f}")


if __name__ == "__main__":
    main()
