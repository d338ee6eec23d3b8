"""Cases of influence: cascades compared with a plain loop and vectorised PyTorch, and a graph of ten million edges.

``python -m benchmarks.influence`` measures the large graph; ``--gpu`` measures one million cascades in one call.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import networkx
import numpy as np
import torch
from torch import Tensor

from benchmarks.cases import Call, Promise, case
from gnpool.data import parse_edge_list
from gnpool.influence import CascadeGraph, degree_seeds, simulate

RUNS = 1000
LOOPED, VECTORISED = 20, 200  # number of cascades that the baselines are timed with
SEEDS = 100
LARGE_NODES, LARGE_EDGES, LARGE_SEEDS = 1_000_000, 10_000_000, 50
GPU_RUNS = 1_000_000


def graph_of_the_study() -> CascadeGraph:
    """Extended_test_BT, or a random graph of its size if the file is not available."""
    folder = os.environ.get("GNPOOL_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data"))
    archive = Path(folder) / "monstor" / "graphs.zip"
    if archive.is_file():
        with zipfile.ZipFile(archive) as content:
            return CascadeGraph.from_edge_list(parse_edge_list(content.read("graphs/Extended_test_BT.txt")))
    rng = np.random.default_rng(0)
    ends = np.unique((rng.random((30_000, 2)) ** (3, 1) * 5413).astype(np.int64), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    return CascadeGraph(5413, *ends.T, rng.random(len(ends)) ** 4 * 0.5)


def looped(graph: networkx.DiGraph, seeds: list[int], runs: int, rng: random.Random) -> float:
    """The mean size of cascades, by a plain loop."""
    total = 0
    for _ in range(runs):
        active, frontier = set(seeds), list(seeds)
        while frontier:
            reached = []
            for node in frontier:
                for neighbor, edge in graph[node].items():
                    if neighbor not in active and rng.random() < edge["probability"]:
                        active.add(neighbor)
                        reached.append(neighbor)
            frontier = reached
        total += len(active)
    return total / runs


def vectorised(graph: CascadeGraph, seeds: list[int], runs: int) -> float:
    """The mean size of cascades, all at once in plain PyTorch: live edges are drawn, then activity spreads."""
    source, target = (torch.from_numpy(ends) for ends in (graph.source, graph.target))
    live = torch.rand(graph.edges, runs) < torch.from_numpy(graph.probability)[:, None]
    active = torch.zeros(graph.nodes, runs, dtype=torch.bool)
    active[seeds] = True
    frontier = active.clone()
    while bool(frontier.any()):
        hits = (frontier[source] & live).to(torch.uint8)
        reached = torch.zeros(graph.nodes, runs, dtype=torch.uint8).index_reduce_(0, target, hits, "amax")
        frontier = reached.bool() & ~active
        active |= frontier
    sizes: Tensor = active.sum(0, dtype=torch.float64)
    return float(sizes.mean())


@case(
    "cascades",
    f"{RUNS:,} cascades of {SEEDS} seeds on Extended_test_BT (5,413 nodes, 27,146 edges)",
    Promise("gnpool", "Python and networkx", 1 / 20, times=RUNS / LOOPED),
    Promise("gnpool", "PyTorch, vectorised", 1 / 5, times=RUNS / VECTORISED),
    rounds=5,
)
def _cascades() -> dict[str, Call]:
    graph = graph_of_the_study()
    seeds = degree_seeds(graph, SEEDS).seeds
    network = networkx.DiGraph()
    network.add_nodes_from(range(graph.nodes))
    edges = zip(graph.source.tolist(), graph.target.tolist(), graph.probability.tolist(), strict=True)
    network.add_edges_from((a, b, {"probability": p}) for a, b, p in edges)
    rng = random.Random(0)  # noqa: S311 -- a simulation
    return {
        "gnpool": lambda: simulate(graph, [seeds], RUNS),
        "Python and networkx": lambda: looped(network, seeds, LOOPED, rng),
        "PyTorch, vectorised": lambda: vectorised(graph, seeds, VECTORISED),
    }


LARGE = """
import json, resource, sys, time
from pathlib import Path
import torch
from gnpool.data import read_edge_list
from gnpool.influence import CascadeGraph, degree_seeds, simulate
path, seeds, runs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
import numpy as np
simulate(CascadeGraph(2, np.array([0]), np.array([1]), np.ones(1)), [[0]], 1)  # compiles
marks = [time.perf_counter()]
edges = read_edge_list(path)
marks.append(time.perf_counter())
graph = CascadeGraph.from_edge_list(edges)
chosen = degree_seeds(graph, seeds).seeds
marks.append(time.perf_counter())
found = simulate(graph, [chosen], runs)
marks.append(time.perf_counter())
read, select, cascades = (b - a for a, b in zip(marks, marks[1:]))
print(json.dumps({"read": read, "select": select, "simulate": cascades, "influence": found.influence.item(),
    "standard_error": found.standard_error.item(), "threads": torch.get_num_threads(),
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def write_large(path: Path, nodes: int, edges: int) -> None:
    """A random graph with hubs, as text; each edge has a probability around 0.05."""
    rng = np.random.default_rng(0)
    key = np.zeros(0, dtype=np.int64)
    while key.size < edges:
        more = edges + edges // 20 - key.size
        source = (nodes * rng.random(more) ** 2).astype(np.int64)
        target = rng.integers(0, nodes, more)
        key = np.unique(np.concatenate([key, (source * nodes + target)[source != target]]))
    key = rng.permutation(key)[:edges]
    probability = 0.1 * rng.random(edges)
    with path.open("w") as file:
        file.write(f"{nodes}\t{edges}\n")
        for begin in range(0, edges, 1_000_000):
            part = slice(begin, begin + 1_000_000)
            columns = ((key[part] // nodes).tolist(), (key[part] % nodes).tolist(), probability[part].tolist())
            file.writelines(f"{a}\t{b}\t{p:.5f}\n" for a, b, p in zip(*columns, strict=True))


def large(nodes: int = LARGE_NODES, edges: int = LARGE_EDGES) -> dict[str, float]:
    """Seconds and peak memory of reading, choosing by degree and simulating, in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.txt"
        write_large(path, nodes, edges)
        command = [sys.executable, "-c", LARGE, str(path), str(LARGE_SEEDS), str(RUNS)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(run.stdout)
    return result


def gpu(runs: int = GPU_RUNS) -> dict[str, float]:
    """Seconds of ``runs`` cascades in the second call on a GPU, and the result."""
    graph = graph_of_the_study()
    seeds = degree_seeds(graph, SEEDS).seeds
    simulate(graph, [seeds], runs, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    found = simulate(graph, [seeds], runs, device="cuda")
    seconds = time.perf_counter() - began
    check = simulate(graph, [seeds], 10_000)
    again = simulate(graph, [seeds], 10_000, device="cuda")
    return {
        "cascades": runs,
        "seconds": seconds,
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20,
        "influence": found.influence.item(),
        "standard_error": found.standard_error.item(),
        "bits_of_the_cpu": float(torch.equal(check.influence, again.influence)),
    }


def main() -> None:
    """Parse, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.influence", description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="one million cascades in one call on a GPU")
    parser.add_argument("--nodes", type=int, default=LARGE_NODES)
    parser.add_argument("--edges", type=int, default=LARGE_EDGES)
    arguments = parser.parse_args()
    print(json.dumps(gpu() if arguments.gpu else large(arguments.nodes, arguments.edges), indent=1))


if __name__ == "__main__":
    main()
