"""The record of the paper's numbers as blocks of Markdown: what the README and the documentation show of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gnpool.display.models import CRYSTAL, GNP, MODEL_COLUMN
from gnpool.report.grids import number
from gnpool.report.markdown.tables import plain, table_blocks
from gnpool.report.page.headline import HIGHER
from gnpool.report.page.runs import duration
from gnpool.report.page.tables import FORMS, Cell, Result, shown
from gnpool.report.verdicts import GOOD, Counts, by_kind, count, is_compared, is_gnp, word_of

GIVEN = ("graphcl_", "im_", "real_")  # tables on given data; all others are on generated data
# Rows of the headline: the table, and the row or column that is the task where it has several.
HEADLINE = (
    ("exp_graph_invsize", None),
    ("exp_graph_harmonic", None),
    ("exp_graph_maxdegree", None),
    ("node_a", "bfs"),
    ("node_a", "shortest"),
    ("set", "mu_post"),
    ("set", "sigma2_post"),
    ("set", "mu_map"),
    ("set", "sigma2_map"),
)
Lines = Iterable[Sequence[str]]


def record_blocks(record: Mapping[str, Any]) -> dict[str, str]:
    """Every block by its name, from what :func:`gnpool.lab.record.record` found."""
    tables = record["tables"]
    return {
        "headline": headline_block(tables),
        "counts": counts_block(tables),
        "verdicts": verdicts_block(tables),
        "differing": differing_block(tables),
        "cells": cells_block(tables),
        "origin": origin_block(tables),
        "cost": cost_block(record["cost"], tables),
        "form": form_block(tables),
        "spread": spread_block(tables, record["spread"]),
    }


def headline_block(tables: Sequence[Result]) -> str:
    """For each task the best other model, GNP of the paper, ours, and ours crystallised."""
    lines = [["task", "best other model, paper", "best other model, ours", "GNP, paper", "GNP, ours", r"GNP\*, ours"]]
    found = {str(table["table"]): table for table in tables}
    for name, task in HEADLINE:
        cells = [c for c in found[name]["cells"] if task is None or task in (c["row"], c["column"])]
        rivals = [cell for cell in cells if not is_gnp(cell)]
        (learned,) = [cell for cell in cells if _kind(cell) == GNP]
        (crystal,) = [cell for cell in cells if _kind(cell) == CRYSTAL]
        paper = min(rivals, key=lambda cell: float(cell["paper"]["mean"]))
        run = [cell for cell in rivals if cell["ours"] is not None]
        best = min(
            (c for c in run if c["ours"]["mean"] is not None), key=lambda c: float(c["ours"]["mean"]), default=None
        )
        ours = "not run" if best is None else f"{_model(best)}: {shown(best).ours}"
        if best is not None and len(run) < len(rivals):
            ours += f" ({len(run)} of {len(rivals)} run)"
        exact = "not run" if crystal["ours"] is None else shown(crystal).ours
        unit = "" if learned["metric"] == "MAPE" else f" ({learned['metric']})"
        lines.append(
            [
                f"{task or name.removeprefix('exp_graph_')}{unit}",
                plain(f"{_model(paper)}: {shown(paper).paper}"),
                plain(ours),
                str(shown(learned).paper),
                shown(learned).ours,
                f"**{exact}**" if _not_worse(crystal, learned) else exact,
            ]
        )
    return _table(lines)


def counts_block(tables: Sequence[Result]) -> str:
    """In a few sentences, how much was run and how it compares."""
    cells = [cell for table in tables for cell in table["cells"]]
    errors = [cell for table in _generated(tables) for cell in table["cells"]]
    everything, generated, gnp = count(cells), count(errors), by_kind(errors)[GNP]
    lenient = [cell for cell in errors if _is_lenient(cell)]
    excused = sum(bool(cell.get("excused")) and word_of(cell) not in GOOD for cell in cells)
    rest = f" By deviations alone, {excused} more would be matched." if excused else ""
    if everything.run == everything.total:
        start, of = f"All {everything.total} numbers of the paper that have a deviation were run", ""
    else:
        start = f"Of the paper's {everything.total} numbers with a deviation {everything.run} were run"
        of = " of what was run"
    return (
        f"{start}: {everything}. On generated data {_share(generated)}{of} are matched, better, or fail in both, and "
        f"of GNP's own {_share(gnp)}.{_without(lenient, generated, gnp)}{_on_given(tables)}{rest}"
    )


def _is_lenient(cell: Cell) -> bool:
    """Whether something worse than the paper's is matched by our own deviation only."""
    if cell.get("strict", True):
        return False
    ours, paper = float(cell["ours"]["mean"]), float(cell["paper"]["mean"])
    return ours < paper if cell["metric"] in HIGHER else ours > paper


def _on_given(tables: Sequence[Result]) -> str:
    """The same of real graphs, graph classification and influence."""
    given = [cell for table in tables if table not in _generated(tables) for cell in table["cells"]]
    everything, gnp = count(given), by_kind(given)[GNP]
    if not everything.run:
        return ""
    lenient = [cell for cell in given if _is_lenient(cell)]
    start = f" On given data it is {_share(everything)}, and of GNP's own {_share(gnp)}"
    if not lenient:
        return f"{start}."
    mine = sum(map(is_gnp, lenient))
    return f"{start}, {len(lenient)} of the {everything.good} ({mine} of GNP's) by our own deviation only."


def _without(lenient: Sequence[Cell], generated: Counts, gnp: Counts) -> str:
    if not lenient:
        return ""
    parts = ((generated, len(lenient)), (gnp, sum(map(is_gnp, lenient))))
    left, learned = (f"{number(100 * (counts.good - less) / counts.run, 1)} %" for counts, less in parts)
    return (
        f" {len(lenient)} of these have a larger error than the paper's and are matched by our own, larger deviation "
        f"only; by the published deviations it would be {left}, and {learned} of GNP's."
    )


def verdicts_block(tables: Sequence[Result]) -> str:
    """The number of cells by verdict, table by table."""
    words = list(count([]).words)
    lines = [["table", "cells of", "published", *words]]
    totals: dict[str, list[Cell]] = {}
    for table in tables:
        for kind, counts in by_kind(table["cells"]).items():
            if counts.total:
                lines.append([plain(table["table"]), kind, *_numbers(counts)])
                totals.setdefault(kind, []).extend(cell for cell in table["cells"] if is_gnp(cell) == (kind == GNP))
    for kind, cells in totals.items():
        lines.append(["**all**", kind, *_numbers(count(cells))])
    lines.append(["**all**", "both", *_numbers(count(cell for cells in totals.values() for cell in cells))])
    return _table(lines)


def differing_block(tables: Sequence[Result]) -> str:
    """Every cell that is worse, or whose outcome is another one."""
    lines = [["table", "row", "column", "paper", "ours", "interval", "verdict"]]
    for word in ("worse", "different outcome"):
        for table in tables:
            for cell in table["cells"]:
                if is_compared(cell) and word_of(cell) == word:
                    words = shown(cell)
                    place = [plain(table["table"]), plain(cell["row"]), plain(cell["column"])]
                    lines.append([*place, str(words.paper), words.ours, words.interval or "", word])
    return _table(lines) if len(lines) > 1 else "None."


def cells_block(tables: Sequence[Result]) -> str:
    """Every table, every published cell; cells that are not published, where they were run."""
    blocks = []
    for table in tables:
        kept = [cell for cell in table["cells"] if cell["paper"] is not None or cell["ours"] is not None]
        blocks += table_blocks({**table, "cells": kept})
    return "\n\n".join(blocks)


def origin_block(tables: Sequence[Result]) -> str:
    """For each table its command, and the commits, machines, units and seconds behind its numbers."""
    machines = sorted({words for table in tables for words, _ in table["origin"]["machines"]})
    letter = {words: chr(ord("A") + place) for place, words in enumerate(machines)}
    lines = [["table", "command", "commits", "machines", "units", "seconds"]]
    for table in tables:
        origin = table["origin"]
        where = ", ".join(f"{letter[words]} ({units})" for words, units in origin["machines"])
        units = f"{origin['units']} of {origin['of']}"
        command, commits = f"`{origin['command']}`", ", ".join(origin["commits"])
        ways = Counter(str(cell["search"]) for cell in table["cells"] if "search" in cell)
        command += "".join(f"; `--search {way}` for {n} of its cells" for way, n in sorted(ways.items()))
        lines.append([plain(table["table"]), command, commits, where, units, f"{origin['seconds']:,.0f}"])
    return "\n".join([_table(lines), "", *(f"- {letter[words]}: {plain(words)}" for words in machines)])


def cost_block(cost: Mapping[str, Any], tables: Sequence[Result]) -> str:
    """What the record took, on the machines that were used, and what the quick preset takes."""
    run = count(cell for table in tables for cell in table["cells"]).run
    lines = [
        f"- {plain(device)}: {entry['units']:,.0f} units, {duration(entry['seconds'])} ({entry['seconds']:,.0f} s)"
        for device, entry in cost["units"].items()
    ]
    held = cost["held"]
    if held["count"]:
        times = f"{held['count']} times" if held["count"] > 1 else "once"
        seconds = held["seconds"]
        lines.append(f"- the GPU machine, held {times}, from start to end: {duration(seconds)} ({seconds:,.0f} s)")
    quick = cost["quick"]
    lines.append(
        "- the quick preset: not measured yet"
        if quick is None
        else f"- the quick preset, `{quick['command']}`: {duration(quick['seconds'])} on {plain(quick['device'])}"
    )
    return "\n".join([f"For {run} published cells, and what stands beside them:", "", *lines])


def form_block(tables: Sequence[Result]) -> str:
    """What graph networks come to in each of their two forms, and what validation makes of it."""
    named = [(table, cell) for table in tables for cell in table["cells"] if is_compared(cell) and "forms" in cell]
    both = [(table, cell) for table, cell in named if len(cell["forms"]) == len(FORMS)]
    if not both:
        return "Nothing was run in both forms yet."
    lines = [["table", "row", "column", "paper", *FORMS.values(), "validation chooses", "verdicts"]]
    told: list[list[Any]] = []
    for table, cell in both:
        forms = [{**cell, **cell["forms"][form]} for form in FORMS]
        same = [cell["paper"], *(one["ours"]["runs"] for one in forms)]
        if is_gnp(cell) and same in told:  # what several tables have
            continue
        told.append(same)
        values = [shown(cell).paper or "", *(shown(one).ours for one in forms), FORMS[cell["form"]]]
        words = ", then ".join(dict.fromkeys(map(word_of, forms)))
        lines.append([plain(table["table"]), plain(cell["row"]), plain(cell["column"]), *values, words])
    parts = {"of GNP": [c for _, c in both if is_gnp(c)], "of baselines": [c for _, c in both if not is_gnp(c)]}
    good = "; ".join(f"{words} {_good_by_form(cells)}" for words, cells in parts.items() if cells)
    missing = Counter(str(table["table"]) for table, cell in named if len(cell["forms"]) < len(FORMS))
    one = ", ".join(f"{n} of {plain(name)}" for name, n in missing.items())
    rest = f" Of {sum(missing.values())} more only one form was run ({one})." if missing else ""
    taken = sum(cell["form"] == "gin" for _, cell in both)
    return (
        f"{len(both)} published cells were run in both forms, and validation chooses GIN's for {taken} of them. "
        f"Matched, better, or failing in both are: {good}.{rest} Cells of GNP that several tables have stand here once."
        f"\n\n{_table(lines)}"
    )


def _good_by_form(cells: Sequence[Cell]) -> str:
    first, gin = (sum(cell["forms"][form]["verdict"] in GOOD for cell in cells) for form in FORMS)
    chosen = sum(word_of(cell) in GOOD for cell in cells)
    return f"{first} of {len(cells)} with messages first, {gin} in GIN's form, and {chosen} as validation chooses"


def spread_block(tables: Sequence[Result], spread: Mapping[int, Sequence[Result]]) -> str:
    """Tables on other data beside the record: both means, both verdicts.

    A table that only repeats cells of those before it, as one of GNP alone does, is left out.
    """
    blocks: list[str] = []
    first = {(t["table"], c["row"], c["column"]): c for t in tables for c in t["cells"]}
    for seed, others in spread.items():
        told: set[tuple[str, ...]] = set()
        for table in others:
            lines = [["row", "column", "paper", "data seed 0", f"data seed {seed}", "verdicts"]]
            cells = [(first[table["table"], cell["row"], cell["column"]], cell) for cell in table["cells"]]
            pairs = [_alike(one, other) for one, other in cells]
            for one, other in pairs:
                if one["ours"] is not None and other["ours"] is not None:
                    words = dict.fromkeys(word_of(cell) for cell in (one, other) if word_of(cell))
                    place = [plain(other["row"]), plain(other["column"])]
                    both = [shown(cell).ours for cell in (one, other)]
                    lines.append([*place, shown(other).paper or "", *both, ", then ".join(words)])
            values = {tuple(line[2:]) for line in lines[1:]}
            if values <= told:
                continue
            told |= values
            same = sum(word_of(one) == word_of(other) for one, other in pairs if is_compared(one) and other["ours"])
            compared = sum(bool(is_compared(one) and other["ours"]) for one, other in pairs)
            lone = any(len(cell.get("forms") or FORMS) < len(FORMS) for pair in cells for cell in pair)
            note = " Where either data has one form of a network only, both columns show that form." if lone else ""
            title = f"### {plain(table['table'])}, data seed {seed}"
            blocks += [title, f"The same verdict in {same} of {compared} cells.{note}", _table(lines)]
    return "\n\n".join(blocks) if blocks else "No table was run on other data yet."


def _alike(one: Cell, other: Cell) -> tuple[Cell, Cell]:
    """Two cells to compare: if one was run in one form of the network only, the other in that form, too."""
    forms = [cell.get("forms") or {} for cell in (one, other)]
    shared = [form for form in forms[0] if form in forms[1]]
    if len(shared) == 1:
        one, other = ({**cell, **told[shared[0]]} for cell, told in zip((one, other), forms, strict=True))
    return one, other


def _generated(tables: Sequence[Result]) -> list[Result]:
    return [table for table in tables if not str(table["table"]).startswith(GIVEN)]


def _share(counts: Counts) -> str:
    percent = f" ({number(100 * counts.good / counts.run, 1)} %)" if counts.run else ""
    return f"{counts.good} of {counts.run}{percent}"


def _numbers(counts: Counts) -> Iterator[str]:
    yield str(counts.total)
    yield from (str(n or "") for n in counts.words.values())


def _not_worse(crystal: Cell, learned: Cell) -> bool:
    ours, theirs = ((cell["ours"] or {}).get("mean") for cell in (crystal, learned))
    return ours is not None and theirs is not None and ours <= theirs


def _kind(cell: Cell) -> str:
    """GNP or GNP*, wherever in the names of a cell it stands; nothing for other models and other readings."""
    if "/" in str(cell["column"]):
        return ""
    names = [str(cell[axis]).rpartition("/")[2] for axis in ("row", "column")]
    return next((form for form in (CRYSTAL, GNP) if form in names), "")


def _model(cell: Cell) -> str:
    """The name of a baseline: aggregation and readout, a model beside the grid, or the pooling of a row or column."""
    row, column = str(cell["row"]), str(cell["column"])
    if column == MODEL_COLUMN:
        return row
    if row in ("bfs", "shortest"):
        return column
    return f"{column},{row}" if "/" not in row and row != "set_transformer" else row


def _table(lines: Lines) -> str:
    head, *rows = [list(line) for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])
