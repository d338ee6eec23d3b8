"""``gnpool predict``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from gnpool.cli.inputs import Categorical, DeviceName, Directed, Ignore, Json, Model, output_file, progress
from gnpool.cli.output import say, show_json

EPILOG = "Example: gnpool predict my-fit new-graphs -o predictions.csv"


def predict(
    model: Model,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Graphs in any format of 'gnpool fit'; targets are not needed.")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The CSV file to write.  [default: print it]")] = None,
    categorical: Categorical = None,
    ignore: Ignore = None,
    directed: Directed = False,
    device: DeviceName = "auto",
    json: Json = False,
) -> None:
    """Predict with a saved model.

    The result has a line of CSV for each graph or node. A bar shows the progress. Beyond the data itself, the command
    needs memory for about a million nodes, or for the largest graph.
    """
    place = None if out is None else output_file(out)
    from gnpool.data import read_graphs
    from gnpool.engine import choose_device
    from gnpool.fit import load_predictor
    from gnpool.fit.predict import csv_text, prediction_head, prediction_rows, write_parts
    from gnpool.fit.words import counted

    where = choose_device(device)
    predictor = load_predictor(model)
    table = read_graphs(
        data,
        predictor.problem.level,
        y=predictor.problem.columns,
        labelled=False,
        directed=directed,
        categorical=categorical or (),
        ignore=ignore or (),
    )
    with progress() as show:
        outputs, notes = predictor.outputs(table, where.type, show)
    head = prediction_head(predictor.problem)

    def text() -> Iterator[str]:
        return chain([csv_text([head])], map(csv_text, prediction_rows(predictor, table, outputs)))

    if place is not None:
        write_parts(place, (part.encode() for part in text()))
    for note in [*table.notes, *notes]:
        typer.echo(f"Note: {note}", err=True)
    if json:
        rows = chain.from_iterable(prediction_rows(predictor, table, outputs))
        show_json([dict(zip(head, row, strict=True)) for row in rows])
    elif out is None:
        for part in text():
            typer.echo(part, nl=False)
    else:
        say(f"wrote {out}: {counted(len(outputs), 'prediction')}")
