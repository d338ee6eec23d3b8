"""``gnpool report``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnpool.cli.output import say, show_json

if TYPE_CHECKING:
    from gnpool.lab.catalog import AnyTable
    from gnpool.report import Study
    from gnpool.store import Store

EPILOG = "Example: gnpool report results/quick -o report.html"
PAGE = "report.html"


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="What 'gnpool reproduce' or 'gnpool fit' wrote."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page to write.  [default: DIR/report.html]")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", "-t", help="Show this table only; may be given several times.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown, and write no page.")
    ] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh", help="Compute all tables anew from the stored scores, even if results.json is there."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print answer, verdicts and intervals for machines.")] = False,
) -> None:
    """Turn results into one page that opens anywhere: the answer, charts, tables beside the paper's, what was run.

    The page needs no network and no server. A folder that holds raw scores but no results.json, since its tables
    are not finished, is shown as far as it is.
    """
    if markdown and (json or output is not None):
        raise typer.BadParameter("it prints Markdown and nothing else", param_hint="'--markdown'")
    from gnpool.report import answer_of, page, read_study
    from gnpool.report import markdown as as_markdown
    from gnpool.store.files import write

    study = read_study(folder)
    for damage in study.damaged:
        typer.echo(f"Warning: {damage}", err=True)
    if refresh or (not study.tables and study.fit is None):
        study = dataclasses.replace(study, tables=stored_tables(folder) or study.tables)
    if table:
        study = dataclasses.replace(study, tables=_chosen(study, table))
    if markdown:
        typer.echo(as_markdown(study.tables), nl=False)
        return
    path = folder / PAGE if output is None else output
    content = page(study).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, content)
    if json:
        show_json({"page": str(path), "bytes": len(content), "answer": str(answer_of(study)), **_summary(study)})
        return
    say(f"{answer_of(study)}.")
    say(f"wrote {path} ({len(content) / 1e6:.1f} MB)")


def _chosen(study: Study, names: list[str]) -> list[dict[str, Any]]:
    tables = {one["table"]: one for one in study.tables}
    for name in names:
        if name not in tables:
            raise typer.BadParameter(
                f"there is no table {name!r} in it; there are {', '.join(tables)}", param_hint="'--table'"
            )
    return [tables[name] for name in dict.fromkeys(names)]


def stored_tables(folder: Path) -> list[dict[str, Any]]:
    """What results.json would hold by now: every table of the lab of which the store has a cell."""
    if not (folder / "units").is_dir():
        return []
    from gnpool.lab import PRESETS, all_tables
    from gnpool.store import Store

    store = Store(folder, create=False)
    used = {str(record.key.get("preset") or record.meta.get("preset")) for record in store.records()}
    presets = [name for name in PRESETS if any(one == name or one.startswith(f"{name}-") for one in used)]
    found = []
    for table in all_tables().values():
        best = max((one for preset in presets for one in _results(table, store, preset)), key=_filled, default=None)
        if best is not None and _filled(best):
            found.append(best)
    return found


def _results(table: AnyTable, store: Store, preset: str) -> Iterator[dict[str, Any]]:
    """A table from what a store holds, in each way in which its settings may have been searched."""
    from gnpool.lab.catalog import StatisticsTable, recipe_results
    from gnpool.lab.classify import ClassificationTable, get_amount
    from gnpool.lab.classify_results import classification_results
    from gnpool.lab.influence import InfluenceTable, influence_amount
    from gnpool.lab.influence_results import influence_results
    from gnpool.lab.presets import get_preset
    from gnpool.lab.training import SEARCHES

    if isinstance(table, ClassificationTable):
        yield classification_results(table, store, get_amount(preset))
    elif isinstance(table, InfluenceTable):
        yield influence_results(table, store, influence_amount(preset))
    elif isinstance(table, StatisticsTable):
        yield table.results(store, preset)
    else:
        for search in SEARCHES:
            yield recipe_results(table, store, get_preset(preset), search)


def _filled(table: dict[str, Any]) -> int:
    return sum(cell["ours"] is not None for cell in table["cells"])


def _summary(study: Study) -> dict[str, Any]:
    from gnpool.report import bootstrap, by_kind

    tables = []
    for table in study.tables:
        cells = [
            {
                **{name: cell.get(name) for name in ("row", "column", "ours", "paper", "verdict", "gnp")},
                "interval": bootstrap((cell.get("ours") or {}).get("runs") or []),
            }
            for cell in table["cells"]
        ]
        counts = {kind: dict(counts.words) for kind, counts in by_kind(table["cells"]).items()}
        tables.append({"table": table["table"], "counts": counts, "cells": cells})
    return {"seconds": study.seconds, "tables": tables}
