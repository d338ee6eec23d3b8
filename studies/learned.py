"""Learns laws by gradient descent alone, in growth coordinates and in the published ones.

    python -m studies.learned --device cuda          # the 15 laws, into results/learned/laws.json
    python -m studies.learned --device cuda --held   # the laws that were held back, into results/learned/held.json

Growth coordinates train the unchanged portfolio of ``fit_portfolio``: four starts, three rates. The published
coordinates train as many runs: their own start and three named ones, with the same rates. Five seeds, 7,500 steps of
batch 16. For each seed, the run with the lowest validation loss counts. Nothing is crystallized.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import torch

from gnpool import Batches, Setting, fit_many
from gnpool.models import GraphNet, SetNet
from gnpool.training.portfolio import SETTINGS, default_starts, falling
from studies.files import read_runs, write_runs
from studies.laws import HELD, LAWS, TESTS, Law, draw, relative_error, squared_error

EPOCHS, BATCH, SEEDS = 60, 16, 5
SIDES = {"growth": "gnpg", "published": "gnp"}  # coordinates -> name of the pooling
PUBLISHED_STARTS = {"graph": (None, "sum/sum", "sum/mean", "mean/mean"), "set": (None, "sum", "mean", "max")}


def settings(side: str, model: torch.nn.Module, level: str) -> list[Setting]:
    """The twelve settings of one side: the portfolio, or as many rates and starts for the published form."""
    if side == "growth":
        return [dataclasses.replace(one, start=start) for start in default_starts(model) for one in SETTINGS]
    rates = [{"lr": one.lr, "lr_p": one.rates["p"], "lr_q": one.rates["g"]} for one in SETTINGS]
    grid = [Setting(**rate, clip=10.0, optimizer="adam") for rate in rates]
    return [dataclasses.replace(one, start=start) for start in PUBLISHED_STARTS[level] for one in grid]


def network(law: Law, pooling: str, **options: Any) -> torch.nn.Module:
    """The network for a law: for graphs, layers compute the messages; for sets, one layer precedes the pooling."""
    if law.level == "graph":
        return GraphNet(1, pooling, pooling, aggr_options=options or None, readout_options=options or None)
    return SetNet(1, pooling, pool_options=options or None)


def study(
    law: Law,
    pooling: str,
    grid: list[Setting],
    *,
    seeds: int = SEEDS,
    epochs: int = EPOCHS,
    device: str = "cpu",
    data_seed: int = 0,
    schedule: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Every run on one law with one pooling: its setting, seed, validation loss and errors in percent."""
    began = time.monotonic()
    data = {part: draw(law, part, data_seed) for part in ("train", "validation", *TESTS)}
    edges = law.level == "graph"
    sizes = {"train": BATCH, "1000": 10}
    batches = {
        part: Batches(graphs, sizes.get(part, 100), seed=0 if part == "train" else None, sorted_edges=edges)
        for part, graphs in data.items()
    }
    fit = fit_many(
        lambda: network(law, pooling, **options),
        batches["train"],
        squared_error,
        grid,
        seeds=seeds,
        epochs=epochs,
        validation=batches["validation"],
        schedule=None if schedule is None else (lambda epoch: schedule(epochs, epoch)),
        device=device,
    )
    errors = {part: fit.evaluate(batches[part], {"error": relative_error})["error"] for part in TESTS}
    final = {name: fit.curve(name)[-1].tolist() for name in fit.watched}
    runs = [
        {
            "setting": run.setting.to_dict(),
            "seed": run.seed,
            "failed": run.failed,
            "loss": run.best["loss"].value if "loss" in run.best else None,
            "errors": {part: round(100 * float(error[run.number]), 6) for part, error in errors.items()},
            "exponents": {name: round(values[run.number], 4) for name, values in final.items()},
        }
        for run in fit.runs
    ]
    return {"law": law.name, "pooling": pooling, "options": options, "epochs": epochs, "data_seed": data_seed,
            "seconds": round(time.monotonic() - began, 1), "runs": runs}  # fmt: skip


def chosen(found: dict[str, Any]) -> list[dict[str, Any]]:
    """For each seed, the run with the lowest validation loss."""
    seeds = sorted({run["seed"] for run in found["runs"]})
    alive = [run for run in found["runs"] if run["loss"] is not None]
    return [min((run for run in alive if run["seed"] == seed), key=lambda run: run["loss"]) for seed in seeds]


def summary(found: dict[str, Any]) -> str:
    """A line of text: median and largest error at each size."""
    picks = chosen(found)
    parts = []
    for part in TESTS:
        errors = sorted(run["errors"][part] for run in picks)
        parts.append(f"{part}: {errors[len(errors) // 2]:8.3f} ({errors[-1]:8.3f})")
    failed = sum(run["failed"] is not None for run in found["runs"])
    starts = sorted({str(run["setting"].get("start")) for run in picks})
    end = f"failed {failed}/{len(found['runs'])}  {starts} {found['seconds']} s"
    return f"{found['law']:18s} {found['pooling']:5s} {'  '.join(parts)}  {end}"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a JSON file of all runs; laws in it are not trained again")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--held", action="store_true", help="train the laws that were held back")
    parser.add_argument("--laws", nargs="*", help="names of the laws to train")
    parser.add_argument("--data-seed", type=int, default=0, help="seed of other data, stored in a separate file")
    parser.add_argument("--side", choices=tuple(SIDES), nargs="*", default=list(SIDES))
    given = parser.parse_args()
    draw_name = f"-{given.data_seed}" if given.data_seed else ""
    path = given.out or Path("results/learned") / f"{'held' if given.held else 'laws'}{draw_name}.json"
    found = read_runs(path)
    for law in (HELD if given.held else LAWS).values():
        for side in given.side:
            pooling = SIDES[side]
            there = any(one["law"] == law.name and one["pooling"] == pooling for one in found)
            if there or (given.laws and law.name not in given.laws):
                continue
            grid = settings(side, network(law, pooling), law.level)
            found.append(study(law, pooling, grid, device=given.device, data_seed=given.data_seed, schedule=falling))
            write_runs(path, found)
            print(summary(found[-1]), flush=True)


if __name__ == "__main__":
    main()
