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
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, or the folder for pyg and hub.")],
    form: Annotated[
        Literal["onnx", "torch", "pyg", "hub"],
        typer.Option(
            "--format",
            help="ONNX, a program of torch.export (.pt2), source code and weights in plain PyG, or a folder for the "
            "Hugging Face hub.",
        ),
    ] = "onnx",
    json: Json = False,
) -> None:
    """Write a saved model in another form.

    What onnx, torch and pyg give runs without gnpool. Numbers of nodes, edges and graphs stay free. The ONNX file is
    checked in onnxruntime on graphs of other sizes. It begins where preprocessing ends; what that was is kept in its
    metadata. gnpool reads the folder for the hub again.
    """
    place = out if form in ("pyg", "hub") else output_file(out)
    from gnpool.fit.export import write_export

    written = write_export(model, place, form)
    if json:
        show_json({"format": form, "files": [str(path) for path in written]})
        return
    for path in written:
        say(f"wrote {path}")
