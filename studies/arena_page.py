"""The tables of docs/arena.md: published numbers from their JSON, parts of the benchmarks, and the quick study.

python -m studies.arena_page           # writes them into the page
python -m studies.arena_page --check   # fails if the page is out of step
"""

from __future__ import annotations

import argparse
import statistics
import sys
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


def number(score: Score) -> str:
    """A published number as it is printed, with its deviation and its mark."""
    text = f"{score.mean:g}" if score.std is None else f"{score.mean:g} ± {score.std:g}"
    return text if score.mark == "verified" else f"{text}{REPORTED}"


def published_table(found: PublishedTable) -> str:
    """One benchmark: methods as rows, the best number of each column in bold."""
    best = {column: one[0] for column in found.columns if (one := found.best(column)) is not None}
    rows = []
    for method, scores in found.rows.items():
        cells = [number(scores[column]) if column in scores else "" for column in found.columns]
        marked = [
            f"**{cell}**" if best.get(c) == method else cell for c, cell in zip(found.columns, cells, strict=True)
        ]
        rows.append([method, *marked])
    return table(["", *found.columns], rows)


def published_block(name: str) -> str:
    """The table of a benchmark under its title, or the line that there is none."""
    found = published(name)
    source = f"[{found.source['title']}]({found.source['link']}) ({found.source['year']}); {found.source['read']}."
    head = f"**{found.title}**, {found.metric}."
    if not found.rows:
        return f"{head} No published number was established."
    ceiling = "" if found.ceiling is None else f" No method can do better than {found.ceiling:g}."
    notes = sorted({f"{m}, {c}: {s.note}" for m, row in found.rows.items() for c, s in row.items() if s.note})
    lines = [f"{head}{ceiling} {source}", published_table(found)]
    if notes:
        lines.append(f"{'; '.join(notes)}.")
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
