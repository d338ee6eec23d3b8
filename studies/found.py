"""Counts how often ``find_law`` is right, seed by seed.

    python -m studies.found
    python -m studies.found --jobs 14 --seconds 500 --out found.json

Every seed has its own data: 500 graphs or sets of 20 to 29 elements with features uniform in (0, 1), once without noise
and once with labels off by 5 % (normal, relative; 5 % of class labels get another class). Targets of nodes have
120 graphs. "Right" means the same function, judged by the mean relative error at 16 times the sizes: at most 0.1 %
without noise, and with noise at most three standard errors of a scale that is fitted to 500 labels. For classes, at
most 1 % and 2 % may be wrong. docs/laws.md says which laws were known when the method was built.

The tasks of the paper are included, with their own data. ``shortest`` has lengths of edges, which ``find_law`` does not
use.

The study continues from results/learned/found.json and from the file given by ``--out``. It writes its outcomes every
few seconds, so that an interrupted run loses little. Outcomes of another version of the finder are not counted, and
their draws are run again.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gnpool import find_law
from gnpool.insight.laws import VERSION
from gnpool.tasks import Task, get_task
from gnpool.tasks.graphs import Graph
from gnpool.tasks.streams import Floats, Stream
from gnpool.tasks.structures import connected_er
from studies.files import read_runs, write_runs
from studies.laws import HELD, LAWS, MEAN_DEGREE, PROBABILITIES, Law, over_neighbors

RESULTS = Path("results/learned/found.json")
WRITTEN = 5.0  # seconds between writes of the file
NOISE = 0.05
COUNT, SIZES = {"graph": 500, "set": 500, "node": 120}, (20, 30)
FACTORS = (2, 4, 8, 16)
LARGER = 10  # graphs for each larger size
LARGER_CLASSES = 100  # for classes, whose error is a share of the graphs
EXACT, NOISY = 0.001, 3 * NOISE / math.sqrt(500)
EXACT_CLASSES, NOISY_CLASSES = 0.01, 0.02
MANY, FEW, FIRST = 100, 20, 5

Job = tuple[str, float, int]  # a law, the noise, the seed


def means(x: Floats, g: Graph) -> Floats:
    """The mean over the neighbours of each node."""
    result: Floats = over_neighbors(np.add, x, g) / g.degree
    return result


def smallest(x: Floats, g: Graph) -> Floats:
    """The minimum over the neighbours of each node."""
    return over_neighbors(np.minimum, x, g)


def largest(x: Floats, g: Graph) -> Floats:
    """The maximum over the neighbours of each node."""
    return over_neighbors(np.maximum, x, g)


def closed_sums(x: Floats, g: Graph) -> Floats:
    """The sum over each node and its neighbours."""
    return over_neighbors(np.add, x, g) + x


def squared_adjacency(g: Graph) -> tuple[Floats, Floats]:
    """The adjacency matrix and its square."""
    adjacent = np.zeros((g.nodes, g.nodes))
    adjacent[g.edges[0], g.edges[1]] = 1.0
    return adjacent, adjacent @ adjacent


def triangles(x: Floats, g: Graph) -> float:
    """The number of triangles, plus one so that no label is 0."""
    adjacent, square = squared_adjacency(g)
    return 1.0 + float((square * adjacent).sum()) / 6


def squares(x: Floats, g: Graph) -> float:
    """Closed walks of length four."""
    return float(np.square(squared_adjacency(g)[1]).sum())


def quartiles(x: Floats) -> float:
    """The distance between the quartiles."""
    return float(np.subtract(*np.quantile(x, (0.75, 0.25))))


def decided(threshold: float, label: Callable[..., Any]) -> Callable[..., Any]:
    """A law of classes: 1 if a label is above a threshold, else 0."""
    return lambda *given: (np.asarray(label(*given)) > threshold).astype(float)


def _law(name: str, level: str, label: Callable[..., Any], ones: bool = False) -> Law:
    given = label if level != "set" else (lambda x, graph: label(x))
    return Law(name, name, level, given, ones)  # type: ignore[arg-type]


INSIDE = {
    **LAWS,
    **HELD,
    **{
        law.name: law
        for law in (
            _law("mean of (mean, min)", "graph", lambda x, g: (means(x, g) + smallest(x, g)).mean() / 2),
            _law("sqrt(n) * mean of max", "graph", lambda x, g: 2.5 * math.sqrt(g.nodes) * largest(x, g).mean()),
            _law("max of closed sums", "graph", lambda x, g: closed_sums(x, g).max()),
            _law("set L3", "set", lambda x: (x**3).sum() ** (1 / 3)),
            _law("set cubic mean", "set", lambda x: (x**3).mean() ** (1 / 3)),
            _law("set max and mean", "set", lambda x: 2 * x.max() - x.mean()),
            _law("set sum/(n+1)", "set", lambda x: x.sum() / (len(x) + 1)),
            _law("node min", "node", lambda x, g: over_neighbors(np.minimum, x, g)),
            _law("node sum", "node", lambda x, g: over_neighbors(np.add, x, g)),
            _law("wedges", "graph", lambda x, g: (g.degree * (g.degree - 1) / 2).sum(), True),
            _law("set L4", "set", lambda x: (x**4).sum() ** (1 / 4)),
            _law("set n^(1/3) * rms", "set", lambda x: len(x) ** (1 / 3) * np.sqrt(np.square(x).mean())),
            _law("node self + max", "node", lambda x, g: x + over_neighbors(np.maximum, x, g)),
        )
    },
}  # fmt: skip
OUTSIDE = {
    law.name: law
    for law in (
        _law("set median", "set", lambda x: np.median(x)),
        _law("triangles", "graph", triangles, True),
        _law("set deviation", "set", lambda x: x.std()),
        _law("node self * sum", "node", lambda x, g: x * over_neighbors(np.add, x, g)),
    )
}
OUTSIDE_KEPT_BACK = {
    law.name: law
    for law in (
        _law("set max * min", "set", lambda x: x.max() * x.min()),
        _law("set quartiles", "set", quartiles),
        _law("squares", "graph", squares, True),
    )
}
CLASSES = {
    law.name: law
    for law in (
        _law("class: maxdegree", "graph", decided(14.5, lambda x, g: g.degree.max()), True),
        _law("class: mean of maxima", "graph", decided(0.87, lambda x, g: largest(x, g).mean())),
        _law("class: edges", "graph", decided(150.0, lambda x, g: g.degree.sum() / 2), True),
        _law("class: set mean", "set", decided(0.5, lambda x: x.mean())),
        _law("class: set rms", "set", decided(0.58, lambda x: np.sqrt(np.square(x).mean()))),
        _law("class: set range", "set", decided(0.93, lambda x: x.max() - x.min())),
        _law("class: node sum", "node", decided(6.0, lambda x, g: over_neighbors(np.add, x, g))),
    )
}
NOTHING = {"noise": Law("noise", "noise", "graph", lambda x, g: 0.0)}
KEPT_BACK = {
    law.name: law
    for law in (
        _law("L2 norm of means", "graph", lambda x, g: np.sqrt(np.square(means(x, g)).sum())),
        _law("smallest sum", "graph", lambda x, g: over_neighbors(np.add, x, g).min()),
        _law("geometric mean of degrees", "graph", lambda x, g: np.exp(np.log(g.degree).mean()), True),
        _law("sum of x - 3 mean of max", "graph", lambda x, g: x.sum() - 3 * over_neighbors(np.maximum, x, g).mean()),
        _law("largest closed mean", "graph", lambda x, g: (closed_sums(x, g) / (g.degree + 1)).max()),
        _law("set 1.7 rms", "set", lambda x: 1.7 * np.sqrt(np.square(x).mean())),
        _law("set rms - min", "set", lambda x: np.sqrt(np.square(x).mean()) - x.min()),
        _law("set harmonic sum", "set", lambda x: 1 / (1 / x).sum()),
        _law("node rms", "node", lambda x, g: np.sqrt(over_neighbors(np.add, np.square(x), g) / g.degree)),
        _law("node sum of means", "node", lambda x, g: over_neighbors(np.add, means(x, g), g)),
    )
}
OFTEN = (
    "max of sums",
    "harmonic",
    "sum of maxima",
    "set range",
    "set geometric",
    "node min",
    "set median",
    "triangles",
    "noise",
)
PAPER = {name: get_task(name) for name in ("mu_post", "mu_map", "sigma2_post", "bfs")}  # LAWS has the other tasks
PAPER_OUTSIDE = {name: get_task(name) for name in ("sigma2_map", "shortest")}
GROUPS: dict[str, Mapping[str, Law | Task]] = {
    "inside": INSIDE,
    "classes": CLASSES,
    "inside, kept back": KEPT_BACK,
    "outside": OUTSIDE,
    "outside, kept back": OUTSIDE_KEPT_BACK,
    "nothing": NOTHING,
    "paper": PAPER,
    "paper, outside": PAPER_OUTSIDE,
}
ALL: dict[str, Law | Task] = {name: law for group in GROUPS.values() for name, law in group.items()}


def draw(law: Law | Task, part: str, count: int, sizes: tuple[int, int], seed: int) -> list[Data]:
    """Graphs, sets or graphs with targets of nodes, determined by the seed and the names."""
    if isinstance(law, Task):
        return of_task(law, part, count, sizes, seed)
    stream = Stream("found", law.name, part, seed)
    found = []
    for k in range(count):
        nodes = stream.integer(*sizes)
        dense = sizes[1] <= 160
        probability = PROBABILITIES[k % len(PROBABILITIES)] if dense else MEAN_DEGREE / (nodes - 1)
        graph = None if law.level == "set" else connected_er(nodes, probability, stream)
        x = np.ones(nodes) if law.ones else stream.uniform(nodes)
        y = torch.tensor(np.atleast_1d(law.label(x, graph)), dtype=torch.float64)
        edges = None if graph is None else torch.from_numpy(graph.edges)
        found.append(Data(x=torch.from_numpy(x[:, None]).float(), edge_index=edges, y=y))
    return found


def of_task(task: Task, part: str, count: int, sizes: tuple[int, int], seed: int) -> list[Data]:
    """Data of a task of the paper; larger graphs keep their number of neighbours."""
    split = "train" if part == "train" else "test"
    degree = MEAN_DEGREE if task.structures and sizes[1] > 160 else None
    return task.dataset(split, seed=seed, count=count, sizes=sizes, mean_degree=degree)


def outcome(name: str, noise: float, seed: int) -> dict[str, Any]:
    """Run ``find_law`` on one draw, and measure its error at larger sizes."""
    law = ALL[name]
    graphs = draw(law, "train", COUNT[law.level], SIZES, seed)
    random = np.random.default_rng([seed, round(100 * noise), list(ALL).index(name)])
    for graph in graphs:
        graph.y = noisy(graph.y, name, noise, random)
    began = time.monotonic()
    found = find_law(graphs, level=law.level, classes=name in CLASSES)
    seconds = time.monotonic() - began
    errors, count = {}, LARGER_CLASSES if name in CLASSES and law.level != "node" else LARGER
    for factor in FACTORS if found.law is not None and name not in NOTHING else ():
        larger = draw(law, f"{factor} times", count, (SIZES[0] * factor, (SIZES[1] - 1) * factor + 1), seed)
        y = np.concatenate([graph.y.numpy() for graph in larger])
        given = found.law.predict(larger)  # type: ignore[union-attr]  # there are no factors without a law
        errors[str(factor)] = float(
            (given != y).mean() if name in CLASSES else np.abs(given - y).mean() / np.abs(y).mean()
        )
    return {
        "law": name,
        "noise": noise,
        "seed": seed,
        "finder": VERSION,
        "verdict": found.verdict,
        "formula": str(found.law),
        "alternatives": len(found.alternatives),
        "left": found.noise,
        "factor": found.trusted_size / found.largest,
        "tolerance": found.tolerance,
        "apart": found.apart,
        "errors": errors,
        "seconds": round(seconds, 2),
    }


def noisy(y: torch.Tensor, name: str, noise: float, random: np.random.Generator) -> torch.Tensor:
    """Labels with noise: relative for numbers, another class for classes, and noise alone for targets without a law."""
    strength = torch.from_numpy(random.standard_normal(y.numel()))
    if name in NOTHING:
        return strength
    if name in CLASSES:
        other = torch.from_numpy(random.random(y.numel())) < noise
        return torch.where(other, 1 - y, y)
    return y * (1 + noise * strength)


def right(run: dict[str, Any]) -> bool:
    """Whether a run found the same function."""
    exact, off = (EXACT_CLASSES, NOISY_CLASSES) if run["law"] in CLASSES else (EXACT, NOISY)
    return bool(run["errors"]) and run["errors"]["16"] <= (off if run["noise"] else exact)


def trusted(run: dict[str, Any]) -> bool:
    """Whether the true error is within the stated tolerance at all sizes up to the stated size."""
    return all(error <= run["tolerance"] for factor, error in run["errors"].items() if int(factor) <= run["factor"])


def plan() -> Iterator[Job]:
    """Every draw of the study: the first seeds of all laws, then all seeds of the laws with many, then the rest."""
    rest = [name for name in ALL if name not in OFTEN]
    for names, seeds in ((ALL, range(FIRST)), (OFTEN, range(FIRST, MANY)), (rest, range(FIRST, FEW))):
        for seed, name in itertools.product(seeds, names):
            yield from ((name, noise, seed) for noise in ((0.0,) if name in NOTHING else (0.0, NOISE)))


def stored(path: Path) -> dict[Job, dict[str, Any]]:
    """The outcomes of this version of the finder in a file, by draw."""
    return {job_of(run): run for run in read_runs(path) if run.get("finder", 1) == VERSION}


def job_of(run: dict[str, Any]) -> Job:
    """The draw that an outcome belongs to."""
    return run["law"], run["noise"], run["seed"]


def one_thread() -> None:
    """Prepare a process: one thread, and only the parent stops it."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def outcomes(jobs: Sequence[Job], processes: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The outcomes as they come; after ``seconds``, running draws are stopped."""
    until = time.monotonic() + seconds
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # read by the new processes when they import NumPy
    with multiprocessing.get_context("spawn").Pool(processes, one_thread) as pool:
        coming = pool.imap_unordered(outcome_of, jobs)
        for _ in jobs:
            try:
                yield coming.next(max(0.0, until - time.monotonic()) if math.isfinite(seconds) else None)
            except multiprocessing.TimeoutError:
                return


def outcome_of(job: Job) -> dict[str, Any]:
    """Call :func:`outcome` with one argument."""
    return outcome(*job)


def in_order(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outcomes sorted by law, noise and seed."""
    return sorted(runs, key=lambda run: (list(ALL).index(run["law"]), run["noise"], run["seed"]))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="file for all outcomes, old and new")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes with one thread each")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time limit")
    parser.add_argument("--groups", nargs="*", choices=list(GROUPS), default=list(GROUPS), help="groups of laws to run")
    given = parser.parse_args()
    runs = stored(RESULTS) | stored(given.out)
    wanted = {name for group in given.groups for name in GROUPS[group]}
    jobs = [job for job in plan() if job not in runs and job[0] in wanted]
    total, written = len(runs) + len(jobs), time.monotonic()
    for run in outcomes(jobs, given.jobs, given.seconds):
        runs[job_of(run)] = run
        if time.monotonic() - written > WRITTEN:
            write_runs(given.out, in_order(runs.values()))
            written = time.monotonic()
            print(f"{len(runs)} of {total}", flush=True)
    write_runs(given.out, in_order(runs.values()))
    print(f"{len(runs)} of {total}", flush=True)


if __name__ == "__main__":
    main()
