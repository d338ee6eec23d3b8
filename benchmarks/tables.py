"""Measures how fast CSV tables are read, and whether the time is linear: ``python -m benchmarks.tables``.

Each shape is read at one and at two times its size; times are processor seconds of this process. Linear reading takes
twice as long for twice the size. The promise for plain text is 50 MB/s on one core.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gnpool.data.csv_columns import read_csv
from gnpool.data.files import Files


def mixed(rows: int) -> str:
    """Columns of names, integers, decimals and categories."""
    values = np.random.default_rng(0).random(rows).round(4).tolist()
    lines = (f"g{k // 20},{k % 20},{value},{'CNO'[k % 3]}\n" for k, value in enumerate(values))
    return "graph,node,mass,kind\n" + "".join(lines)


def digits(rows: int) -> str:
    """Numbers with all their digits."""
    values = np.random.default_rng(0).random(rows).tolist()
    return "graph,node,mass\n" + "".join(f"{k // 20},{k % 20},{value!r}\n" for k, value in enumerate(values))


def quoted(rows: int) -> str:
    """Quoted cells, which Python's reader takes."""
    return "graph,node,kind\n" + "".join(f'g{k // 20},{k % 20},"x{k % 7}"\n' for k in range(rows))


def wide(columns: int) -> str:
    """Many columns of numbers."""
    head = ",".join(["graph", "node", *(f"c{k}" for k in range(columns))])
    return "\n".join([head, *(",".join(["1", str(row), *["0.25"] * columns]) for row in range(20))]) + "\n"


def words(columns: int) -> str:
    """Many columns of text."""
    head = ",".join(["graph", "node", *(f"c{k}" for k in range(columns))])
    rows = (",".join(["1", str(r), *("abc"[(r + k) % 3] * 3 for k in range(columns))]) for r in range(20_000))
    return "\n".join([head, *rows]) + "\n"


SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "mixed": (mixed, 1_000_000),
    "all digits": (digits, 1_000_000),
    "quoted": (quoted, 250_000),
    "columns of numbers": (wide, 25_000),
    "columns of text": (words, 150),
}


def seconds(text: str) -> float:
    """Processor seconds to read a table."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "nodes.csv").write_text(text)
        begin = time.process_time()
        read_csv(Files(Path(folder)), "nodes.csv", ("graph", "node"), frozenset(), frozenset())
        return time.process_time() - begin


def main() -> None:
    """Print a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SHAPES)
    options = parser.parse_args()
    seconds(mixed(50_000))  # loads the kernels
    for name, (make, size) in SHAPES.items():
        if options.only in (None, name):
            texts = make(size), make(2 * size)
            one, two = map(seconds, texts)
            megabytes = len(texts[1]) / 1e6
            speed = f"{megabytes:.0f} MB in {two:.2f} s, {megabytes / two:.0f} MB/s"
            print(f"{name}: {speed}; twice the size, {two / one:.1f} times")


if __name__ == "__main__":
    main()
