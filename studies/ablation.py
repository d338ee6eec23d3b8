"""Measures what each piece of growth coordinates contributes: the portfolio without one piece at a time.

    python -m studies.ablation --device cuda --out results/learned/ablation.json

Training and choice are as in studies.learned, with three seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from gnpool.training.portfolio import falling
from studies.files import write_runs
from studies.laws import LAWS
from studies.learned import network, settings, study, summary

STUDIED = ("max of sums", "mean of mins", "rms degree")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "as it is": ("gnpg", {}),
    "no usual size": ("gnpg", {"size": 1.0}),
    "p up to 50": ("gnpg", {"p_max": 50.0}),
    "two branches": ("gnpg", {"branches": "split"}),
    "zeros removed": ("gnpg", {"zeros": "remove"}),
    "start at the mean only": ("gnpg", {}),
    "rates of the rest": ("gnpg", {}),
    "constant rates": ("gnpg", {}),
    "published coordinates": ("gnp", {}),
}
SEEDS = 3


def train(law: str, variant: str, device: str) -> dict[str, Any]:
    """The runs on one law without one piece."""
    pooling, options = VARIANTS[variant]
    side = "growth" if pooling == "gnpg" else "published"
    grid = settings(side, network(LAWS[law], pooling), "graph")
    if variant == "start at the mean only":
        grid = [dataclasses.replace(one, start="mean") for one in grid if one.start == "mean/mean"]
    if variant == "rates of the rest":
        grid = [dataclasses.replace(one, lr_p=one.lr, lr_g=one.lr) for one in grid]
    schedule = None if variant == "constant rates" else falling
    found = study(LAWS[law], pooling, grid, seeds=SEEDS, device=device, schedule=schedule, **options)
    return {**found, "variant": variant}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/learned/ablation.json"))
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    found = []
    for law in STUDIED:
        for variant in VARIANTS:
            found.append(train(law, variant, given.device))
            write_runs(given.out, found)
            print(f"{variant:24s} {summary(found[-1])}", flush=True)


if __name__ == "__main__":
    main()
