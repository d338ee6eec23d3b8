"""Public benchmarks of size generalisation: generators of our own, splits by size, and the published numbers."""

from gnpool.tasks.arena import algorithms, counting, motif
from gnpool.tasks.arena.benchmark import Benchmark, Part, benchmark_names, get_benchmark, register_benchmark
from gnpool.tasks.arena.multitask import multitask_errors
from gnpool.tasks.arena.pointers import pointer_accuracy, pointer_graph_accuracy, pointer_nll

__all__ = [
    "Benchmark",
    "Part",
    "benchmark_names",
    "get_benchmark",
    "multitask_errors",
    "pointer_accuracy",
    "pointer_graph_accuracy",
    "pointer_nll",
    "register_benchmark",
]
