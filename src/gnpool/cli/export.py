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
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; for pyg, the folder.")],
    form: Annotated[
        Literal["onnx", "torch", "pyg"],
        typer.Option(
            "--format", help="The format: ONNX, a program of torch.export, or source code and weights in plain PyG."
        ),
    ] = "onnx",
    json: Json = False,
) -> None:
    """Write a saved model in a form that runs without gnpool.

    The written model takes any number of nodes, edges and graphs. The ONNX file is checked in onnxruntime on graphs of
    other sizes. It takes preprocessed features; its metadata describe the preprocessing.
    """
    place = out if form == "pyg" else output_file(out)
    from gnpool.fit.export import write_export

    written = write_export(model, place, form)
    if json:
        show_json({"format": form, "files": [str(path) for path in written]})
        return
    for path in written:
        say(f"wrote {path}")
