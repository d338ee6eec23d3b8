"""Measures how much faster two Ray workers are than one: ``python -m benchmarks.scaling``.

They run the trainings and exams of a table with one thread each; the cluster and its workers are started before the
measurement. Promised: 1.6 times the throughput with two workers, on two otherwise idle cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch

from gnpool.engine import Engine, open_engine
from gnpool.lab import TABLES, Runner, Scope
from gnpool.store import Store


def seconds(engine: Engine, table: str, preset: str, jobs: int) -> float:
    """Seconds to run a table into a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        store, device = Store(folder), torch.device("cpu")
        begin = time.monotonic()
        Runner(store, device, jobs=jobs, engine=engine).run(TABLES[table].jobs(Scope(preset), store, device))
        return time.monotonic() - begin


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default="ablation_b")
    parser.add_argument("--preset", default="quick", choices=("smoke", "quick", "paper"))
    options = parser.parse_args()
    with open_engine("ray", device="cpu", jobs=2) as engine:
        seconds(engine, options.table, "smoke", 2)  # workers start and load what they need
        one, two = (seconds(engine, options.table, options.preset, jobs) for jobs in (1, 2))
    print(f"{options.table}, {options.preset}: {one:.1f} s with 1 worker, {two:.1f} s with 2, {one / two:.2f} times")


if __name__ == "__main__":
    main()
