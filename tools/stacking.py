"""Influence with other numbers of stacked models: where the table of influence maximisation differs from the paper.

``python -m tools.stacking`` takes every model of `im_monstor` that reaches fewer nodes than the published one, lets it
choose seeds with two stacked models fewer and two more than published, and writes ``results/trials/stacking.json``. The
data are those of `gnpool reproduce im_monstor`, in the folder of ``GNPOOL_DATA``. With ``--models GNP`` seven of
the eight choices took three quarters of an hour on a core; stopped, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import torch

from gnpool.engine.base import ALONE
from gnpool.lab.influence import (
    IM_MONSTOR,
    MODELS,
    PROBABILITIES,
    TARGETS,
    Choice,
    Training,
    influence_amount,
    read_graph,
)
from gnpool.lab.influence_results import influence_results
from gnpool.lab.influence_runner import choice_unit, model_of
from gnpool.store import Store

AMOUNT = influence_amount("paper")
STEPS = (-2, 2)  # on Celebrity two fewer are the numbers of the other graphs


def worse_choices(results: Path, models: Sequence[str]) -> list[Choice]:
    """The choices of trained models that the record calls worse."""
    cells = influence_results(IM_MONSTOR, Store(results, create=False), AMOUNT)["cells"]
    places = {(cell["row"], cell["column"]) for cell in cells if cell["verdict"] == "worse"}
    return [
        Choice(target, probability, model, run=0)
        for model, target, probability in product(models, TARGETS, PROBABILITIES)
        if (model, f"{target}/{probability}") in places
    ]


def trial(choice: Choice, stacked: int, results: Path) -> dict[str, Any]:
    """The influence of the seeds that a stored model chooses when it is applied ``stacked`` times."""
    torch.set_num_threads(1)
    record = Store(results, create=False).get(Training(choice.target, choice.model, choice.run).key(AMOUNT))
    if record is None:
        raise ValueError(f"{results} has no trained model for {choice}")
    model, _ = model_of(record, choice)
    graph = read_graph(choice.target, "test", choice.probability, AMOUNT.nodes)
    scores, meta = choice_unit(ALONE, choice, AMOUNT, torch.device("cpu"), graph, model, stacked)
    return {
        "model": choice.model,
        "target": choice.target,
        "probability": choice.probability,
        "stacked": stacked,
        "influence": round(scores["influence"], 2),
        "standard_error": round(scores["standard_error"], 2),
        "seconds": round(meta["seconds"]),
    }


def trials(results: Path, models: Sequence[str]) -> Iterator[tuple[Choice, int]]:
    """Every choice with the numbers to try."""
    for choice in worse_choices(results, models):
        published = Training(choice.target, choice.model, choice.run).stacked[choice.probability]
        for step in STEPS:
            if published + step > 0:
                yield choice, published + step


def main() -> None:
    """Choose with other numbers and write what came out."""
    parser = argparse.ArgumentParser(prog="python -m tools.stacking", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/paper"))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--out", type=Path, default=Path("results/trials/stacking.json"))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    out: Path = arguments.out
    found: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))["runs"] if out.exists() else []
    done = {(run["model"], run["target"], run["probability"], run["stacked"]) for run in found}
    todo = [
        (choice, stacked)
        for choice, stacked in trials(arguments.results, arguments.models)
        if (choice.model, choice.target, choice.probability, stacked) not in done
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for number, future in enumerate(
            as_completed([pool.submit(trial, *work, arguments.results) for work in todo]), 1
        ):
            found.append(future.result())
            found.sort(key=lambda run: (run["model"], run["target"], run["probability"], run["stacked"]))
            out.write_text(json.dumps({"table": "im_monstor", "runs": found}, indent=1) + "\n", encoding="utf-8")
            print(f"{number} of {len(todo)}: {future.result()}", flush=True)


if __name__ == "__main__":
    main()
