"""Make example data: random graphs in three CSV files, with their number of edges as the target.

python examples/own_data.py edges            # 200 graphs of 5 to 40 nodes; the largest fifth is kept for the test
gnpool fit edges --out edges-fit             # finds the sum of the sum, from the data alone
python examples/own_data.py larger --low 100 --high 200 --graphs 50
gnpool predict edges-fit/model larger -o larger.csv
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path


def random_edges(nodes: int, probability: float, generator: random.Random) -> list[tuple[int, int]]:
    """Each pair of nodes with the same probability."""
    return [(u, v) for v in range(nodes) for u in range(v) if generator.random() < probability]


def write(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def make(folder: Path, graphs: int, low: int, high: int, seed: int) -> None:
    """The tables ``graphs``, ``nodes`` and ``edges``."""
    generator = random.Random(seed)  # noqa: S311 -- not for secrets
    sizes = [generator.randint(low, high) for _ in range(graphs)]
    edges = [random_edges(nodes, generator.uniform(0.1, 0.5), generator) for nodes in sizes]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "graphs.csv", ["graph", "y"], ((f"g{k}", len(found)) for k, found in enumerate(edges)))
    write(
        folder / "nodes.csv", ["graph", "node"], ((f"g{k}", v) for k, nodes in enumerate(sizes) for v in range(nodes))
    )
    write(
        folder / "edges.csv",
        ["graph", "source", "target"],
        ((f"g{k}", u, v) for k, found in enumerate(edges) for u, v in found),
    )


def main() -> None:
    """Read the options and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the three files are written")
    parser.add_argument("--graphs", type=int, default=200, help="number of graphs (%(default)s)")
    parser.add_argument("--low", type=int, default=5, help="nodes of the smallest graph (%(default)s)")
    parser.add_argument("--high", type=int, default=40, help="nodes of the largest graph (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="where random numbers start (%(default)s)")
    options = parser.parse_args()
    make(options.folder, options.graphs, options.low, options.high, options.seed)
    print(f"wrote {options.folder}/graphs.csv, nodes.csv and edges.csv: {options.graphs} graphs")


if __name__ == "__main__":
    main()
