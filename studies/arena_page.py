"""The tables of docs/arena.md: published numbers from their JSON, parts of the benchmarks, and the quick study.

python -m studies.arena_page           # writes them into the page
python -m studies.arena_page --check   # fails if the page is out of step
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

from gnpool.tasks.arena import (
    Benchmark,
    PublishedTable,
    Score,
    benchmark_names,
    get_benchmark,
    published,
    published_tables,
)
from gnpool.tasks.arena.motif import CEILING
from studies import arena_motif
from studies.files import read_runs
from studies.tables import table

PAGE = Path(__file__).parents[1] / "docs" / "arena.md"
RESULTS = Path(__file__).parents[1] / "results" / "learned" / arena_motif.OUT.name
BEGIN, END = "<!-- arena:{} -->\n", "<!-- arena:end -->"
CHOSEN_BY = ("shifted graphs", "graphs of training sizes")  # in the order of the rules of the study
MANY = 6  # parts
REPORTED = "°"  # behind a number that was not checked


def digits(values: Iterable[float]) -> int:
    """Decimals that all of the values need."""
    return max(len(f"{value:g}".partition(".")[2]) for value in values)


def number(score: Score, of_mean: int, of_std: int) -> str:
    """A published number as it is printed, with its deviation and its mark."""
    text = f"{score.mean:.{of_mean}f}"
    if score.std is not None:
        text += f" ± {score.std:.{of_std}f}"
    return text if score.mark == "verified" else f"{text}{REPORTED}"


def column_of(found: PublishedTable, column: str) -> dict[str, str]:
    """The cells of a column by method, the best number in bold."""
    scores = {method: row[column] for method, row in found.rows.items() if column in row}
    of_mean = digits(score.mean for score in scores.values())
    of_std = digits([0.0, *(score.std for score in scores.values() if score.std is not None)])
    best = found.best(column)
    cells = {}
    for method, score in scores.items():
        text = number(score, of_mean, of_std)
        wins = best is not None and score.mean == best[1].mean and method not in found.references
        cells[method] = f"**{text}**" if wins else text
    return cells


def published_table(found: PublishedTable) -> str:
    """One benchmark: methods as rows."""
    columns = [column_of(found, column) for column in found.columns]
    rows = [[method, *(cells.get(method, "") for cells in columns)] for method in found.rows]
    return table(["", *found.columns], rows)


def notes_of(found: PublishedTable) -> str:
    """The notes of all numbers, each once, with the places it belongs to."""
    places: dict[str, list[str]] = {}
    for method, row in found.rows.items():
        for column, score in row.items():
            if score.note:
                places.setdefault(score.note, []).append(f"{method} ({column})")
    return " ".join(f"{', '.join(where)}: {note}." for note, where in places.items())


def published_block(name: str) -> str:
    """The table of a benchmark under its title, or the line that there is none."""
    found = published(name)
    source = f"[{found.source['title']}]({found.source['link']}) ({found.source['year']}); {found.source['read']}."
    head = f"**{found.title}**, {found.metric}."
    if not found.rows:
        return f"{head} No published number was established."
    ceiling = "" if found.ceiling is None else f" No method can do better than {found.ceiling:g}."
    lines = [f"{head}{ceiling} {source}", published_table(found)]
    if notes := notes_of(found):
        lines.append(notes)
    return "\n\n".join(lines)


def parts_of(benchmark: Benchmark) -> str:
    """The number of graphs of each part; of many tests their number and that of their graphs."""
    named = [f"`{part}` {one.count:,}" for part, one in benchmark.parts.items()]
    if len(named) <= MANY:
        return ", ".join(named)
    counts = sorted({one.count for one in list(benchmark.parts.values())[2:]})
    of_tests = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"{', '.join(named[:2])}, {len(named) - 2} tests of {of_tests}"


def parts_block() -> str:
    """All benchmarks."""
    rows = [
        [f"`{benchmark.name}`", benchmark.target, benchmark.metric, parts_of(benchmark)]
        for benchmark in map(get_benchmark, benchmark_names())
    ]
    return table(["benchmark", "label", "score", "graphs"], rows)


def quick_block() -> str:
    """What the quick study found, beside what is published."""
    rows = []
    for found in read_runs(RESULTS):
        cells = []
        for rule in arena_motif.RULES:
            scores = arena_motif.accuracies(found, rule)
            spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
            cells.append(f"{statistics.mean(scores):.1f}{spread}")
        inside = arena_motif.accuracies(found, "inside", "id_test")
        rows.append([found["pooling"], *cells, f"{statistics.mean(inside):.1f}", str(len(scores))])
    if not rows:
        return "Not run yet."
    best = published(arena_motif.BENCHMARK).best("covariate", mark="verified")
    assert best is not None
    head = ["aggregation/readout", *(f"chosen by {words}" for words in CHOSEN_BY), "training sizes", "choices"]
    text = table(head, rows)
    return (
        f"{text}\n\nThe best published number that was checked is {best[1].mean:g} ± {best[1].std:g} ({best[0]}, with "
        f"18,000 training graphs and ten runs). The ceiling is {100 * CEILING:.1f}."
    )


def blocks() -> dict[str, str]:
    """All generated blocks by name."""
    return {
        "parts": parts_block(),
        "quick": quick_block(),
        "published": "\n\n".join(published_block(name) for name in published_tables()),
    }


def filled(page: str) -> str:
    """The page with every block between its marks written anew."""
    for name, text in blocks().items():
        begin = BEGIN.format(name)
        head, found, rest = page.partition(begin)
        if not found:
            raise ValueError(f"docs/arena.md has no block {name!r}")
        page = f"{head}{begin}\n{text}\n\n{END}{rest.partition(END)[2]}"
    return page


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if the page is out of step")
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page)
    if given.check and new != page:
        sys.exit("docs/arena.md is out of step: run python -m studies.arena_page")
    if new != page:
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
