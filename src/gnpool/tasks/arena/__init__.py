"""Public benchmarks of size generalisation: generators of our own, splits by size, and the published numbers."""

from gnpool.tasks.arena import counting, motif, multitask
from gnpool.tasks.arena.benchmark import Benchmark, Part, benchmark_names, get_benchmark, register_benchmark

__all__ = ["Benchmark", "Part", "benchmark_names", "get_benchmark", "register_benchmark"]
