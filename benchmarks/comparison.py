"""Compares learned poolings, which are trained on sets of 5 to 14 numbers and tested on sets of 50 to 149.

``python -m benchmarks.comparison`` trains everything (some minutes on one core), writes ``comparison.csv`` and prints
the table of ``docs/comparison.md``; ``--table`` prints the table from the file.

Each model is a pooling and one linear layer without bias. An element is (x, 1), so that a pooling can count. All models
have the same trainer, two rates, three seeds, and the same rule of choice: validation loss on sets of the training
sizes. Errors are the sum of absolute errors over the sum of targets, in percent.

GenAgg (https://arxiv.org/abs/2306.13826) and LAF (https://arxiv.org/abs/2012.08482) are composed here of torch's own
operations, by the formulas of their papers; they are not the authors' programs.
"""

from __future__ import annotations

import argparse
import copy
import csv
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch_geometric
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.aggr import (
    DegreeScalerAggregation,
    MultiAggregation,
    PowerMeanAggregation,
    SoftmaxAggregation,
)
from torch_geometric.utils import scatter

from gnpool import Batches, GNPAggregation, Setting, crystallize, fit_many
from gnpool.training import evaluate_items

FILE = Path(__file__).with_name("comparison.csv")
FIELDS = ("target", "pooling", "lr", "seed", "validation", "small", "large", "chosen", "versions")
SMALL, LARGE = (5, 15), (50, 150)
TRAIN, OTHER = 512, 256
EPOCHS, BATCH = 80, 32
SEEDS = (10, 11, 12)  # seeds of the models
DATA = 100  # the first of four seeds of the sets: training, validation, small and large tests
RATES = (1e-1, 3e-2)  # for all parameters, including p and q

TARGETS: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: x.max(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "min": lambda x: x.min(),
    "harmonic": lambda x: 1 / (1 / x).sum(),
    "1/n": lambda x: torch.tensor(1 / len(x)),
}


class GenAgg(torch.nn.Module):
    """f^-1(n^(alpha - 1) sum f(x - beta mean)): f and its inverse are networks, tied by a separate loss."""

    def __init__(self, hidden: int = 8, latent: int = 4) -> None:
        super().__init__()
        self.f = torch.nn.Sequential(torch.nn.Linear(1, hidden), torch.nn.Mish(), torch.nn.Linear(hidden, latent))
        self.inverse = torch.nn.Sequential(torch.nn.Linear(latent, hidden), torch.nn.Mish(), torch.nn.Linear(hidden, 1))
        self.alpha = torch.nn.Parameter(torch.tensor(0.0))
        self.beta = torch.nn.Parameter(torch.tensor(0.0))

    def forward(self, x: Tensor, index: Tensor, dim_size: int) -> tuple[Tensor, Tensor]:
        n = scatter(torch.ones_like(x[:, :1]), index, 0, dim_size, "sum").clamp(min=1)
        mean = scatter(x, index, 0, dim_size, "sum") / n
        images = self.f((x - self.beta * mean[index]).unsqueeze(-1))  # (N, channels, latent)
        pooled = scatter(images, index, 0, dim_size, "sum") * (n ** (self.alpha - 1)).unsqueeze(-1)
        error = (self.inverse(self.f(x.unsqueeze(-1))).squeeze(-1) - x).square().mean(-1)
        return self.inverse(pooled).squeeze(-1), scatter(error, index, 0, dim_size, "sum") / n.squeeze(-1)


class LAF(torch.nn.Module):
    """A quotient of sums of Lab(x) and Lcd(1 - x), with Lab(x) = (sum x^b)^a, for x in [0, 1]."""

    def __init__(self, channels: int, units: int = 4) -> None:
        super().__init__()
        self.powers = torch.nn.Parameter(torch.rand(4, 2, units))  # a, b; c, d; e, f; g, h
        self.weights = torch.nn.Parameter(torch.rand(4, units))
        self.width = channels * units

    def forward(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        terms = []
        for number, (outer, inner) in enumerate(self.powers.abs()):
            u = (x if number % 2 == 0 else 1 - x).clamp(1e-6, 1).unsqueeze(-1)
            total = scatter(u**inner, index, 0, dim_size, "sum").clamp(min=1e-12)
            terms.append(self.weights[number] * total**outer)
        below = terms[2] + terms[3]
        below = torch.where(below.abs() < 1e-3, torch.where(below < 0, -1e-3, 1e-3), below)
        return ((terms[0] + terms[1]) / below).flatten(1)


def poolings(degrees: Tensor) -> dict[str, Callable[[], tuple[torch.nn.Module, int]]]:
    """For each contender, a function that makes it and its number of pooled channels."""
    four = ["sum", "mean", "max", "min"]
    pna, scalers = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
    return {
        "GNP": lambda: (GNPAggregation(2, coordinates="published", branches="both"), 2),
        "PowerMean": lambda: (
            PowerMeanAggregation(learn=True, channels=2, clamp_min=1e-6, clamp_max=None),
            2,
        ),
        "Softmax": lambda: (SoftmaxAggregation(learn=True, channels=2), 2),
        "sum, mean, max, min": lambda: (MultiAggregation(four), 8),
        "PNA": lambda: (DegreeScalerAggregation(pna, scalers, degrees), 24),
        "GenAgg": lambda: (GenAgg(), 2),
        "LAF": lambda: (LAF(2), 8),
    }


class Net(torch.nn.Module):
    """A pooling and a linear layer. The second output is the pooling's own loss, 0 for most."""

    def __init__(self, make: Callable[[], tuple[torch.nn.Module, int]]) -> None:
        super().__init__()
        self.pool, width = make()
        self.output = torch.nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        pooled = self.pool(x, batch, dim_size=batch_size)
        pooled, own = pooled if isinstance(pooled, tuple) else (pooled, torch.zeros_like(pooled[:, 0]))
        return torch.stack([self.output(pooled).squeeze(-1), own], 1)


def draw(target: str, count: int, sizes: tuple[int, int], seed: int) -> list[Data]:
    """Sets of uniform numbers in [s/10, s]; each set has its own scale s in [0.2, 1]."""
    generator = torch.Generator().manual_seed(seed)
    sets = []
    for _ in range(count):
        n = int(torch.randint(*sizes, (), generator=generator))
        scale = 0.2 + 0.8 * torch.rand((), generator=generator)
        x = scale * (0.1 + 0.9 * torch.rand(n, generator=generator))
        features = torch.stack([x, torch.ones(n)], 1)
        sets.append(Data(x=features, y=TARGETS[target](x).view(1).double()))
    return sets


def percent(model: torch.nn.Module, sets: list[Data]) -> float:
    """The error of a model, in percent."""
    batches = Batches(sets, 128, seed=None)
    errors = evaluate_items(model, batches, lambda prediction, batch: (prediction[:, 0] - batch.y).abs())
    return 100 * float(errors.mean()) / float(torch.stack([s.y for s in sets]).mean())


def study(target: str, epochs: int = EPOCHS, count: int = TRAIN) -> list[dict[str, object]]:
    """Train every contender on one target: a row for each run."""
    train, validation = draw(target, count, SMALL, DATA), draw(target, OTHER, SMALL, DATA + 1)
    small, large = draw(target, OTHER, SMALL, DATA + 2), draw(target, OTHER, LARGE, DATA + 3)
    unit = float(torch.stack([s.y for s in train]).square().mean())

    def loss(prediction: Tensor, batch: Data) -> Tensor:
        return (prediction[:, 0] - batch.y).square() / unit + prediction[:, 1]

    versions = f"torch {torch.__version__}, PyG {torch_geometric.__version__}"
    rows: list[dict[str, object]] = []
    degrees = torch.bincount(torch.tensor([s.num_nodes for s in train]))
    for name, make in poolings(degrees).items():
        fit = fit_many(
            lambda make=make: Net(make),
            train,
            loss,
            Setting.grid(lr=list(RATES), optimizer="adam"),
            seeds=SEEDS,
            epochs=epochs,
            batch_size=BATCH,
            validation=validation,
            schedule=lambda epoch: 1 - epoch / epochs,
        )
        chosen = fit.best_setting()
        for run in fit.runs:
            model = fit.model(run)
            row = {"target": target, "pooling": name, "lr": run.setting.lr, "seed": run.seed, "versions": versions}
            row |= {"validation": run.best["loss"].value, "chosen": int(run.setting == chosen)}
            rows.append(row | {"small": percent(model, small), "large": percent(model, large)})
            if name == "GNP" and run.number == fit.best().number:
                crystal = crystallize(
                    copy.deepcopy(model), train, validation, loss, batch_size=BATCH, final_validation=False
                )
                row |= {"pooling": "GNP, crystallized", "validation": crystal.choice.loss, "chosen": 1}
                rows.append(row | {"small": percent(crystal.model, small), "large": percent(crystal.model, large)})
    return rows


def number(value: float) -> str:
    """A number, with one decimal if it is small."""
    return ">999" if value >= 999.5 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def table(rows: list[dict[str, str]]) -> str:
    """The table in Markdown: contenders by targets, with means over seeds on small and on large sets."""
    names = list(dict.fromkeys(row["pooling"] for row in rows))
    lines = ["| pooling | " + " | ".join(TARGETS) + " |", "|---|" + "---|" * len(TARGETS)]
    for name in sorted(names, key=lambda name: not name.startswith("GNP")):
        cells = []
        for target in TARGETS:
            runs = [r for r in rows if r["pooling"] == name and r["target"] == target and r["chosen"] == "1"]
            means = [statistics.fmean(float(run[size]) for run in runs) for size in ("small", "large")]
            cells.append(" → ".join(number(mean) for mean in means))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def read() -> list[dict[str, str]]:
    """The stored rows."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Train, write and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--table", action="store_true", help="print the table of the stored rows, and train nothing")
    arguments = parser.parse_args()
    if not arguments.table:
        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message="fit_many: .* does not work under torch.vmap")
        began, rows = time.monotonic(), []
        for target in TARGETS:
            rows += study(target)
            print(f"{target}: {time.monotonic() - began:.0f} s", file=sys.stderr)
        with FILE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            for row in rows:
                writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    print(table(read()))


if __name__ == "__main__":
    main()
