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
from gnpool.report.verdicts import GOOD, WORDS, Counts, by_kind, count, is_compared, is_gnp, word_of

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
NO_SPREAD = "No table was run on other data yet."
NO_FORMS = "Nothing was run in both forms yet."
Lines = Iterable[Sequence[str]]


def record_blocks(record: Mapping[str, Any]) -> dict[str, str]:
    """Every block by its name, from what :func:`gnpool.lab.record.record` found."""
    tables = record["tables"]
    return {
        "headline": headline_block(tables, record["spread"]),
        "summary": summary_block(tables),
        "counts": counts_block(tables),
        "verdicts": verdicts_block(tables),
        "differing": differing_block(tables),
        "cells": cells_block(tables),
        "origin": origin_block(tables),
        "cost": cost_block(record["cost"], tables),
        "form_counts": form_counts_block(tables),
        "form": form_block(tables),
        "spread_counts": spread_counts_block(tables, record["spread"]),
        "spread": spread_block(tables, record["spread"]),
    }


def headline_block(tables: Sequence[Result], spread: Mapping[int, Sequence[Result]]) -> str:
    """For each task our best other model, GNP of the paper, ours, also on the last data seed, and ours crystallized."""
    seed = max(spread, default=None)
    lines = [["task", "best other model", "GNP in the paper", "GNP", *_of_seed(seed, f"data seed {seed}"), r"GNP\*"]]
    found = {str(table["table"]): table for table in tables}
    again = {} if seed is None else _cells(spread[seed])
    for name, task in HEADLINE:
        cells = [c for c in found[name]["cells"] if task is None or task in (c["row"], c["column"])]
        rivals = [cell for cell in cells if not is_gnp(cell)]
        (learned,) = [cell for cell in cells if _kind(cell) == GNP]
        (crystal,) = [cell for cell in cells if _kind(cell) == CRYSTAL]
        run = [cell for cell in rivals if cell["ours"] is not None]
        best = min(
            (c for c in run if c["ours"]["mean"] is not None), key=lambda c: float(c["ours"]["mean"]), default=None
        )
        ours = "not run" if best is None else f"{_model(best)}: {shown(best).ours}"
        if best is not None and len(run) < len(rivals):
            ours += f" ({len(run)} of {len(rivals)} run)"
        exact = "not run" if crystal["ours"] is None else shown(crystal).ours
        other = again.get((name, learned["row"], learned["column"]))
        drawn_anew = "not run" if other is None or other["ours"] is None else shown(other).ours
        anew = f" ({crystal['anew']})" if crystal.get("anew") else ""
        unit = "" if learned["metric"] == "MAPE" else f" ({learned['metric']})"
        lines.append(
            [
                f"{task or name.removeprefix('exp_graph_')}{unit}",
                plain(ours),
                str(shown(learned).paper),
                shown(learned).ours,
                *_of_seed(seed, drawn_anew),
                (f"**{exact}**" if _not_worse(crystal, learned) else exact) + anew,
            ]
        )
    return _table(lines)


def _of_seed(seed: int | None, text: str) -> list[str]:
    """The entry of a column that is there only if other data were run."""
    return [] if seed is None else [text]


def _cells(tables: Sequence[Result]) -> dict[tuple[str, str, str], Cell]:
    """Every cell by its table, row and column."""
    return {(str(table["table"]), cell["row"], cell["column"]): cell for table in tables for cell in table["cells"]}


def counts_block(tables: Sequence[Result]) -> str:
    """How much was run and how it compares: a table of counts, and in a few sentences what it leaves out."""
    groups = {name: cells for name, cells in _groups(tables).items() if count(cells).run}
    words = [word for word in WORDS if word not in ("both fail", "not run")]
    head = ["", "run", "matched", "both fail", "of these alike", *words[1:], "good", "by the paper's deviations"]
    lines = [head]
    for name, cells in groups.items():
        counts, lenient = count(cells), sum(map(_is_lenient, cells))
        numbers = [counts.run, counts.words["matched"], counts.words["both fail"], _alike_failures(cells)]
        rest = [counts.words[word] for word in words[1:]]
        shares = [_share(counts), _percent(counts.good - lenient, counts.run)]
        lines.append([name, *(str(n) for n in (*numbers, *rest)), *shares])
    return "\n\n".join([f"{_start(tables)}.", _table(lines), _beyond(groups)])


def summary_block(tables: Sequence[Result]) -> str:
    """The same in a few sentences."""
    groups = {name: cells for name, cells in _groups(tables).items() if count(cells).run}
    parts = [f"{_start(tables)}."]
    for kind in ("generated", "given"):
        cells = [cell for name, found in groups.items() if name.startswith(f"{kind} data") for cell in found]
        gnp = [cell for cell in cells if is_gnp(cell)]
        if cells:
            strict = _percent(count(gnp).good - sum(map(_is_lenient, gnp)), count(gnp).run)
            parts.append(
                f"On {kind} data {_share(count(cells))} agree: they match, are better, or fail in both. "
                f"Of GNP's own {_share(count(gnp))} agree, or {strict} by the published deviations."
            )
    return " ".join([*parts, _by_deviations_alone(groups)])


def _groups(tables: Sequence[Result]) -> dict[str, list[Cell]]:
    """All compared cells by kind of data and of model."""
    generated = _generated(tables)
    groups: dict[str, list[Cell]] = {}
    for kind, chosen in (("generated", generated), ("given", [table for table in tables if table not in generated])):
        cells = [cell for table in chosen for cell in table["cells"] if is_compared(cell)]
        groups[f"{kind} data, GNP"] = [cell for cell in cells if is_gnp(cell)]
        groups[f"{kind} data, baselines"] = [cell for cell in cells if not is_gnp(cell)]
    return {**groups, "**all**": [cell for cells in groups.values() for cell in cells]}


def _start(tables: Sequence[Result]) -> str:
    everything = count(cell for table in tables for cell in table["cells"])
    if everything.run == everything.total:
        return f"All {everything.total} numbers of the paper that have a deviation were run"
    return f"Of the paper's {everything.total} numbers with a deviation {everything.run} were run"


def _beyond(groups: Mapping[str, Sequence[Cell]]) -> str:
    """What matches by our own deviation alone, and what agrees by deviations alone."""
    wide = {
        kind: [
            cell
            for name, cells in groups.items()
            if name.startswith(f"{kind} data")
            for cell in cells
            if not cell.get("strict", True)
        ]
        for kind in ("generated", "given")
    }
    told = [
        f"{len(cells)} on {kind} data ({sum(map(_is_lenient, cells))} of them worse than the paper in the mean)"
        for kind, cells in wide.items()
        if cells
    ]
    first = (
        f"Some numbers match only because our runs vary more than the paper's: {' and '.join(told)}. " if told else ""
    )
    return first + _by_deviations_alone(groups)


def _by_deviations_alone(groups: Mapping[str, Sequence[Cell]]) -> str:
    near = sum(map(_is_near, groups["**all**"]))
    share = _percent(near, count(groups["**all**"]).run, of=True)
    return f"By deviations alone, without the rule on errors above 20 %, {share} agree."


def _is_near(cell: Cell) -> bool:
    """Whether the means agree within two of the larger deviation, whatever the verdict."""
    return word_of(cell) == "matched" or bool(cell.get("excused"))


def _alike_failures(cells: Iterable[Cell]) -> int:
    return sum(word_of(cell) == "both fail" and _is_near(cell) for cell in cells)


def _is_lenient(cell: Cell) -> bool:
    """Whether something worse than the paper's is matched by our own deviation only."""
    if cell.get("strict", True):
        return False
    ours, paper = float(cell["ours"]["mean"]), float(cell["paper"]["mean"])
    return ours < paper if cell["metric"] in HIGHER else ours > paper


def verdicts_block(tables: Sequence[Result]) -> str:
    """The number of cells by verdict, table by table."""
    words = list(WORDS)
    words.insert(words.index("both fail") + 1, "of these alike")
    lines = [["table", "cells of", "published", *words]]
    totals: dict[str, list[Cell]] = {}
    for table in tables:
        for kind, counts in by_kind(table["cells"]).items():
            if counts.total:
                cells = [cell for cell in table["cells"] if is_gnp(cell) == (kind == GNP)]
                lines.append([plain(table["table"]), kind, *_numbers(cells)])
                totals.setdefault(kind, []).extend(cells)
    for kind, cells in totals.items():
        lines.append(["**all**", kind, *_numbers(cells)])
    lines.append(["**all**", "both", *_numbers([cell for cells in totals.values() for cell in cells])])
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
    lines = [["table", "command", "commits", "machines", "units", "seconds", "of these on a GPU"]]
    for table in tables:
        origin = table["origin"]
        where = ", ".join(f"{letter[words]} ({units})" for words, units in origin["machines"])
        units = f"{origin['units']} of {origin['of']}"
        command, commits = f"`{origin['command']}`", ", ".join(origin["commits"])
        ways = Counter(str(cell["search"]) for cell in table["cells"] if "search" in cell)
        command += "".join(f"; `--search {way}` for {n} of its cells" for way, n in sorted(ways.items()))
        lines.append(
            [
                plain(table["table"]),
                command,
                commits,
                where,
                units,
                *(f"{origin[of]:,.0f}" for of in ("seconds", "gpu_seconds")),
            ]
        )
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


def form_counts_block(tables: Sequence[Result]) -> str:
    """How many graph networks are good in each of their two forms, and as validation chooses."""
    named = _in_forms(tables)
    both = [(table, cell) for table, cell in named if len(cell["forms"]) == len(FORMS)]
    if not both:
        return NO_FORMS
    parts = {"of GNP": [c for _, c in both if is_gnp(c)], "of baselines": [c for _, c in both if not is_gnp(c)]}
    lines = [["", "cells", *FORMS.values(), "validation chooses"]]
    for words, cells in parts.items():
        good = [sum(cell["forms"][form]["verdict"] in GOOD for cell in cells) for form in FORMS]
        chosen = sum(word_of(cell) in GOOD for cell in cells)
        lines.append([words, *(str(n) for n in (len(cells), *good, chosen))])
    missing = Counter(str(table["table"]) for table, cell in named if len(cell["forms"]) < len(FORMS))
    one = ", ".join(f"{n} of {plain(name)}" for name, n in missing.items())
    rest = f" {sum(missing.values())} more were run in one form only ({one})." if missing else ""
    taken = sum(cell["form"] == "gin" for _, cell in both)
    return (
        f"{len(both)} published cells were run in both forms; validation chooses GIN's for {taken} of them.{rest} "
        f"Cells that are matched, better, or fail in both:\n\n{_table(lines)}"
    )


def form_block(tables: Sequence[Result]) -> str:
    """What graph networks come to in each of their two forms; a cell that several tables have stands there once."""
    lines = [["table", "row", "column", "paper", *FORMS.values(), "validation chooses", "verdicts"]]
    told: list[list[Any]] = []
    for table, cell in _in_forms(tables):
        if len(cell["forms"]) < len(FORMS):
            continue
        forms = [{**cell, **cell["forms"][form]} for form in FORMS]
        same = [cell["paper"], *(one["ours"]["runs"] for one in forms)]
        if is_gnp(cell) and same in told:
            continue
        told.append(same)
        values = [shown(cell).paper or "", *(shown(one).ours for one in forms), FORMS[cell["form"]]]
        words = ", then ".join(dict.fromkeys(map(word_of, forms)))
        lines.append([plain(table["table"]), plain(cell["row"]), plain(cell["column"]), *values, words])
    return _table(lines) if len(lines) > 1 else NO_FORMS


def _in_forms(tables: Sequence[Result]) -> list[tuple[Result, Cell]]:
    return [(table, cell) for table in tables for cell in table["cells"] if is_compared(cell) and "forms" in cell]


def spread_counts_block(tables: Sequence[Result], spread: Mapping[int, Sequence[Result]]) -> str:
    """How many verdicts are the same on other data, by data seed."""
    found: dict[int, list[tuple[str, Cell, Cell]]] = {}
    for seed, table, pairs in _compared(tables, spread):
        both = [(one, other) for one, other in pairs if is_compared(one) and other["ours"]]
        found.setdefault(seed, []).extend((plain(table["table"]), one, other) for one, other in both)
    lines = [["data seed", "tables", "cells", "same verdict"]]
    for seed, mine in found.items():
        same = sum(word_of(one) == word_of(other) for _, one, other in mine)
        lines.append([str(seed), ", ".join(dict.fromkeys(name for name, *_ in mine)), str(len(mine)), str(same)])
    return _table(lines) if found else NO_SPREAD


def spread_block(tables: Sequence[Result], spread: Mapping[int, Sequence[Result]]) -> str:
    """Tables on other data beside the record: both means, both verdicts."""
    blocks: list[str] = []
    for seed, table, pairs in _compared(tables, spread):
        pairs = [(one, other) for one, other in pairs if one["ours"] and other["ours"]]
        lone = any(len(cell.get("forms") or FORMS) < len(FORMS) for pair in pairs for cell in pair)
        lines = [["row", "column", "paper", "data seed 0", f"data seed {seed}", "verdicts"]]
        lines += (_spread_line(one, other) for one, other in pairs)
        title = f"### {plain(table['table'])}, data seed {seed}"
        note = ["Where one of the two has a single form of a network, both columns show that form."] if lone else []
        blocks += [title, *note, _table(lines)]
    return "\n\n".join(blocks) if blocks else NO_SPREAD


def _compared(
    tables: Sequence[Result], spread: Mapping[int, Sequence[Result]]
) -> Iterator[tuple[int, Result, list[tuple[Cell, Cell]]]]:
    """Each table on other data with its cells beside those of the record.

    A table that only repeats cells of those before it, as one of GNP alone does, is left out.
    """
    first = _cells(tables)
    for seed, others in spread.items():
        told: set[tuple[str, ...]] = set()
        for table in others:
            pairs = [_alike(first[table["table"], cell["row"], cell["column"]], cell) for cell in table["cells"]]
            values = {tuple(_spread_line(one, other)[2:]) for one, other in pairs if one["ours"] and other["ours"]}
            if not values <= told:
                yield seed, table, pairs
            told |= values


def _spread_line(one: Cell, other: Cell) -> list[str]:
    words = dict.fromkeys(word_of(cell) for cell in (one, other) if word_of(cell))
    values = [shown(other).paper or "", *(shown(cell).ours for cell in (one, other))]
    return [plain(other["row"]), plain(other["column"]), *values, ", then ".join(words)]


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
    return _percent(counts.good, counts.run, of=True)


def _percent(part: int, whole: int, *, of: bool = False) -> str:
    """A share in percent; ``of``: as "1 of 2 (50.0 %)"."""
    percent = f"{number(100 * part / whole, 1)} %" if whole else "nothing"
    return f"{part} of {whole} ({percent})" if of else percent


def _numbers(cells: Sequence[Cell]) -> Iterator[str]:
    counts = count(cells)
    yield str(counts.total)
    for word, n in counts.words.items():
        yield str(n or "")
        if word == "both fail":
            yield str(_alike_failures(cells) or "")


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
