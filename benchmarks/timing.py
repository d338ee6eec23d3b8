"""Times contenders in turn, and checks that the machine is idle enough."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LEAST_SECONDS = 0.01  # least time of a sample: short calls are repeated
MOST_BUSY = 0.10  # largest share of all cores that other processes may use


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call: the median and the 20 and 80 percent quantiles of the samples."""

    median: float
    low: float
    high: float
    samples: int


def busy_share(seconds: float = 2.0) -> float | None:
    """The share of the machine's cores in use while this process sleeps; None if the system does not report it."""

    def ticks() -> tuple[int, int]:
        values = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return sum(values[:8]), values[3] + values[4]

    try:
        total, idle = ticks()
        time.sleep(seconds)
        later, later_idle = ticks()
    except (OSError, ValueError, IndexError):
        return None
    return 1.0 - (later_idle - idle) / max(1, later - total)


def time_in_turn(
    contenders: dict[str, Callable[[], object]],
    rounds: int,
    synchronize: Callable[[], object] = lambda: None,
    seconds: float | None = None,
) -> dict[str, Timing]:
    """Time every contender once in each round, so that a drift of the machine affects all contenders alike."""
    least = LEAST_SECONDS if seconds is None else seconds
    repeats = {}
    for name, call in contenders.items():
        call()
        synchronize()
        repeats[name] = max(1, round(least / max(1e-9, _seconds(call, 1, synchronize))))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            samples[name].append(1e3 * _seconds(call, repeats[name], synchronize))
    return {name: _summary(values) for name, values in samples.items()}


def _seconds(call: Callable[[], object], repeats: int, synchronize: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronize()
    return (time.perf_counter() - start) / repeats


def _summary(values: Sequence[float]) -> Timing:
    cuts = statistics.quantiles(values, n=5, method="inclusive")
    return Timing(statistics.median(values), cuts[0], cuts[-1], len(values))


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
