"""Applies ``crystallize`` to small networks that ``fit_portfolio`` has trained on laws of our own.

    python -m studies.crystals --seeds 1      # into results/learned/crystals.json

There are 500 graphs or sets of 20 to 29 nodes: 400 for training and 100 for validation. The test has 400 nodes.
``--models`` is a folder that keeps the trained networks, so that they need not be trained again.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnpool import Batches, crystallize, fit_portfolio
from gnpool.models import GraphNet, SetNet
from gnpool.training import evaluate_items
from studies.files import read_runs, write_runs
from studies.laws import LAWS as KNOWN
from studies.laws import Law, draw_sizes, over_neighbors, relative_error, squared_error

PATH = Path("results/learned/crystals.json")
COUNTS, SIZES = (
    {"train": 400, "validation": 100, "test": 20},
    {"train": (20, 30), "validation": (20, 30), "test": (400, 401)},
)
BATCH, HIDDEN, TRAINING, EPOCHS, NOISE = 16, 8, 30, 20, 0.05
MEAN_AND_MIN = Law(
    "mean of (mean + min)", "mean of the mean plus the smallest neighbour", "graph",
    lambda x, g: (over_neighbors(np.add, x, g) / g.degree + over_neighbors(np.minimum, x, g)).mean(),  # type: ignore[union-attr,arg-type]
)  # fmt: skip
MEDIAN = Law("set median", "median", "set", lambda x, g: float(np.median(x)))
BETWEEN = Law("set between", "n^-0.3 (sum of x^2.5)^0.4", "set", lambda x, g: (x**2.5).sum() ** 0.4 * len(x) ** -0.3)
EXACT = 0.1  # percent of error at 400 nodes up to which the function counts as the same
EXACT_NOISY = 1.0


@dataclass(frozen=True)
class Case:
    """A target of the study: the law, the noise of its labels, and whether named poolings can express it."""

    law: Law
    noise: float = 0.0
    inside: bool = True

    @property
    def text(self) -> str:
        """The case in words."""
        what = f"{'set: ' if self.law.level == 'set' else ''}{self.law.text}"
        return f"{what}, {100 * self.noise:.0f} % noise" if self.noise else what


CASES = {
    "max of sums": Case(KNOWN["max of sums"]),
    "mean of (mean + min)": Case(MEAN_AND_MIN),
    "range": Case(KNOWN["set range"]),
    "edges": Case(KNOWN["edges"]),
    "sum of maxima": Case(KNOWN["sum of maxima"]),
    "geometric mean": Case(KNOWN["set geometric"]),
    "mean of mins, 5 % noise": Case(KNOWN["mean of mins"], NOISE),
    "median": Case(MEDIAN, inside=False),
    "between the names": Case(BETWEEN, inside=False),
}


def right(run: dict[str, Any]) -> bool:
    """Whether the same function was found on large graphs or, for a case outside, nothing was taken for a law."""
    case = CASES[run["case"]]
    if not case.inside:
        return bool(run["verdict"] == "approximate")
    return bool(run["error"] <= (EXACT_NOISY if case.noise else EXACT))


def shown(run: dict[str, Any]) -> str:
    """The error of a run as text, in percent."""
    return "below 0.001 %" if run["error"] < 0.001 else f"{run['error']:.2g} %"


def drawn(name: str, seed: int) -> dict[str, Batches]:
    """The graphs of a case, with noise on all labels except those of the test."""
    law, noise = CASES[name].law, CASES[name].noise
    found = {}
    for part, count in COUNTS.items():
        graphs = draw_sizes(law, f"crystals {part}", count, SIZES[part], seed)
        spread = float(torch.cat([graph.y for graph in graphs]).std())
        generator = torch.Generator().manual_seed(seed)
        for graph in graphs if part != "test" else ():
            graph.y += noise * spread * torch.randn(1, 1, generator=generator, dtype=torch.float64)
        size = {"train": BATCH, "validation": 100, "test": 10}[part]
        found[part] = Batches(graphs, size, seed=0 if part == "train" else None, sorted_edges=law.level == "graph")
    return found


def trained(name: str, seed: int, data: dict[str, Batches], folder: Path) -> torch.nn.Module:
    """The network that a portfolio trains; the folder keeps it."""
    graph = CASES[name].law.level == "graph"

    def make() -> torch.nn.Module:
        return GraphNet(1, "gnpg", "gnpg", hidden=HIDDEN) if graph else SetNet(1, "gnpg", hidden=HIDDEN)

    path = folder / f"{name}-{seed}.pt"
    model = make()
    if not path.exists():
        found = fit_portfolio(
            make, data["train"], squared_error, validation=data["validation"], seeds=[seed], epochs=TRAINING
        )
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(found.model.state_dict(), path)
    model.load_state_dict(torch.load(path, weights_only=True))
    return model


def study(name: str, seed: int, folder: Path, **options: Any) -> dict[str, Any]:
    """Run one case: the crystallized form, and the errors on large graphs, in percent."""
    data = drawn(name, seed)
    model = trained(name, seed, data, folder)
    began = time.monotonic()
    crystal = crystallize(model, data["train"], data["validation"], squared_error, epochs=EPOCHS, **options)
    seconds = time.monotonic() - began
    errors = [100 * evaluate_items(one, data["test"], relative_error).mean().item() for one in (model, crystal.model)]
    found = {"case": name, "seed": seed, "text": crystal.choice.describe(), "steps": crystal.steps}
    found |= {"verdict": crystal.verdict, "law": None if crystal.law is None else str(crystal.law)}
    found |= {"trusted_size": crystal.trusted_size, "tolerance": crystal.certificate.tolerance}
    return found | {"learned": round(errors[0], 5), "error": round(errors[1], 7), "seconds": round(seconds, 1)}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PATH, help="a JSON file; cases in it are not run again")
    parser.add_argument("--models", type=Path, default=Path("crystal-models"), help="a folder for trained networks")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    given = parser.parse_args()
    found = read_runs(given.out)
    for seed in range(given.seeds):
        for name in given.cases:
            if any((one["case"], one["seed"]) == (name, seed) for one in found):
                continue
            found.append(study(name, seed, given.models))
            write_runs(given.out, found)
            print(found[-1], flush=True)


if __name__ == "__main__":
    main()
