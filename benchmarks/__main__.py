"""Run the benchmarks: tests first, then ratios, on an idle machine; rows go to ``benchmarks/results.csv``."""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.metadata
import platform
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks import RESULTS, ROOT, classification, cuda, influence, rivals, training  # noqa: F401, cases register themselves
from benchmarks.cases import CASES, Case, Promise
from benchmarks.process import first_call_seconds, peak_bytes
from benchmarks.timing import MOST_BUSY, Timing, busy_share, cores, time_in_turn

LIBRARIES = ("torch", "torch-geometric", "numba", "triton")
COLUMNS = ("date", "case", "contender", "median_ms", "p20_ms", "p80_ms", "samples", "threads", "hardware", "versions")
EXTRA = ("first call", "memory")


def main() -> int:
    """Parse the arguments; check the machine; time, print and store the cases."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"cases to run (default: all): {', '.join([*CASES, *EXTRA])}")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="where to append the rows (default: %(default)s)")
    parser.add_argument("--no-tests", action="store_true", help="do not run the operator's tests first")
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine too, and store nothing")
    parser.add_argument("--most", type=float, metavar="SECONDS", help="begin no further case after this many seconds")
    arguments = parser.parse_args()
    names = arguments.cases or [*CASES, *EXTRA]
    unknown = [name for name in names if name not in CASES and name not in EXTRA]
    if unknown:
        parser.error(f"no case is called {unknown[0]!r}; there are: {', '.join([*CASES, *EXTRA])}")

    if not arguments.no_tests and not tests_pass():
        print("The operator's tests fail: no figures for wrong results.", file=sys.stderr)
        return 1
    share = busy_share()
    if share is not None and share > MOST_BUSY and not arguments.busy:
        print(
            f"The machine is busy: {share:.0%} of its cores are in use by others (at most {MOST_BUSY:.0%} is idle "
            "enough). Try again later, or look without storing: --busy",
            file=sys.stderr,
        )
        return 1

    print(f"{hardware()}, {torch.get_num_threads()} threads; {versions()}")
    begin = time.monotonic()
    for name in names:
        if arguments.most is not None and time.monotonic() - begin > arguments.most:
            print(f"\n{name}: left out, since {arguments.most:g} seconds are over")
        elif name == "first call":
            report_first_call()
        elif name == "memory":
            report_memory()
        elif CASES[name].device == "cuda" and not torch.cuda.is_available():
            print(f"\n{name}: left out, since torch finds no GPU here")
        else:
            rows = run(CASES[name])
            if not arguments.busy:
                store(rows, arguments.csv)
    return 0


def tests_pass() -> bool:
    """Whether the operator's tests pass."""
    print("running the operator's tests ...", file=sys.stderr)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "tests/ops/test_values.py", "tests/ops/test_edges.py"]
    return subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False).returncode == 0


def run(case: Case) -> list[dict[str, object]]:
    """Time one case and print it; return its rows."""
    print(f"\n{case.name}: {case.title}")
    wait = torch.cuda.synchronize if case.device == "cuda" else lambda: None
    timings = time_in_turn(case.make(), case.rounds, wait, case.seconds)
    for contender, t in timings.items():
        print(f"  {contender:<20} {t.median:10.3f} ms  ({t.low:.3f} to {t.high:.3f})")
    for promise in case.promises:
        verdict(*figure(promise, timings), promise.bound, promise.moonshot)
    return [row(case, contender, timing) for contender, timing in timings.items()]


def figure(promise: Promise, timings: dict[str, Timing]) -> tuple[str, float]:
    """The measured ratio of a promise, as text and as a number."""
    time = timings[promise.numerator].median
    if promise.denominator is None:
        return f"{promise.numerator}, ms", time
    factor = "" if promise.times == 1 else f"{promise.times:g} x "
    name = f"{promise.numerator} / {factor}{promise.denominator}"
    return name, time / (promise.times * timings[promise.denominator].median)


def report_first_call() -> None:
    """Print the cost of the first call of a process."""
    print("\nfirst call: seconds of the first forward and backward of a process, torch and gnpool imported")
    bounds = {"cpu": {"cold": 10.0, "cached": 0.5}}
    if torch.cuda.is_available():
        bounds["cuda"] = {"cold": 2.0, "cached": 2.0}
    for device, bound in bounds.items():
        for name, seconds in first_call_seconds(device).items():
            verdict(f"{device}, {name}, s", seconds, bound[name])


def report_memory() -> None:
    """Print the peak memory of a step for two numbers of edges. It must not grow with E times D."""
    print("\nmemory: peak beside the input of norm_pool_neighbors, forward and backward, 20,000 nodes, 64 channels")
    peaks = {edges: peak_bytes(20_000, edges, 64) / 2**20 for edges in (250_000, 1_000_000)}
    for edges, peak in peaks.items():
        print(f"  {edges:>9,} edges: {peak:8.1f} MiB (one tensor of messages: {edges * 64 * 4 / 2**20:.1f} MiB)")
    lists = (1_000_000 - 250_000) * 8 * 8 / 2**20  # eight lists of int64 while both orders are built
    verdict("growth / the lists' own growth", (peaks[1_000_000] - peaks[250_000]) / lists, 1.0)


def verdict(what: str, figure: float, bound: float, moonshot: bool = False) -> None:
    """Print a number beside its bound."""
    kind, missed = ("moonshot", "not yet") if moonshot else ("promised", "MISSED")
    outcome = "ok" if figure <= bound else missed
    print(f"  {what:<46} {figure:7.3f}  ({kind}: at most {bound:.3g}) {outcome}; torch {torch.__version__}")


def row(case: Case, contender: str, timing: Timing) -> dict[str, object]:
    """A row of the CSV file."""
    values = (
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        case.name,
        contender,
        f"{timing.median:.4f}",
        f"{timing.low:.4f}",
        f"{timing.high:.4f}",
        timing.samples,
        torch.get_num_threads(),
        hardware(case.device),
        versions(),
    )
    return dict(zip(COLUMNS, values, strict=True))


def store(rows: list[dict[str, object]], path: Path) -> None:
    """Append the rows; a new file gets a header."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerows(rows)
    print(f"\n{len(rows)} rows added to {path}", file=sys.stderr)


def hardware(device: str = "cpu") -> str:
    """The processor and the number of cores available to us; for a case on a GPU, also the GPU."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].split(":", 1)[1].strip() if lines else name
    gpu = f"{torch.cuda.get_device_name()}, " if device == "cuda" else ""
    return f"{gpu}{name}, {cores()} cores"


def versions() -> str:
    """The versions of Python and of the libraries."""
    there = {d.name.lower() for d in importlib.metadata.distributions()}
    found = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES if name in there]
    return " ".join([f"python {platform.python_version()}", *found])


if __name__ == "__main__":
    sys.exit(main())
