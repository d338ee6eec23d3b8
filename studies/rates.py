"""Shows how the default rates of ``param_groups`` were found: a plain loop over optimisers and rates.

    python -m studies.rates --out results/learned/rates.json

Training is as in studies.loop, on two laws. The factors multiply the base rate to give the rates of p and of the
growth; ``None`` is the default. Each optimiser also trains a fixed pair of poolings.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from studies.files import write_runs
from studies.loop import call

BEST = {"max of sums": ("sum", "max"), "mean degree": ("sum", "mean")}
OPTIMIZERS = (("Adam", 3e-3), ("AdamW", 3e-3), ("RMSprop", 1e-3), ("SGD", 1e-4))
FACTORS = (None, (1.0, 1.0), (10.0, 3.0), (100.0, 10.0))
SEEDS = 1


def plan() -> list[dict[str, Any]]:
    """Every training of the study."""
    runs: list[dict[str, Any]] = []
    for law, (aggr, readout) in BEST.items():
        for optimizer, lr in OPTIMIZERS:
            for schedule in (False, True):
                for seed in range(SEEDS):
                    shared = {"law": law, "seed": seed, "optimizer": optimizer, "lr": lr, "schedule": schedule}
                    runs.append({**shared, "aggr": aggr, "readout": readout})
                    runs += [{**shared, "aggr": "gnp", "readout": "gnp", "factors": factors} for factors in FACTORS]
    return runs


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/learned/rates.json"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    jobs = plan()
    with ProcessPoolExecutor(given.workers) as pool:
        found = [{**job, "error": run["error"]} for job, run in zip(jobs, pool.map(call, jobs), strict=True)]
    write_runs(given.out, found)
    rows: dict[str, list[float]] = {}
    for run in found:
        pooling = "fixed pair" if run["aggr"] != "gnp" else f"GNP {run['factors'] or 'default'}"
        when = "falling" if run["schedule"] else "constant"
        name = f"{run['law']:12s} {run['optimizer']:8s} {run['lr']:.0e} {when:8s} {pooling}"
        rows.setdefault(name, []).append(run["error"])
    for name, errors in rows.items():
        print(f"{name:70s} {sum(errors) / len(errors):9.3f}  worst {max(errors):9.3f}")


if __name__ == "__main__":
    main()
