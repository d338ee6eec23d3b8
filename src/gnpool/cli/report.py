"""``gnpool report``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnpool.cli.errors import FAILED
from gnpool.cli.inputs import output_file, stored_in
from gnpool.cli.output import say, show_json

if TYPE_CHECKING:
    from gnpool.report import StoredStudy

EPILOG = "Example: gnpool report results/quick -o report.html"
PAGE = "report.html"


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="What 'gnpool reproduce' or 'gnpool fit' wrote."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", dir_okay=False, help="The page to write.  [default: DIR/report.html]"),
    ] = None,
    table: Annotated[list[str] | None, typer.Option("--table", "-t", help="Show this table only; repeat it.")] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown, and write no page.")
    ] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh", help="Compute all tables anew from the stored scores, also those that are not finished."
        ),
    ] = False,
    fill: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            help="Write the record anew into the marked blocks of this Markdown file, or of all those in a folder.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --fill: change nothing, and fail if a file is out of step.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print answer, verdicts and intervals as JSON.")] = False,
) -> None:
    """Turn results into one page that opens anywhere.

    It shows the answer, charts, tables beside the paper's, and what was run. The page needs no network and no server. A
    folder that holds raw scores but no results.json, since its tables are not finished, is shown as far as it is. Of a
    folder that holds one such folder, that one is meant.

    With --fill, files are kept in step with the scores: each block between the lines '<!-- gnpool:NAME -->' and
    '<!-- gnpool:end -->' is written anew. NAME is headline, summary, counts, verdicts, differing, cells, origin,
    cost, form_counts, form, spread_counts or spread.
    """
    if markdown and (json or out is not None):
        raise typer.BadParameter("it prints Markdown and nothing else", param_hint="'--markdown'")
    if out is not None:
        out = output_file(out, makes_folder=True)
    if check and not fill:
        raise typer.BadParameter("it needs a file to look at", param_hint="'--check'")
    folder = _study_folder(folder)
    if fill:
        if markdown or table or out is not None:
            raise typer.BadParameter("it fills files and nothing else", param_hint="'--fill'")
        fill_files(folder, [path for one in fill for path in _with_blocks(one)], check=check, json=json)
        return
    from gnpool.lab.stored import filled, stored_tables
    from gnpool.report import answer_of, page, read_study
    from gnpool.report import markdown as as_markdown
    from gnpool.store.files import write

    with stored_in(folder):
        study = read_study(folder)
    for damage in study.damaged:
        typer.echo(f"Warning: {damage}", err=True)
    if refresh or (not study.tables and study.fit is None):
        study = dataclasses.replace(study, tables=stored_tables(folder) or study.tables)
    elif study.fit is None:  # results.json has the tables of the last run; earlier ones have left their scores
        known = {one["table"] for one in study.tables}
        done = [one for one in stored_tables(folder) if one["table"] not in known and filled(one) == len(one["cells"])]
        study = dataclasses.replace(study, tables=[*study.tables, *done])
    if table:
        study = dataclasses.replace(study, tables=_chosen(study, table))
    if markdown:
        typer.echo(as_markdown(study.tables), nl=False)
        return
    path = folder / PAGE if out is None else out
    with stored_in(folder):
        content = page(study).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, content)
    if json:
        show_json({"page": str(path), "bytes": len(content), "answer": str(answer_of(study)), **_summary(study)})
        return
    say(f"{answer_of(study)}.")
    say(f"wrote {path} ({len(content) / 1e6:.1f} MB)")


def fill_files(folder: Path, files: list[Path], *, check: bool, json: bool) -> None:
    """Write the blocks of Markdown files anew, or see whether that would change them."""
    from gnpool.lab.record import record
    from gnpool.report.markdown.blocks import fill
    from gnpool.report.markdown.record import record_blocks
    from gnpool.store.files import write

    if not (folder / "units").is_dir():
        raise typer.BadParameter(f"{folder} holds no raw scores", param_hint="'DIR'")
    blocks = record_blocks(record(folder))
    old = {path: path.read_text(encoding="utf-8") for path in files}
    new = {path: fill(text, blocks, str(path)) for path, text in old.items()}  # all of them, before any is written
    stale = [path for path in files if new[path] != old[path]]
    if not check:
        for path in stale:
            write(path, new[path].encode())
    if json:
        show_json({"stale" if check else "written": [str(path) for path in stale]})
    else:
        for path in files:
            words = ("is out of step" if check else "written anew") if path in stale else "is in step"
            say(f"{path} {words}")
    if check and stale:
        raise typer.Exit(FAILED)


def _with_blocks(path: Path) -> list[Path]:
    """The file itself, or of a folder every Markdown file that has blocks of the record."""
    if not path.is_dir():
        return [path]
    found = [
        file for file in sorted(path.rglob("*.md")) if "\n<!-- gnpool:end -->\n" in file.read_text(encoding="utf-8")
    ]
    if not found:
        raise typer.BadParameter(f"no Markdown file in {path} has a line '<!-- gnpool:NAME -->'", param_hint="'--fill'")
    return found


def _study_folder(folder: Path) -> Path:
    """The folder itself, the fit that a saved model is part of, or the only folder in it that has results."""
    if (folder / "model.json").exists() and (folder.resolve().parent / "fit.json").exists():
        return folder.resolve().parent
    marks = ("units", "results.json", "fit.json")
    inner = [one for one in sorted(folder.iterdir()) if one.is_dir() and any((one / mark).exists() for mark in marks)]
    return inner[0] if len(inner) == 1 and not any((folder / mark).exists() for mark in marks) else folder


def _chosen(study: StoredStudy, names: list[str]) -> list[dict[str, Any]]:
    tables = {one["table"]: one for one in study.tables}
    for name in names:
        if name not in tables:
            raise typer.BadParameter(
                f"there is no table {name!r} in it; there are {', '.join(tables)}", param_hint="'--table'"
            )
    return [tables[name] for name in dict.fromkeys(names)]


def _summary(study: StoredStudy) -> dict[str, Any]:
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
