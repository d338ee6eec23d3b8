"""All benchmarks by name."""

from __future__ import annotations

from gnpool.tasks.arena import algorithms, counting, motif, multitask
from gnpool.tasks.arena.benchmark import Benchmark

_BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        *motif.BENCHMARKS,
        multitask.BENCHMARK,
        *algorithms.BENCHMARKS,
        *counting.BENCHMARKS,
    )
}


def get_benchmark(name: str) -> Benchmark:
    r"""The benchmark of that name.

    Example:
        >>> from gnpool.tasks.arena import get_benchmark
        >>> list(get_benchmark("colors").parts)
        ['train', 'val', 'test', 'large', 'large_c']
    """
    if name not in _BENCHMARKS:
        raise ValueError(f"there is no benchmark {name!r}; the names are {', '.join(_BENCHMARKS)}")
    return _BENCHMARKS[name]


def benchmark_names() -> list[str]:
    """The names of all benchmarks with a generator.

    Example:
        >>> from gnpool.tasks.arena import benchmark_names
        >>> [name for name in benchmark_names() if name.startswith("salsa")]
        ['salsa_bfs', 'salsa_dijkstra', 'salsa_eccentricity']
    """
    return list(_BENCHMARKS)
