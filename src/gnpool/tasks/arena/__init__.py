"""Public benchmarks of size generalisation: our generators, splits by size, and the published numbers."""

from gnpool.tasks.arena.benchmark import Benchmark, Part
from gnpool.tasks.arena.catalog import benchmark_names, get_benchmark
from gnpool.tasks.arena.multitask import multitask_errors
from gnpool.tasks.arena.pointers import pointer_accuracy, pointer_graph_accuracy, pointer_nll
from gnpool.tasks.arena.published import PublishedTable, Score, published, published_tables
from gnpool.tasks.arena.size_shift import SizeShift, class_shares, size_shift
from gnpool.tasks.arena.subgraphs import disturbed

__all__ = [
    "Benchmark",
    "Part",
    "PublishedTable",
    "Score",
    "SizeShift",
    "benchmark_names",
    "class_shares",
    "disturbed",
    "get_benchmark",
    "multitask_errors",
    "pointer_accuracy",
    "pointer_graph_accuracy",
    "pointer_nll",
    "published",
    "published_tables",
    "size_shift",
]
