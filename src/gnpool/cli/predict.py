"""``gnpool predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnpool.cli.fit import DeviceName, choose_device
from gnpool.cli.inputs import bad_input, output_file
from gnpool.cli.output import say, show_json

EPILOG = "Example: gnpool predict my-fit/model new-graphs -o predictions.csv"


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What 'gnpool fit' saved: DIR or DIR/model.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Graphs in any format of 'gnpool fit'; no targets needed.")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file to write.  [default: print it]")] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Column whose numbers are categories; repeat it.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat it.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Edges of the tables go one way.")] = False,
    device: Annotated[DeviceName, typer.Option(help="Where to compute; auto is a GPU if there is one.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print the predictions as JSON.")] = False,
) -> None:
    """Predict with a saved model: a line of CSV for each graph or node."""
    place = None if out is None else output_file(out)
    with bad_input():
        device = choose_device(device)
        from gnpool.data import read_graphs
        from gnpool.fit import load_predictor
        from gnpool.fit.predict import as_csv, prediction_rows, write_file

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
        outputs, notes = predictor.outputs(table, device)
        head, rows = prediction_rows(predictor, table, outputs)
        if place is not None:
            write_file(place, as_csv(head, rows).encode())
    for note in [*table.notes, *notes]:
        typer.echo(f"Note: {note}", err=True)
    if json:
        show_json([dict(zip(head, row, strict=True)) for row in rows])
    elif out is None:
        typer.echo(as_csv(head, rows), nl=False)
    else:
        say(f"wrote {out}: {len(rows)} predictions")
