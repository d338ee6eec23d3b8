"""Compares the choice of ``gnpool fit`` on real sets of graphs with a plain GIN of PyTorch Geometric.

    python -m studies.real_sets PROTEINS.zip --cache CACHE       # resumes where it stopped
    python -m studies.real_sets PROTEINS.zip --only gin

Both get the same features and the same split by size, drawn anew for each seed. The largest fifth of the graphs is the
test on larger graphs; of the others, some train, some select, and some test inside the training sizes. The recipe is
that of examples/mutag_gin.py of PyTorch Geometric: five layers of 32 channels with batch norm, the sum as readout,
dropout of a half, Adam at 0.01 and half of it from epoch 51 on, batches of 128, 100 epochs. The epoch with the lowest
validation loss is taken, as in ``gnpool fit``. The result of a constant guess is also stored, and every test graph
that is wrong.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool

from gnpool.data import read_graphs
from gnpool.fit import Options, answer, run_study
from gnpool.fit.measures import shares
from gnpool.fit.prepared import Prepared, prepare
from studies.files import read_runs, write_runs

OUT = Path("results/learned/real_sets.json")
LAYERS, HIDDEN, BATCH, EPOCHS, RATE = 5, 32, 128, 100, 0.01
TESTS = ("inside", "larger")
Outcome = dict[str, Any]


class GIN(torch.nn.Module):
    """The network of the recipe."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        widths = [inputs] + [HIDDEN] * LAYERS
        self.convs = torch.nn.ModuleList(
            GINConv(
                torch.nn.Sequential(torch.nn.Linear(first, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN))
            )
            for first in widths[:-1]
        )
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(HIDDEN) for _ in range(LAYERS))
        self.first, self.last = torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Linear(HIDDEN, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """The scores of the classes, (graphs, classes)."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(conv(x, edge_index).relu())
        x = self.first(global_add_pool(x, batch)).relu()
        return self.last(F.dropout(x, 0.5, self.training))


def graphs_of(prepared: Prepared, part: str) -> list[Data]:
    """The graphs of a part, with the features that the networks of a fit get."""
    table = prepared.table.select(prepared.split.parts()[part])
    x, _ = prepared.preprocessing.apply(table)
    assert table.edge_index is not None
    nodes = torch.from_numpy(table.sizes).tolist()
    edges = torch.from_numpy(table.edge_counts).tolist()
    ends = torch.from_numpy(table.edge_index).split(edges, dim=1)
    first = [int(one) for one in table.first[:-1]]
    y = prepared.problem.targets(table)
    return [
        Data(x=one, edge_index=pair - start, y=label)
        for one, pair, start, label in zip(x.split(nodes), ends, first, y, strict=True)
    ]


@torch.no_grad()
def scores(model: torch.nn.Module, graphs: list[Data]) -> Tensor:
    """The outputs of a network for graphs, in their order."""
    model.eval()
    return torch.cat([model(b.x, b.edge_index, b.batch) for b in DataLoader(graphs, BATCH)])  # type: ignore[arg-type]


def train_gin(prepared: Prepared, seed: int, epochs: int = EPOCHS) -> Outcome:
    """Train the recipe, and test its best epoch."""
    torch.manual_seed(seed)
    train, validation = (graphs_of(prepared, part) for part in ("train", "validation"))
    labels = torch.stack([one.y for one in validation])
    model = GIN(prepared.preprocessing.width, len(prepared.problem.classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    loader = DataLoader(train, BATCH, shuffle=True)  # type: ignore[arg-type]
    lowest, best = float("inf"), copy.deepcopy(model)
    for epoch in range(1, epochs + 1):
        model.train()
        if epoch == EPOCHS // 2 + 1:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        for batch in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y).backward()
            optimizer.step()
        loss = float(F.cross_entropy(scores(model, validation), labels))
        if loss < lowest:
            lowest, best = loss, copy.deepcopy(model)
    wrong = {}
    for part in TESTS:
        graphs = graphs_of(prepared, part)
        wrong[part] = (scores(best, graphs).argmax(-1) != torch.stack([one.y for one in graphs])).long().tolist()
    return {"model": "GIN", "label": "GIN", "validation_loss": lowest, "wrong": wrong}


def constant(prepared: Prepared) -> Outcome:
    """Always name the class that is most frequent in training; also the share of each class in each part."""
    guess = int(prepared.problem.constant(prepared.y["train"]).argmax())
    classes = prepared.problem.classes
    return {
        "model": "constant",
        "label": classes[guess],
        "shares": {part: shares(y, classes) for part, y in prepared.y.items()},
        "wrong": {part: (prepared.y[part] != guess).long().tolist() for part in TESTS},
    }


def fit(table: Any, options: Options, cache: Path | None) -> list[Outcome]:
    """The choice of a fit, and the best fixed poolings by the same validation."""
    study = run_study(table, options, checkpoint=cache)
    fixed = [e for e in study.entries if e.finished and e.label not in ("GNP", "GNP*", "law")]
    found = {"fit": answer(study).entry, "fixed": min(fixed, key=lambda entry: entry.loss)}
    return [
        {
            "model": model,
            "label": entry.label,
            "network": study.frame.describe(),
            "validation_loss": entry.loss,
            "wrong": {part: entry.errors[part].astype(int).tolist() for part in TESTS},
        }
        for model, entry in found.items()
    ]


def run(source: Path, seed: int, models: set[str], cache: Path | None) -> list[Outcome]:
    """The outcomes of one seed for these models."""
    table, began = read_graphs(source), time.monotonic()
    options = Options(seed=seed)
    found = []
    if "fit" in models:
        found += fit(table, options, None if cache is None else cache / f"{source.stem}-{seed}")
    if "gin" in models:
        prepared = prepare(table, options)
        found += [constant(prepared), train_gin(prepared, seed)]
    seconds = round(time.monotonic() - began, 1)
    return [{"set": source.stem, "seed": seed, "torch": torch.__version__, **one, "seconds": seconds} for one in found]


def missing(kept: list[Outcome], name: str, seed: int, only: str | None) -> set[str]:
    """The models that are still to be run for a seed."""
    done = {one["model"] for one in kept if (one["set"], one["seed"]) == (name, seed)}
    wanted = {"fit", "gin"} if only is None else {only}
    return {one for one in wanted if {"fit": "fit", "gin": "GIN"}[one] not in done}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="+", help="a zip or folder of a TUDataset")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=("fit", "gin"))
    parser.add_argument("--cache", type=Path, help="a folder that keeps what a fit has trained")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    for source in given.source:
        for seed in range(given.seeds):
            kept = read_runs(given.out)
            if todo := missing(kept, source.stem, seed, given.only):
                write_runs(given.out, kept + run(source, seed, todo, given.cache))
                print(f"{source.stem}, seed {seed}: done", flush=True)


if __name__ == "__main__":
    main()
