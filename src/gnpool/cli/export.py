"""``gnpool export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gnpool.cli.inputs import Json, Model, output_file
from gnpool.cli.output import say, show_json

EPILOG = "Example: gnpool export my-fit --format onnx -o model.onnx"


def export(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, or the folder for pyg.")],
    form: Annotated[
        Literal["onnx", "torch", "pyg"],
        typer.Option("--format", help="ONNX, a program of torch.export, or source code and weights in plain PyG."),
    ] = "onnx",
    json: Json = False,
) -> None:
    """Write a saved model in a form that runs without gnpool.

    Numbers of nodes, edges and graphs stay free. The ONNX file is checked in onnxruntime on graphs of other sizes. It
    begins where preprocessing ends; what that was is kept in its metadata.
    """
    place = out if form == "pyg" else output_file(out)
    from gnpool.fit.export import write_export

    written = write_export(model, place, form)
    if json:
        show_json({"format": form, "files": [str(path) for path in written]})
        return
    for path in written:
        say(f"wrote {path}")
