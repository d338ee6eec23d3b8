"""The tables of docs/arena.md (parts of the benchmarks) and docs/arena-results.md (our results, published numbers).

python -m studies.arena_page           # draws the picture and writes the tables into the pages
python -m studies.arena_page --check   # fails if a page is out of step
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gnpool.lab.arena import TABLES
from gnpool.tasks.arena import (
    Benchmark,
    PublishedTable,
    Score,
    benchmark_names,
    get_benchmark,
    published,
    published_tables,
)
from studies import arena, arena_recipe
from studies.arena_figure import PICTURE, draw
from studies.arena_scores import Found, best_published, fullest, of_ours
from studies.files import read_runs
from studies.tables import table

PAGES = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parents[1] / "results" / "learned"
BEGIN, END = "<!-- arena:{} -->\n", "<!-- arena:end -->"
MANY = 6  # up to this many parts are listed by name
REPORTED = "°"  # marks a number that was not checked


def digits(values: Iterable[float]) -> int:
    """The number of decimals that all of the values need."""
    return max(len(f"{value:g}".partition(".")[2]) for value in values)


def number(score: Score, of_mean: int, of_std: int) -> str:
    """A published number as text, with its deviation and its mark."""
    text = f"{score.mean:.{of_mean}f}"
    if score.std is not None:
        text += f" ± {score.std:.{of_std}f}"
    return text if score.mark == "verified" else f"{text}{REPORTED}"


def column_of(found: PublishedTable, column: str) -> dict[str, str]:
    """The cells of a column by method, with the best number in bold."""
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
    """The table of one benchmark, with methods as rows."""
    columns = [column_of(found, column) for column in found.columns]
    rows = [[method, *(cells.get(method, "") for cells in columns)] for method in found.rows]
    return table(["", *found.columns], rows)


def notes_of(found: PublishedTable) -> str:
    """The notes on all numbers, each once, with the places that it belongs to."""
    places: dict[str, list[str]] = {}
    for method, row in found.rows.items():
        for column, score in row.items():
            if score.note:
                places.setdefault(score.note, []).append(f"{method} ({column})")
    return " ".join(f"{', '.join(where)}: {note}." for note, where in places.items())


def published_block(name: str) -> str:
    """The table of a benchmark under its title, or a line that says that there is none."""
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
    """The number of graphs of each part; for many tests, their number and the number of their graphs."""
    named = [f"`{part}` {one.count:,}" for part, one in benchmark.parts.items()]
    if len(named) <= MANY:
        return ", ".join(named)
    counts = sorted({one.count for one in list(benchmark.parts.values())[2:]})
    of_tests = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"{', '.join(named[:2])}, {len(named) - 2} tests of {of_tests}"


def parts_block() -> str:
    """The tables of all benchmarks."""
    rows = [
        [f"`{benchmark.name}`", benchmark.target, benchmark.metric, parts_of(benchmark)]
        for benchmark in map(get_benchmark, benchmark_names())
    ]
    return table(["benchmark", "label", "score", "graphs"], rows)


def headline_block() -> str:
    """The picture, and a line for each benchmark."""
    tables = fullest(read_runs(RESULTS / arena.OUT.name))
    if not tables:
        return "Nothing has been run yet."
    words = "Published algorithms, fixed pairs of poolings, GNP, and the ceiling, benchmark by benchmark"
    lines = [line_of(found) for found in of_ours(tables)]
    left = [name for name in TABLES if name not in {one["table"] for one in tables}]
    if left:
        lines.append(f"Not run: {', '.join(f'`{name}`' for name in left)}.")
    return "\n".join([f"![{words}](figures/{PICTURE.name})", "", *(f"- {line}" for line in lines)])


def line_of(found: Found) -> str:
    """The result of a benchmark in a sentence or two; if a fixed pair is enough, this comes first."""
    head = f"`{found.table}`{'' if found.column == found.first else f', {found.column}'}"
    parts = []
    if found.fixed is not None and found.ours is not None:
        if not found.ahead:
            parts.append(f"a fixed pooling is enough: {named(found.fixed)}, beside {named(found.ours)}.")
        else:
            parts.append(f"{named(found.ours)}, best fixed pair {named(found.fixed)}.")
    elif found.ours is not None:
        parts.append(f"{named(found.ours)}; no fixed pair has been run.")
    else:
        parts.append("GNP has not been run.")
    if found.published is not None:
        parts.append(f"Best published: {found.published[1]:g} ({found.published[0]}).")
    if found.ceiling is not None:
        parts.append(f"Ceiling: {found.ceiling:g}.")
    if found.preset != "paper":
        parts.append(f"Only the `{found.preset}` preset has been run.")
    elif found.wanted is not None and found.ours is not None:
        reached = found.ours[1] >= found.wanted if found.higher else found.ours[1] <= found.wanted
        parts.append(f"Wanted {found.wanted:g}: {'reached' if reached else 'missed'}.")
    return f"{head}: {' '.join(parts)}"


def named(place: tuple[str, float]) -> str:
    """A row and its mean."""
    return f"{place[0]} {place[1]:.2f}" if abs(place[1]) < 10 else f"{place[0]} {place[1]:.1f}"


def results_block() -> str:
    """Every table that has been run."""
    tables = fullest(read_runs(RESULTS / arena.OUT.name))
    return "\n\n".join(map(result_table, tables)) if tables else "Nothing has been run yet."


def result_table(one: dict[str, Any]) -> str:
    """A table of our results: contenders as rows, with deviations and intervals, and paired differences below."""
    ours = [cell for cell in one["cells"] if cell["ours"] is not None]
    columns = list(dict.fromkeys(cell["column"] for cell in ours))
    cells = {(cell["row"], cell["column"]): cell for cell in ours}
    rows = [
        [row, *(score(cells[row, column]) if (row, column) in cells else "" for column in columns)]
        for row in dict.fromkeys(cell["row"] for cell in ours)
    ]
    meta = one["meta"]
    text = f"**`{one['table']}`**, {one['metric'].lower()}. {meta['notes']}; {meta.get('device', '')}."
    best = [f"{column} {found[1]:g} ({found[0]})" for column in columns if (found := best_published(one, column))]
    parts = [text, table(["", *columns], rows)]
    parts += [f"Best published: {'; '.join(best)}."] if best else []
    gaps = [pair_line(pair) for pair in one["pairs"] if pair["column"] == columns[0] or one["table"] == "tu_size"]
    chosen = {cell["column"]: cell["choice"] for cell in ours if cell.get("choice")}
    if chosen:
        parts.append(f"Chosen: {'; '.join(f'{column} {row}' for column, row in chosen.items())}.")
    return "\n\n".join([*parts, "\n".join(gaps)] if gaps else parts)


def score(cell: dict[str, Any]) -> str:
    """Mean, deviation and interval as text."""
    ours = cell["ours"]
    if ours["mean"] is None:
        return f"all {ours['failed']} failed"
    digits = 1 if cell["metric"] == "PERCENT" else 2
    spread = f" ± {ours['std']:.{digits}f}" if ours["std"] is not None else ""
    failed = f", {ours['failed']} failed" if ours["failed"] else ""
    low, high = cell["interval"]
    return f"{ours['mean']:.{digits}f}{spread} ({low:.{digits}f} to {high:.{digits}f}{failed})"


def pair_line(pair: dict[str, Any]) -> str:
    """A paired difference as text, in units of the table."""
    low, high = (100 * end for end in pair["interval"])
    return (
        f"- {pair['column']}: {pair['second']} minus {pair['first']} {100 * pair['difference']:+.2f} "
        f"({low:+.2f} to {high:+.2f}, {pair['pairs']} seeds)"
    )


def recipe_block() -> str:
    """The table of each variant: accuracy on the base graph that it never saw, and on larger graphs."""
    accuracy: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
    for one in read_runs(RESULTS / arena_recipe.OUT.name):
        accuracy.setdefault((one["pooling"], one["graphs"]), {})[one["column"]] = one["accuracy"]
    rows = []
    for (pooling, graphs), mine in accuracy.items():
        if len(mine) < len(arena_recipe.COLUMNS):
            continue
        left = [mine[column]["left out"] for column in arena_recipe.COLUMNS]
        mean = statistics.fmean(map(statistics.fmean, left))
        cells = [f"{statistics.fmean(runs):.1f} ± {statistics.stdev(runs):.1f}" for runs in left]
        rows.append((mean, [pooling, graphs, *cells, f"{mean:.1f}"]))
    rows.sort(key=lambda row: -row[0])
    bases = [f"without {column}" for column in arena_recipe.COLUMNS[:-1]]
    return table(["poolings", "training graphs", *bases, "larger graphs", "mean"], [row for _, row in rows])


def blocks() -> dict[str, str]:
    """The generated blocks of the page on the benchmarks, by name."""
    return {"parts": parts_block(), "headline": headline_block()}


def result_blocks() -> dict[str, str]:
    """The generated blocks of the page of results, by name."""
    return {
        "results": results_block(),
        "recipe": recipe_block(),
        "published": "\n\n".join(published_block(name) for name in published_tables()),
    }


FILLED = {PAGES / "arena.md": blocks, PAGES / "arena-results.md": result_blocks}


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with every block between its marks rewritten."""
    for name, text in parts.items():
        begin = BEGIN.format(name)
        head, found, rest = page.partition(begin)
        if not found:
            raise ValueError(f"the page has no block {name!r}; add its marks to the page")
        page = f"{head}{begin}\n{text}\n\n{END}{rest.partition(END)[2]}"
    return page


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if a page is out of date")
    given = parser.parse_args()
    old = {path: path.read_text(encoding="utf-8") for path in FILLED}
    new = {path: filled(text, FILLED[path]()) for path, text in old.items()}
    if given.check:
        if behind := [path.name for path in FILLED if new[path] != old[path]]:
            sys.exit(f"out of step: {', '.join(behind)}; run: python -m studies.arena_page")
        return
    draw(fullest(read_runs(RESULTS / arena.OUT.name)))
    for path, text in new.items():
        if text != old[path]:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
